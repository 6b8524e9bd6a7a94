"""Longest match of known phrases on a list of tokens."""

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Match(NamedTuple, Generic[T]):
    """A phrase found: tokens `start` up to `end`, and what the table knows of it."""

    start: int
    end: int
    value: T


class PhraseTable(Generic[T]):
    """Phrases of one or more tokens; the first entry of a phrase wins."""

    def __init__(self, entries: Iterable[tuple[str, T]]) -> None:
        self._values: dict[str, T] = {}
        self._longest: dict[str, int] = {}
        for phrase, value in entries:
            if phrase in self._values:
                continue
            words = phrase.split(" ")
            self._values[phrase] = value
            self._longest[words[0]] = max(self._longest.get(words[0], 0), len(words))

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, phrase: str) -> bool:
        return phrase in self._values

    def find(self, tokens: Sequence[str]) -> list[Match[T]]:
        """Matches from left to right that do not overlap, the longest first at each place."""
        found: list[Match[T]] = []
        longest, values = self._longest, self._values
        at, count = 0, len(tokens)
        while at < count:
            token = tokens[at]
            length = longest.get(token, 0)
            at += 1
            if not length:
                continue
            for end in range(min(at - 1 + length, count), at - 1, -1):
                phrase = token if end == at else " ".join(tokens[at - 1 : end])
                if phrase in values:
                    found.append(Match(at - 1, end, values[phrase]))
                    at = end
                    break
        return found
