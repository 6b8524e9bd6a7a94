"""Sentiment: negative, neutral or positive; of a whole text and of each aspect it mentions."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Protocol

from opilio.analytics.stages.document import AspectSentiment, Document, Mention, Sentiment
from opilio.analytics.words.aspects import AspectClause, clauses_of_aspects, weigh_aspect
from opilio.analytics.words.features import gram_features, gram_share, grams_of, polarity_features
from opilio.analytics.words.language import ANALYSED
from opilio.analytics.words.linear import LinearModel, QuickModel, load

LABELS = ("negative", "neutral", "positive")
_UNKNOWN = (0.2, 0.6, 0.2)  # no word that the model knows


class SentimentModel(Protocol):
    """Optionally has `languages`: the codes it knows; others get no sentiment. Without it, it is given all."""

    version: str

    def score(self, documents: Sequence[Document]) -> list[Sentiment]:
        """The sentiment of each text."""

    def score_aspects(
        self, document: Document, mentions: Sequence[Mention], overall: Sentiment
    ) -> dict[str, AspectSentiment]:
        """The sentiment about each aspect that a text mentions."""


def features_of(document: Document) -> dict[str, float]:
    features = gram_features(document.tokens, document.language)
    features.update(polarity_features(document.polarity, document.tokens))
    return features


@lru_cache(maxsize=1)
def _weights() -> LinearModel:
    return load(files("opilio.analytics").joinpath("data", "sentiment.json").read_bytes())


class DefaultSentiment:
    """Weighted words and small trained weights; see `docs/reference/model-card.md`."""

    # None means all; others get no sentiment.
    languages: frozenset[str] | None = ANALYSED

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
        """Each aspect by the clauses that mention it."""
        found = clauses_of_aspects(document.tokens, mentions, english=document.language == "en")
        # A question asks about its aspects and does not judge them.
        asks = overall.label == "neutral" and document.polarity.questions > 0
        alone = len(found) == 1
        return {
            aspect: _neutral(clauses)
            if asks
            else self._aspect(document, aspect, clauses, overall if alone else None)
            for aspect, clauses in found.items()
        }

    def _aspect(
        self, document: Document, aspect: str, clauses: Sequence[AspectClause], overall: Sentiment | None
    ) -> AspectSentiment:
        words = _words(clauses)
        scored = [self._clause(document, aspect, clause) for clause in clauses]
        judged_clauses = [chances for chances in scored if chances is not None]
        if not judged_clauses and overall is not None:  # the text mentions no other aspect
            return AspectSentiment(overall.label, overall.score, words)
        mean = (
            [sum(column) / len(judged_clauses) for column in zip(*judged_clauses, strict=True)]
            if judged_clauses
            else list(_UNKNOWN)
        )
        label = LABELS[max(range(3), key=mean.__getitem__)]
        return AspectSentiment(label, round(mean[2] - mean[0], 4), words)

    def _clause(self, document: Document, aspect: str, clause: AspectClause) -> list[float] | None:
        """The probabilities of one clause; None where nothing in it judges the aspect."""
        tokens = document.tokens[clause.start : clause.end]
        polarity = weigh_aspect(aspect, tokens, bare=document.bare)
        if not (polarity.hits or polarity.suggestions or polarity.dangling > 0):
            return None
        grams = grams_of(tokens)
        known = self._model.known(grams, english=document.language == "en")
        return self._model.probabilities(known, gram_share(grams), polarity_features(polarity, tokens))


def _neutral(clauses: Sequence[AspectClause]) -> AspectSentiment:
    return AspectSentiment("neutral", 0.0, _words(clauses))


def _words(clauses: Sequence[AspectClause]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for clause in clauses for word in clause.words))
