"""Feeling by words: which phrases speak for and against, after negation, emphasis and contrast."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from opilio.analytics.words.lexicon import BARE_CUES, MARKED_CUES, Role

# How far a negation reaches, in tokens, and what it leaves of a feeling: "not bad" is weaker praise than "good".
_REACH = 4
_NEGATED_PRAISE, _NEGATED_BLAME = -0.8, -0.6
_BEFORE_CONTRAST, _CONCEDED = 0.6, 0.5


class Hit(NamedTuple):
    """A phrase with a feeling: where it stands and what it is worth in its place."""

    at: int
    value: float
    negated: bool


@dataclass(slots=True)
class Polarity:
    """The feelings of one text, in order, and the signs around them."""

    hits: list[Hit] = field(default_factory=list)
    suggestions: int = 0
    wellwishes: int = 0
    questions: int = 0
    contrasts: int = 0
    dangling: int = 0  # negations that met no feeling: "không giao hàng"
    last_contrast: int = -1

    @property
    def praise(self) -> float:
        return sum(hit.value for hit in self.hits if hit.value > 0)

    @property
    def blame(self) -> float:
        return -sum(hit.value for hit in self.hits if hit.value < 0)

    def between(self, start: int, end: int) -> float:
        return sum(hit.value for hit in self.hits if start <= hit.at < end)


# Compared once for each cue of each text: plain numbers are quicker than members of an enumeration.
_POLARITY, _NEGATOR, _INTENSIFIER, _CONTRAST, _CONCESSION = range(5)
_SUGGESTION, _WELLWISH, _QUESTION, _NEUTRAL, _BREAK = range(5, 10)
assert [*map(int, Role)] == [*range(10)]


def weigh(tokens: Sequence[str], *, bare: bool) -> Polarity:
    """Reads the cues of a text from left to right."""
    seen = Polarity()
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
            seen.hits = [hit._replace(value=hit.value * _BEFORE_CONTRAST) for hit in seen.hits]
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
    return seen
