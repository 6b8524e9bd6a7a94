"""Keywords and aspects: what a text names, and which sides of it the text speaks of."""

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from opilio.analytics.stages.document import Document, Keyword, Mention, Topics
from opilio.analytics.words.bare import TwoTables, bare_forms
from opilio.analytics.words.diacritics import CAPITAL, strip
from opilio.analytics.words.files import entries, read_text

_MOST = 10
_NAMED, _HASHTAG, _COMPOUND, _FOREIGN = 3.0, 2.5, 2.0, 1.5
# Two or more words with capitals, not at the start of a sentence by chance: a brand, a place, a person.
_NAMES = re.compile(
    rf"(?<!\w)[A-Z{CAPITAL}]\w{{0,30}}(?:[ ](?:[A-Z{CAPITAL}]\w{{0,30}}|\d{{1,6}}\w{{0,6}})){{1,3}}(?!\w)"
)
_SYLLABLE = re.compile(
    r"(?:ngh|ng|nh|ch|gh|gi|kh|ph|qu|th|tr|[bcdghklmnpqrstvx])?[aeiouy]{1,3}(?:ch|ng|nh|[cmnpt])?"
)


class KeywordExtractor(Protocol):
    version: str

    def extract(self, documents: Sequence[Document]) -> list[Topics]:
        """Keywords, best first, and mentions of aspects."""


def _stopwords() -> frozenset[str]:
    words = read_text("stopwords.txt").split("\n", 1)[1].split()
    return frozenset(words) | frozenset(map(strip, words))


def _both(phrases: Iterable[str]) -> set[str]:
    listed = set(phrases)
    return listed | set(bare_forms(listed))


_STOPWORDS = _stopwords()
_LISTED_ASPECTS = [(entry.text, entry.section) for entry in entries("aspects.txt")]
_ASPECTS = TwoTables(_LISTED_ASPECTS)
_THINGS = [entry.text for entry in entries("compounds.txt")]
_COMPOUNDS = TwoTables(
    (text, None) for text in [*_THINGS, *(text for text, _ in _LISTED_ASPECTS if " " in text)]
)
_TALKED_OF = _both(text for text, _ in _LISTED_ASPECTS if " " not in text)
_POLAR_WORDS = frozenset(e.text for e in entries("polarity.txt"))


class DefaultKeywords:
    """Compounds from a list, names by their capitals, hashtags, and words that are no Vietnamese syllable."""

    version = "keywords-1"

    def extract(self, documents: Sequence[Document]) -> list[Topics]:
        return [Topics(_keywords(document), _mentions(document)) for document in documents]


def _mentions(document: Document) -> tuple[Mention, ...]:
    tokens = document.tokens
    return tuple(
        Mention(aspect, " ".join(tokens[start:end]), start)
        for start, end, aspect in _ASPECTS.find(tokens, bare=document.bare)
    )


def _keywords(document: Document) -> tuple[Keyword, ...]:
    scores: dict[str, float] = {}
    tokens = document.tokens
    size = len(tokens) + 1

    def add(word: str, weight: float, at: int) -> None:
        scores[word] = scores.get(word, 0.0) + weight * (1 - 0.5 * at / size)

    for hashtag in document.hashtags:
        add(hashtag, _HASHTAG, 0)
    for name in _names(document.text):
        add(name, _NAMED, 0)
    covered: set[int] = set()
    for start, end, _ in _COMPOUNDS.find(tokens, bare=document.bare):
        covered.update(range(start, end))
        add(" ".join(tokens[start:end]), _COMPOUND, start)
    for at, token in enumerate(tokens):
        if at not in covered and (weight := _weight(token)):
            add(token, weight, at)
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Keyword(word, round(math.log1p(score), 3)) for word, score in _unnested(ranked))


def _names(text: str) -> list[str]:
    found = []
    for match in _NAMES.finditer(text):
        words = match.group().lower().split()
        if words[0] in _STOPWORDS or words[0] in _POLAR_WORDS:
            words = words[1:]
        if len(words) > 1 and not any(word in _POLAR_WORDS for word in words):
            found.append(" ".join(words))
    return found


@lru_cache(maxsize=20_000)
def _weight(token: str) -> float:
    """What a single word counts as a keyword; 0 where it is none."""
    if not _names_something(token):
        return 0.0
    return 1.0 if token in _TALKED_OF else _FOREIGN


def _names_something(token: str) -> bool:
    if len(token) < 2 or not token[0].isalpha() or token in _STOPWORDS or token in _POLAR_WORDS:
        return False
    if token in _TALKED_OF:
        return True
    return len(token) > 2 and token.isascii() and _SYLLABLE.fullmatch(token) is None


def _unnested(ranked: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The best, without words that are only a part of a better one."""
    kept: list[tuple[str, float]] = []
    better: list[str] = []
    for word, score in ranked:
        if len(kept) == _MOST:
            break
        spaced = f" {word} "
        if not any(spaced in longer for longer in better):
            kept.append((word, score))
            better.append(spaced)
    return kept
