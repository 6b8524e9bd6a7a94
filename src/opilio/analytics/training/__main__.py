"""Trains the default models on the project's own text: `python -m opilio.analytics.training`."""

import hashlib
import random
import sys
from pathlib import Path

from opilio.analytics.stages import intent, sentiment
from opilio.analytics.stages.preprocessing import DefaultPreprocessor
from opilio.analytics.training.corpus import Example, Generator, written
from opilio.analytics.training.fit import Sample, fit
from opilio.analytics.words.diacritics import strip
from opilio.analytics.words.features import polarity_features
from opilio.analytics.words.linear import LinearModel, dump
from opilio.analytics.words.polarity import Polarity

_DATA = Path(__file__).parent.parent / "data"
_SEED = 11
# Real posts hold words that no list has. A share of the known ones is hidden while training, so that the
# model learns from what stands around them too.
_HIDDEN_SHARE = 0.25
_WRITTEN_WEIGHT = 3.0
# People who write about a thing mostly feel something about it.
_NEUTRAL_WEIGHT = 0.38


def both_spellings(examples: list[Example]) -> list[Example]:
    """Each text as written, and as typed without its marks."""
    bare = [Example(strip(e.text), e.sentiment, e.intent) for e in examples if strip(e.text) != e.text]
    return examples + bare


def train_sentiment(version: str) -> LinearModel:
    generated = list(Generator(_SEED).sentiments(6000))
    hidden = random.Random(_SEED)
    samples: list[Sample] = []
    for examples, weight in ((generated, 1.0), (written(), _WRITTEN_WEIGHT)):
        texts = both_spellings(examples)
        documents = DefaultPreprocessor().prepare([e.text for e in texts], [None] * len(texts))
        for example, document in zip(texts, documents, strict=True):
            features = sentiment.features_of(document)
            if hidden.random() < _HIDDEN_SHARE:
                features.update(polarity_features(_forget(document.polarity, hidden), document.tokens))
            label = example.sentiment or "neutral"
            share = weight * (_NEUTRAL_WEIGHT if label == "neutral" else 1.0)
            samples.append((features, sentiment.LABELS.index(label), share))
    return fit(samples, sentiment.LABELS, version=version)


def train_intent(version: str) -> LinearModel:
    samples: list[Sample] = []
    for examples, weight in ((list(Generator(_SEED).intents(2000)), 1.0), (written(), _WRITTEN_WEIGHT)):
        texts = both_spellings(examples)
        documents = DefaultPreprocessor().prepare([e.text for e in texts], [None] * len(texts))
        samples += [
            (intent.features_of(document), intent.LABELS.index(example.intent or "discussion"), weight)
            for example, document in zip(texts, documents, strict=True)
        ]
    return fit(samples, intent.LABELS, version=version, epochs=4, keep=8_000)


def _forget(seen: Polarity, hidden: random.Random) -> Polarity:
    seen.hits = [hit for hit in seen.hits if hidden.random() < 0.5]
    return seen


def corpus_version() -> str:
    """Names the weights by the text and the word lists they come from."""
    digest = hashlib.sha256()
    for folder in (_DATA, Path(__file__).parent / "corpus"):
        for path in sorted(folder.glob("*.txt")):
            digest.update(path.read_bytes())
    return f"opilio-{digest.hexdigest()[:8]}"


def main() -> None:
    version = corpus_version()
    for name, train in (("sentiment", train_sentiment), ("intent", train_intent)):
        model = train(version)
        data = dump(model)
        (_DATA / f"{name}.json").write_bytes(data)
        sys.stdout.write(f"{name}: {len(model.weights)} features, {len(data) // 1024} KiB\n")


if __name__ == "__main__":
    main()
