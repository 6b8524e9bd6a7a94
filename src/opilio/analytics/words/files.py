"""Reads the word lists that lie in `data/`: sections in brackets, weights before a colon, entries by commas."""

from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple


class Entry(NamedTuple):
    """One entry of a list, with the section and the weight it stands under."""

    section: str
    weight: float
    text: str


def read_text(name: str) -> str:
    return files("opilio.analytics").joinpath("data", name).read_text(encoding="utf-8")


def lines_of(text: str) -> Iterator[str]:
    for raw in text.splitlines():
        line = raw.strip()
        if line and not line.startswith("# "):
            yield line


def entries(name: str, separator: str = ",") -> Iterator[Entry]:
    """Every entry of a list, in the file's order."""
    section = ""
    for line in lines_of(read_text(name)):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        head, colon, rest = line.partition(": ")
        weight, body = (float(head), rest) if colon and _is_number(head) else (1.0, line)
        for text in body.split(separator):
            if text.strip():
                yield Entry(section, weight, text.strip())


def _is_number(text: str) -> bool:
    return text.lstrip("+-").replace(".", "", 1).isdigit()
