"""Longest match of known phrases on a list of tokens."""

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")

Match: TypeAlias = tuple[int, int, T]  # tokens from, up to, and what the table knows of the phrase
_Node: TypeAlias = list[Any]  # the value of the phrase that ends here, and the tokens that may follow
_NOTHING = object()


class PhraseTable(Generic[T]):
    """Phrases of one or more tokens, as a tree of tokens; the first entry of a phrase wins."""

    def __init__(self, entries: Iterable[tuple[str, T]]) -> None:
        self._first: dict[str, _Node] = {}
        self._count = 0
        for phrase, value in entries:
            node = self._node(phrase)
            if node[0] is _NOTHING:
                node[0] = value
                self._count += 1

    def _node(self, phrase: str) -> _Node:
        level: dict[str, _Node] = self._first
        node: _Node = []
        for word in phrase.split(" "):
            node = level.setdefault(word, [_NOTHING, {}])
            level = node[1]
        return node

    def __len__(self) -> int:
        return self._count

    def __contains__(self, phrase: str) -> bool:
        level: dict[str, _Node] = self._first
        node: _Node | None = None
        for word in phrase.split(" "):
            node = level.get(word)
            if node is None:
                return False
            level = node[1]
        return node is not None and node[0] is not _NOTHING

    def find(self, tokens: Sequence[str]) -> list[Match[T]]:
        """Matches from left to right that do not overlap, the longest first at each place."""
        found: list[Match[T]] = []
        free = 0  # tokens before this belong to a match
        ended = [*tokens, None]
        for at, begun in enumerate(map(self._first.get, tokens)):
            if begun is None or at < free:
                continue
            node: _Node | None = begun
            end, best = at, None
            while node is not None:
                end += 1
                if node[0] is not _NOTHING:
                    best = (at, end, node[0])
                node = node[1].get(ended[end])
            if best is not None:
                found.append(best)
                free = best[1]
        return found
