"""Where settings come from besides `Settings`: the file, variables by platform, and names that are no setting."""

import difflib
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opilio.errors import OpilioError

SETTINGS_FILE = "opilio.toml"
_BACKOFF = "OPILIO_RETRY_BACKOFF_SECONDS__"
# Variables with the prefix that are not settings of the server: of bots, of benchmarks, and between our own processes.
_OTHER_VARIABLES = (
    "OPILIO_BOT_",
    "OPILIO_BENCH_",
    "OPILIO_DATABASE_ON_STDIN",
    "OPILIO_KEY",
    "OPILIO_PARENT_PID",
    _BACKOFF,
    "OPILIO_SERVER",
    "OPILIO_SHARED_PORT",
    "OPILIO_TEST_",
)


def backoff_by_platform(environment: Mapping[str, str]) -> dict[str, float]:
    """`OPILIO_RETRY_BACKOFF_SECONDS__TIKTOK=60`."""
    return {
        name.removeprefix(_BACKOFF).lower(): float(value)
        for name, value in environment.items()
        if name.startswith(_BACKOFF)
    }


def wrong_backoffs(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if name.startswith(_BACKOFF) and not _positive(value):
            yield f"{name} must be a number of seconds, more than 0"


def _positive(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def read_settings_file() -> Mapping[str, Any]:
    path = Path(SETTINGS_FILE)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise OpilioError(f"{path.absolute()} cannot be read: {error}.") from None


def unknown_names(
    environment: Mapping[str, str], file: Mapping[str, Any], fields: Sequence[str]
) -> Iterator[str]:
    """What looks like a setting and is none, with the setting that was probably meant."""
    known = [f"OPILIO_{name.upper()}" for name in fields]
    for name in sorted(environment):
        upper = name.upper()
        if upper.startswith("OPILIO_") and upper not in known and not upper.startswith(_OTHER_VARIABLES):
            yield f"{name} is not a setting{_meant(upper, known)}"
    for name in sorted(file):
        if name not in fields:
            yield f"{name} in {SETTINGS_FILE} is not a setting{_meant(name, fields)}"


def _meant(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f"; did you mean {close[0]}?" if close else ""
