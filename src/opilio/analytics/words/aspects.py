"""The clauses of a text that judge an aspect, and the weights of their words for that aspect."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from opilio.analytics.words.bare import TwoTables
from opilio.analytics.words.files import entries
from opilio.analytics.words.polarity import Hit, Polarity, weigh
from opilio.analytics.words.tokens import BREAKS

_CLAUSE_WORDS = frozenset({"nhưng", "nhung", "tuy", "song", "but", "however", "còn", "mà", "although"})
# Of each aspect; a transcript that says more has been judged by then.
_MOST_CLAUSES = 200
# Between two mentions, these join them: "camera và pin đều tốt".
_JOINING = frozenset(
    {"và", "va", "với", "voi", "lẫn", "lan", "cùng", "cung", "and", "with", ",", "cả", "ca", "the"}
)


class Mentioned(Protocol):
    """A place in a text that names an aspect."""

    @property
    def aspect(self) -> str: ...
    @property
    def word(self) -> str: ...
    @property
    def at(self) -> int: ...


class AspectClause(NamedTuple):
    """The tokens that judge an aspect, and the words that name it there."""

    start: int
    end: int
    words: tuple[str, ...]


def clauses_of(tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Spans between punctuation and contrast words; each token is in exactly one."""
    clauses: list[tuple[int, int]] = []
    start = 0
    for at, token in enumerate(tokens):
        if token in BREAKS:
            clauses.append((start, at + 1))
            start = at + 1
        elif token in _CLAUSE_WORDS and at > start:
            clauses.append((start, at))
            start = at
    clauses.append((start, len(tokens) + 1))
    return clauses


def clauses_of_aspects(
    tokens: Sequence[str], mentions: Sequence[Mentioned], *, english: bool
) -> dict[str, list[AspectClause]]:
    """For each aspect the clauses about it; a clause with several aspects is divided between them."""
    clauses = iter(clauses_of(tokens))
    start, end = next(clauses)
    found: dict[str, list[AspectClause]] = {}
    together: list[Mentioned] = []
    for mention in [*mentions, None]:
        while together and (mention is None or mention.at >= end):
            for aspect, clause in _divided(tokens, together, start, end, english=english):
                if len(known := found.setdefault(aspect, [])) < _MOST_CLAUSES:
                    known.append(clause)
            together = []
        if mention is None:
            break
        while mention.at >= end:
            start, end = next(clauses)
        together.append(mention)
    return found


def _divided(
    tokens: Sequence[str], mentions: Sequence[Mentioned], start: int, end: int, *, english: bool
) -> list[tuple[str, AspectClause]]:
    """Vietnamese judges after the noun, so each aspect has the tokens up to the next one."""
    groups = [mentions] if english else _groups(tokens, mentions)
    parts: list[tuple[str, AspectClause]] = []
    for index, group in enumerate(groups):
        begins = start if index == 0 else group[0].at
        ends = groups[index + 1][0].at if index + 1 < len(groups) else end
        words: dict[str, dict[str, None]] = {}
        for mention in group:
            words.setdefault(mention.aspect, {})[mention.word] = None
        parts += [(aspect, AspectClause(begins, ends, tuple(named))) for aspect, named in words.items()]
    return parts


def _groups(tokens: Sequence[str], mentions: Sequence[Mentioned]) -> Sequence[Sequence[Mentioned]]:
    """Mentions that are judged together: of one aspect in a row, or joined by "and"."""
    groups: list[list[Mentioned]] = [[mentions[0]]]
    for mention in mentions[1:]:
        last = groups[-1][-1]
        between = tokens[last.at + len(last.word.split(" ")) : mention.at]
        if last.aspect == mention.aspect or all(token in _JOINING for token in between):
            groups[-1].append(mention)
        else:
            groups.append([mention])
    return groups


@lru_cache(maxsize=1)
def _tables() -> dict[str, TwoTables[float]]:
    listed: dict[str, list[tuple[str, float]]] = {}
    for entry in entries("aspect_polarity.txt"):
        listed.setdefault(entry.section, []).append((entry.text, entry.weight))
    return {aspect: TwoTables(words) for aspect, words in listed.items()}


def weigh_aspect(aspect: str, tokens: Sequence[str], *, bare: bool) -> Polarity:
    """The polarity of a clause, with the weights that its words have for this aspect."""
    seen = weigh(tokens, bare=bare)
    table = _tables().get(aspect)
    matches = table.find(tokens, bare=bare) if table else []
    if not matches:
        return seen
    general = {hit.at: hit for hit in seen.hits}
    for start, end, weight in matches:
        inside = [general.pop(at) for at in range(start, end) if at in general]
        general[start] = Hit(start, weight, negated=any(hit.negated for hit in inside))
    seen.hits = [general[at] for at in sorted(general)]
    return seen
