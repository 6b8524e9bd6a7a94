"""A history of page changes: JSON lines `{url, importance, changes: [unix seconds]}`, plain or compressed with gzip."""

import gzip
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from opilio.errors import OpilioError

_DAY = 86400.0
_GZIP = b"\x1f\x8b"


class Line(msgspec.Struct):
    url: str
    changes: list[float]
    importance: float = 1.0


@dataclass(frozen=True)
class Trace:
    """Pages and when they changed, in days from the start."""

    urls: Sequence[str]
    weights: Sequence[float]
    changes: Sequence["array[float]"]
    days: float

    @property
    def total_changes(self) -> int:
        return sum(len(times) for times in self.changes)

    def hosts(self) -> list[str]:
        return [urlsplit(url).netloc for url in self.urls]

    def rates(self) -> list[float]:
        """Changes per day of each page over the whole history."""
        return [len(times) / self.days for times in self.changes]


def read(path: Path) -> Trace:
    """The trace in a file; a line that is none is named."""
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == _GZIP
        with (gzip.open if compressed else open)(path, "rb") as file:
            lines = [_line(path, number, raw) for number, raw in enumerate(file, start=1) if raw.strip()]
    except OSError as error:
        raise OpilioError(f"{path} cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise OpilioError(f"{path} is damaged: {error}") from None
    return from_lines(lines, str(path))


def _line(path: Path, number: int, raw: bytes) -> Line:
    try:
        line = msgspec.json.decode(raw, type=Line)
    except msgspec.DecodeError as error:
        raise OpilioError(f"{path} line {number} is no page of a trace: {error}") from None
    if not line.importance > 0 or line.importance == float("inf"):
        raise OpilioError(f"{path} line {number}: importance must be greater than 0")
    return line


def from_lines(lines: Iterable[Line], name: str = "the trace") -> Trace:
    """Times become days since the first change of any page."""
    pages = list(lines)
    times = [time for page in pages for time in page.changes]
    if not times or min(times) == max(times):
        raise OpilioError(f"{name} needs at least two changes at different times")
    start = min(times)
    return Trace(
        urls=[page.url for page in pages],
        weights=[page.importance for page in pages],
        changes=[array("d", sorted((time - start) / _DAY for time in page.changes)) for page in pages],
        days=(max(times) - start) / _DAY,
    )
