"""The project's own training text: clauses joined by frames, and whole posts written by hand."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from opilio.analytics.words.files import lines_of

_SLOT = re.compile(r"\{(\w+)\}")
SENTIMENTS = ("negative", "neutral", "positive")
_DRESSED = 0.5
_OWN = 0.6
_MORE_ENGLISH = 2  # one domain of many, for half of the languages
_KINDS = {"s": "subjects", "p": "positive", "n": "negative", "u": "neutral"}


@dataclass(frozen=True, slots=True)
class Example:
    text: str
    sentiment: str | None
    intent: str | None


def _read(name: str) -> list[str]:
    text = files("opilio.analytics.training").joinpath("corpus", name).read_text(encoding="utf-8")
    return list(lines_of(text))


def _sections(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    section = ""
    for line in _read(name):
        if line.startswith("["):
            section = line.strip("[]")
        else:
            found.setdefault(section, []).append(line)
    return found


def _domains() -> dict[str, dict[str, list[str]]]:
    return {
        name: {kind: body.split(", ") for kind, _, body in (line.partition(": ") for line in lines)}
        for name, lines in _sections("reviews.txt").items()
    }


class Generator:
    """Fills frames with clauses of one domain at a time; the same seed gives the same text."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._domains = _domains()
        self._names_of_domains = [*self._domains, *["english"] * _MORE_ENGLISH]
        self._frames = _sections("frames.txt")
        self._intents = _sections("intents.txt")
        self._names = _sections("names.txt")

    def sentiments(self, count: int) -> Iterator[Example]:
        for _ in range(count):
            for sentiment in SENTIMENTS:
                domain = self._draw.choice(self._names_of_domains)
                text = self._fill(
                    self._draw.choice(self._frames_for(sentiment, domain)), self._domains[domain]
                )
                yield Example(self._dress(text), sentiment, None)

    def intents(self, count: int) -> Iterator[Example]:
        for _ in range(count):
            for intent, frames in self._intents.items():
                domain = self._domains[self._draw.choice(self._names_of_domains)]
                yield Example(self._dress(self._fill(self._draw.choice(frames), domain)), None, intent)

    def _frames_for(self, sentiment: str, domain: str) -> list[str]:
        """A domain with frames of its own uses them for half of its texts, and the general ones for the rest."""
        own = self._frames.get(f"{sentiment}_{domain}")
        return own if own and self._draw.random() < _OWN else self._frames[sentiment]

    def _dress(self, text: str) -> str:
        """Filler words, added to every class alike, so that the model learns nothing from them."""
        if self._draw.random() < _DRESSED:
            text = f"{self._draw.choice(self._frames['before'])} {text}"
        if self._draw.random() < _DRESSED:
            text = f"{text} {self._draw.choice(self._frames['after'])}"
        return text

    def _fill(self, frame: str, domain: dict[str, list[str]]) -> str:
        return _SLOT.sub(lambda match: self._word(match.group(1), domain), frame)

    def _word(self, slot: str, domain: dict[str, list[str]]) -> str:
        if slot in _KINDS:
            return self._draw.choice(domain[_KINDS[slot]])
        return self._draw.choice(self._names[slot])


def written() -> list[Example]:
    """The posts written by hand."""
    examples = []
    for line in _read("examples.txt"):
        labels, _, text = line.partition(" | ")
        sentiment, intent = labels.split()
        examples.append(Example(text, sentiment, intent))
    return examples
