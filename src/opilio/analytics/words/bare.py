"""Syllables that lose their meaning with their marks: `rat` is `rất` and `rát`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from opilio.analytics.words.diacritics import strip
from opilio.analytics.words.files import entries, read_text
from opilio.analytics.words.phrases import Match, PhraseTable

T = TypeVar("T")

_LISTS = ("stopwords.txt", "compounds.txt", "aspects.txt", "common.txt")


def _syllables() -> Iterator[str]:
    texts = [read_text(name) for name in _LISTS]
    texts += [entry.text for entry in entries("polarity.txt") if not entry.section.startswith("stripped")]
    return (match.group() for match in re.finditer(r"[^\W\d_]+", " ".join(texts).lower()))


def _ambiguous(syllables: Iterable[str]) -> frozenset[str]:
    meanings: dict[str, set[str]] = {}
    for syllable in syllables:
        meanings.setdefault(strip(syllable), set()).add(syllable)
    return frozenset(bare for bare, several in meanings.items() if len(several) > 1)


AMBIGUOUS = _ambiguous(_syllables())


def bare_forms(phrases: Iterable[str]) -> Iterator[str]:
    """The phrases without marks, but for single syllables that would mean something else."""
    return (strip(phrase) for phrase in phrases if " " in phrase or strip(phrase) not in AMBIGUOUS)


class TwoTables(Generic[T]):
    """One list as two tables: for text with marks, and for text typed without."""

    def __init__(self, listed: Iterable[tuple[str, T]]) -> None:
        marked = list(listed)
        bare = [(form, value) for phrase, value in marked for form in bare_forms([phrase])]
        # Phrases of several words keep their meaning without marks, so they count in marked text too.
        self._marked = PhraseTable([*marked, *((form, value) for form, value in bare if " " in form)])
        self._bare = PhraseTable(bare)

    def find(self, tokens: Sequence[str], *, bare: bool) -> list[Match[T]]:
        return (self._bare if bare else self._marked).find(tokens)
