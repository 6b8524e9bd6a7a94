"""Intent: what the writer wants or does."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Protocol

from opilio.analytics.stages.document import Document, Intent
from opilio.analytics.words.bare import TwoTables
from opilio.analytics.words.features import gram_features, gram_share
from opilio.analytics.words.files import entries
from opilio.analytics.words.language import ANALYSED
from opilio.analytics.words.linear import LinearModel, QuickModel, load
from opilio.analytics.words.tokens import BREAKS

LABELS = ("complaint", "question", "purchase_intent", "praise", "comparison", "spam", "crisis", "discussion")
# Rare and costly to cry out for nothing: they need a cue of their own, whatever the weights say.
_NEED_CUE = ("spam", "crisis")
_SPAM_FLAGS = {"has_url", "has_phone", "hashtag_stuffing", "repetitive"}
_PARTICLES = frozenset(
    {
        "không",
        "khong",
        "chưa",
        "chua",
        "vậy",
        "vay",
        "nhỉ",
        "nhi",
        "hả",
        "ha",
        "gì",
        "gi",
        "sao",
        "đâu",
        "dau",
        "nào",
        "nao",
    }
    | {"thế", "the", "ạ", "a", "nhiêu", "nhieu", "shop", "ad"}
)
_OPENERS = frozenset(
    {
        "is",
        "are",
        "does",
        "do",
        "did",
        "can",
        "could",
        "what",
        "which",
        "when",
        "where",
        "who",
        "how",
        "why",
        "should",
        "will",
    }
)
_ASKING = frozenset({"mấy", "gì", "sao", "nào", "đâu", "may", "gi", "nao", "dau", "bao"})
_MORE = frozenset({"hơn", "hon"})


_UNKNOWN_LANGUAGE = Intent("discussion", 0.0, {})


class IntentClassifier(Protocol):
    version: str

    def classify(self, documents: Sequence[Document]) -> list[Intent]:
        """One intent per text, with the scores of all."""


def _cues() -> TwoTables[tuple[str, ...]]:
    """Each phrase with all the intents it is a cue for, so that one pass finds them all."""
    listed: dict[str, tuple[str, ...]] = {}
    for entry in entries("intents.txt"):
        listed[entry.text] = (*listed.get(entry.text, ()), entry.section)
    return TwoTables(listed.items())


_CUES = _cues()


def features_of(document: Document) -> dict[str, float]:
    return gram_features(document.tokens, document.language) | signs_of(document)


def signs_of(document: Document) -> dict[str, float]:
    """Features other than n-grams: polarity, positions of words, cues, and flags of spam."""
    signs = document.signs | _shape(document)
    found = Counter(
        intent for _, _, intents in _CUES.find(document.tokens, bare=document.bare) for intent in intents
    )
    for intent, count in found.items():
        signs[f"#cue_{intent}"] = 1.0
        signs[f"#cues_{intent}"] = float(min(count, 3))
    for flag in _SPAM_FLAGS.intersection(document.flags):
        signs[f"#{flag}"] = 1.0
    return signs


def _shape(document: Document) -> dict[str, float]:
    """Where words stand: a question ends in a particle or starts with its verb; a comparison says "more" after a word."""
    tokens = document.tokens
    words = [token for token in tokens if token not in BREAKS]
    features = {f"#tail_{word}": 1.0 for word in words[-3:] if word in _PARTICLES}
    if words and words[0] in _OPENERS:
        features["#opens_with_verb"] = 1.0
    if not _ASKING.isdisjoint(tokens):
        features["#asking_word"] = 1.0
    if "than" in tokens:
        features["#than"] = 1.0
    if not _MORE.isdisjoint(tokens):
        hits = {hit.at for hit in document.polarity.hits}
        if any(token in _MORE and {at - 1, at - 2} & hits for at, token in enumerate(tokens)):
            features["#felt_more"] = 1.0
    return features


@lru_cache(maxsize=1)
def _weights() -> LinearModel:
    return load(files("opilio.analytics").joinpath("data", "intent.json").read_bytes())


class DefaultIntent:
    """Cues from a list, feelings, and small trained weights."""

    def __init__(self, model: LinearModel | None = None) -> None:
        model = model or _weights()
        self._model = QuickModel(model)
        self.version = model.version

    def classify(self, documents: Sequence[Document]) -> list[Intent]:
        return [self._one(document) for document in documents]

    def _one(self, document: Document) -> Intent:
        if document.language not in ANALYSED:
            return _UNKNOWN_LANGUAGE
        grams, signs = document.grams, signs_of(document)
        known = self._model.known(grams, english=document.language == "en")
        chances = self._model.probabilities(known, gram_share(grams), signs)
        scores = dict(zip(LABELS, chances, strict=True))
        allowed = [label for label in LABELS if label not in _NEED_CUE or _has_cue(label, signs)]
        best = max(allowed, key=scores.__getitem__)
        return Intent(best, round(scores[best], 4), {label: round(p, 4) for label, p in scores.items()})


def _has_cue(label: str, features: dict[str, float]) -> bool:
    return f"#cue_{label}" in features or (
        label == "spam" and any(f"#{flag}" in features for flag in _SPAM_FLAGS)
    )
