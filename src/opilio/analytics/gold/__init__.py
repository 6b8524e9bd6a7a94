"""The project's own gold sets, for measuring only: posts by intent and aspect, by sentiment and by language."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from opilio.analytics.words.files import lines_of

_SENTIMENT = {"+": "positive", "-": "negative", "0": "neutral"}


@dataclass(frozen=True, slots=True)
class GoldPost:
    text: str
    intent: str
    aspects: dict[str, str]
    keywords: tuple[str, ...]


def posts() -> list[GoldPost]:
    return [_parse(line) for line in _lines("posts_")]


def languages() -> list[tuple[str, str]]:
    """Pairs of language and text, in other languages than Vietnamese and English."""
    return [(language, text) for language, _, text in (line.partition(" | ") for line in _lines("languages"))]


def sentiments() -> list[tuple[str, str]]:
    """Pairs of sentiment and text."""
    return [(label, text) for label, _, text in (line.partition(" | ") for line in _lines("sentiments"))]


def _lines(prefix: str) -> Iterator[str]:
    for file in sorted(files("opilio.analytics.gold").iterdir(), key=lambda f: f.name):
        if file.name.startswith(prefix) and file.name.endswith(".txt"):
            yield from lines_of(file.read_text(encoding="utf-8"))


def _parse(line: str) -> GoldPost:
    intent, aspects, keywords, text = (field.strip() for field in line.split("|", 3))
    return GoldPost(
        text,
        intent,
        {aspect[:-1]: _SENTIMENT[aspect[-1]] for aspect in aspects.split()},
        tuple(word.strip() for word in keywords.split(",") if word.strip()),
    )
