"""Sentiment: negative, neutral or positive; of a whole text and of each aspect it speaks of."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Protocol

from opilio.analytics.stages.document import AspectSentiment, Document, Mention, Sentiment
from opilio.analytics.words.features import gram_features, gram_share, polarity_features
from opilio.analytics.words.linear import LinearModel, QuickModel, load
from opilio.analytics.words.tokens import BREAKS

LABELS = ("negative", "neutral", "positive")
_UNKNOWN = (0.2, 0.6, 0.2)  # nothing in the text that the model has ever seen
_ASPECT_MARGIN = 0.25  # net feeling of a clause below this is neither
_CLAUSE_WORDS = frozenset({"nhưng", "nhung", "tuy", "song", "but", "however", "còn"})


class SentimentModel(Protocol):
    version: str

    def score(self, documents: Sequence[Document]) -> list[Sentiment]:
        """The feeling of each text."""

    def score_aspects(
        self, document: Document, mentions: Sequence[Mention], overall: Sentiment
    ) -> dict[str, AspectSentiment]:
        """The feeling about each aspect that a text mentions."""


def features_of(document: Document) -> dict[str, float]:
    features = gram_features(document.tokens, document.language)
    features.update(polarity_features(document.polarity, document.tokens))
    return features


@lru_cache(maxsize=1)
def _weights() -> LinearModel:
    return load(files("opilio.analytics").joinpath("data", "sentiment.json").read_bytes())


class DefaultSentiment:
    """Weighed words and small trained weights; see `docs/reference/model-card.md`."""

    def __init__(self, model: LinearModel | None = None) -> None:
        model = model or _weights()
        self._model = QuickModel(model)
        self.version = model.version

    def score(self, documents: Sequence[Document]) -> list[Sentiment]:
        return [self._one(document) for document in documents]

    def _one(self, document: Document) -> Sentiment:
        chances = self._chances(document)
        label = LABELS[max(range(3), key=chances.__getitem__)]
        rounded = {name: round(chance, 4) for name, chance in zip(LABELS, chances, strict=True)}
        return Sentiment(label, round(chances[2] - chances[0], 4), rounded)

    def _chances(self, document: Document) -> Sequence[float]:
        grams = document.grams
        known = self._model.known(grams, english=document.language == "en")
        if not known and not document.polarity.hits:
            return _UNKNOWN
        return self._model.probabilities(known, gram_share(grams), document.signs)

    def score_aspects(
        self, document: Document, mentions: Sequence[Mention], overall: Sentiment
    ) -> dict[str, AspectSentiment]:
        clauses = clauses_of(document.tokens)
        nets: dict[str, list[float]] = {}
        words: dict[str, list[str]] = {}
        for mention in mentions:
            start, end = next((s, e) for s, e in clauses if s <= mention.at < e)
            nets.setdefault(mention.aspect, []).append(document.polarity.between(start, end))
            words.setdefault(mention.aspect, []).append(mention.word)
        only_one = len(nets) == 1
        return {
            aspect: _aspect(values, tuple(dict.fromkeys(words[aspect])), overall if only_one else None)
            for aspect, values in nets.items()
        }


def clauses_of(tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Stretches between marks and turning words; each token lies in exactly one."""
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


def _aspect(nets: Sequence[float], words: tuple[str, ...], overall: Sentiment | None) -> AspectSentiment:
    net = sum(nets)
    if abs(net) < _ASPECT_MARGIN and overall is not None:  # the text speaks of nothing else
        return AspectSentiment(overall.label, overall.score, words)
    label = "positive" if net >= _ASPECT_MARGIN else "negative" if net <= -_ASPECT_MARGIN else "neutral"
    return AspectSentiment(label, round(net / (1 + abs(net)), 4), words)
