"""Intent: what the writer wants or does."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Protocol

from opilio.analytics.stages.document import Document, Intent
from opilio.analytics.words.bare import bare_forms
from opilio.analytics.words.features import gram_features, polarity_features
from opilio.analytics.words.files import entries
from opilio.analytics.words.linear import LinearModel, load
from opilio.analytics.words.phrases import PhraseTable

LABELS = ("complaint", "question", "purchase_intent", "praise", "comparison", "spam", "crisis", "discussion")
# Rare and costly to cry out for nothing: they need a cue of their own, whatever the weights say.
_NEED_CUE = ("spam", "crisis")
_SPAM_FLAGS = {"has_url", "has_phone", "hashtag_stuffing", "repetitive"}


class IntentClassifier(Protocol):
    version: str

    def classify(self, documents: Sequence[Document]) -> list[Intent]:
        """One intent per text, with the scores of all."""


def _tables() -> dict[str, PhraseTable[None]]:
    listed: dict[str, set[str]] = {}
    for entry in entries("intents.txt"):
        listed.setdefault(entry.section, set()).add(entry.text)
    return {
        intent: PhraseTable((phrase, None) for phrase in sorted(phrases | set(bare_forms(phrases))))
        for intent, phrases in listed.items()
    }


_CUES = _tables()


def features_of(document: Document) -> dict[str, float]:
    features = gram_features(document.tokens)
    features.update(polarity_features(document.polarity, document.tokens))
    for intent, table in _CUES.items():
        count = len(table.find(document.tokens))
        if count:
            features[f"#cue_{intent}"] = 1.0
            features[f"#cues_{intent}"] = float(min(count, 3))
    for flag in _SPAM_FLAGS.intersection(document.flags):
        features[f"#{flag}"] = 1.0
    return features


@lru_cache(maxsize=1)
def _weights() -> LinearModel:
    return load(files("opilio.analytics").joinpath("data", "intent.json").read_bytes())


class DefaultIntent:
    """Cues from a list, feelings, and small trained weights."""

    def __init__(self, model: LinearModel | None = None) -> None:
        self._model = model or _weights()
        self.version = self._model.version

    def classify(self, documents: Sequence[Document]) -> list[Intent]:
        return [self._one(document) for document in documents]

    def _one(self, document: Document) -> Intent:
        features = features_of(document)
        scores = dict(zip(LABELS, self._model.probabilities(features), strict=True))
        allowed = [label for label in LABELS if label not in _NEED_CUE or _has_cue(label, features)]
        best = max(allowed, key=scores.__getitem__)
        return Intent(best, round(scores[best], 4), {label: round(p, 4) for label, p in scores.items()})


def _has_cue(label: str, features: dict[str, float]) -> bool:
    return f"#cue_{label}" in features or (
        label == "spam" and any(f"#{flag}" in features for flag in _SPAM_FLAGS)
    )
