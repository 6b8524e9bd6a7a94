"""Polarity by listed words: which phrases are positive or negative, after negation, emphasis and contrast."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from opilio.analytics.words.lexicon import BARE_CUES, MARKED_CUES, Role

# How far a negation reaches, in tokens, and the factor it applies: "not bad" is weaker than "good".
_REACH = 4
_NEGATED_PRAISE, _NEGATED_BLAME = -0.8, -0.6
_BEFORE_CONTRAST, _CONCEDED = 0.6, 0.5


class Hit(NamedTuple):
    """A polar phrase: its position and its weight in context."""

    at: int
    value: float
    negated: bool


@dataclass(slots=True)
class Polarity:
    """The polar phrases of one text, in order, and counts of other cues."""

    hits: list[Hit] = field(default_factory=list)
    suggestions: int = 0
    wellwishes: int = 0
    questions: int = 0
    contrasts: int = 0
    dangling: int = 0  # negations without a polar phrase: "không giao hàng"
    last_contrast: int = -1

    @property
    def praise(self) -> float:
        return sum(hit.value for hit in self.hits if hit.value > 0)

    @property
    def blame(self) -> float:
        return -sum(hit.value for hit in self.hits if hit.value < 0)

    def between(self, start: int, end: int) -> float:
        return sum(hit.value for hit in self.hits if start <= hit.at < end)


# Compared for every cue of every text: plain numbers are faster than enumeration members.
_POLARITY, _NEGATOR, _INTENSIFIER, _CONTRAST, _CONCESSION = range(5)
_SUGGESTION, _WELLWISH, _QUESTION, _NEUTRAL, _BREAK = range(5, 10)
assert [*map(int, Role)] == [*range(10)]


def weigh(tokens: Sequence[str], *, bare: bool) -> Polarity:
    """Reads the cues of a text from left to right."""
    seen = Polarity()
    before: list[int] = []  # number of hits at each contrast
    negated_until, emphasis, emphasis_end, conceding = -1, 1.0, -1, False
    last_end = -1
    for start, end, cue in (BARE_CUES if bare else MARKED_CUES).find(tokens):
        role = cue.role
        if role == _POLARITY:
            value = (
                cue.weight * (emphasis if start <= emphasis_end else 1.0) * (_CONCEDED if conceding else 1.0)
            )
            negated = start <= negated_until
            if negated:
                value *= _NEGATED_PRAISE if value > 0 else _NEGATED_BLAME
                negated_until = -1
                seen.dangling -= 1
            seen.hits.append(Hit(start, value, negated))
            last_end = end
        elif role == _NEGATOR:
            negated_until = end + _REACH - 1
            seen.dangling += 1
        elif role == _INTENSIFIER:
            if start == last_end and seen.hits:  # "đẹp quá": the emphasis comes after
                seen.hits[-1] = seen.hits[-1]._replace(value=seen.hits[-1].value * cue.weight)
            emphasis, emphasis_end = cue.weight, end
        elif role == _BREAK:
            negated_until, emphasis_end, last_end, conceding = -1, -1, -1, False
        elif role == _CONTRAST:
            before.append(len(seen.hits))
            seen.contrasts += 1
            seen.last_contrast = start
            negated_until, conceding = -1, False
        elif role == _CONCESSION:
            conceding, negated_until = True, -1
        elif role == _SUGGESTION:
            seen.suggestions += 1
        elif role == _WELLWISH:
            seen.wellwishes += 1
        elif role == _QUESTION:
            seen.questions += 1
    if before:
        _weaken(seen.hits, before)
    return seen


def _weaken(hits: list[Hit], before: Sequence[int]) -> None:
    """Weakens each hit once for every contrast after it; `before` has the number of hits at each contrast."""
    factor, end = 1.0, len(hits)
    for count in reversed(before):
        for index in range(count, end):
            hits[index] = hits[index]._replace(value=hits[index].value * factor)
        factor, end = factor * _BEFORE_CONTRAST, count
    for index in range(end):
        hits[index] = hits[index]._replace(value=hits[index].value * factor)
