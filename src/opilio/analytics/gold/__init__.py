"""The project's own gold set: posts with their intent, aspects and keywords, for measuring alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from opilio.analytics.words.files import lines_of

_FEELING = {"+": "positive", "-": "negative", "0": "neutral"}


@dataclass(frozen=True, slots=True)
class GoldPost:
    text: str
    intent: str
    aspects: dict[str, str]
    keywords: tuple[str, ...]


def posts() -> list[GoldPost]:
    return [_parse(line) for line in _lines()]


def _lines() -> Iterator[str]:
    for file in sorted(files("opilio.analytics.gold").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".txt"):
            yield from lines_of(file.read_text(encoding="utf-8"))


def _parse(line: str) -> GoldPost:
    intent, aspects, keywords, text = (field.strip() for field in line.split("|", 3))
    return GoldPost(
        text,
        intent,
        {aspect[:-1]: _FEELING[aspect[-1]] for aspect in aspects.split()},
        tuple(word.strip() for word in keywords.split(",") if word.strip()),
    )
