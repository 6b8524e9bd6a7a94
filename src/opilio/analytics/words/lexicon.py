"""The table of words that express or modify sentiment, with and without diacritics."""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from opilio.analytics.words.bare import AMBIGUOUS
from opilio.analytics.words.diacritics import strip
from opilio.analytics.words.files import Entry, entries
from opilio.analytics.words.phrases import PhraseTable
from opilio.analytics.words.tokens import EMOTICONS


class Role(IntEnum):
    """The effect of a phrase on the polarity of its clause."""

    POLARITY = 0
    NEGATOR = 1
    INTENSIFIER = 2
    CONTRAST = 3
    CONCESSION = 4
    SUGGESTION = 5
    WELLWISH = 6
    QUESTION = 7
    NEUTRAL = 8
    BREAK = 9


class Cue(NamedTuple):
    role: Role
    weight: float


# Where a phrase stands in two sections, the one that makes it neutral wins.
_PRECEDENCE = [
    "neutral",
    "wellwish",
    "question",
    "polarity",
    "negator",
    "intensifier",
    "contrast",
    "concession",
]


def _rank(entry: Entry) -> int:
    return _PRECEDENCE.index(entry.section) if entry.section in _PRECEDENCE else len(_PRECEDENCE)


def _cue(entry: Entry) -> Cue:
    return Cue(Role[entry.section.upper()], entry.weight)


def _bare_cue(entry: Entry) -> Cue:
    """`[stripped]` holds weights, `[stripped_negator]` and the like hold phrases of that role."""
    _, _, role = entry.section.partition("_")
    if role:
        return Cue(Role[role.upper()], entry.weight)
    return Cue(Role.POLARITY if entry.weight else Role.NEUTRAL, entry.weight)


def _always() -> Iterator[tuple[str, Cue]]:
    yield from ((emoji, Cue(Role.POLARITY, weight)) for emoji, weight in EMOTICONS.items())
    yield from ((mark, Cue(Role.BREAK, 0)) for mark in ".,;!?")


def _tables() -> tuple[PhraseTable[Cue], PhraseTable[Cue]]:
    listed = list(entries("polarity.txt"))
    marked = sorted((entry for entry in listed if not entry.section.startswith("stripped")), key=_rank)
    exact = [(entry.text, _cue(entry)) for entry in marked]
    overrides = [(entry.text, _bare_cue(entry)) for entry in listed if entry.section.startswith("stripped")]
    derived = [
        (strip(entry.text), _cue(entry))
        for entry in marked
        if entry.section not in {"polarity", "negator"} or strip(entry.text) not in AMBIGUOUS
    ]
    # Phrases of several words keep their meaning without marks, so they count in marked text too.
    careless = [(phrase, cue) for phrase, cue in derived if " " in phrase]
    return PhraseTable([*_always(), *exact, *careless]), PhraseTable([*_always(), *overrides, *derived])


MARKED_CUES, BARE_CUES = _tables()
