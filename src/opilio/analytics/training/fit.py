"""Fits a linear model: AdaGrad on softmax, a fixed order, no library; the same text gives the same weights."""

import math
import random
from collections.abc import Mapping, Sequence

from opilio.analytics.words.linear import LinearModel, softmax

Sample = tuple[Mapping[str, float], int, float]  # features, class, weight


def fit(
    samples: Sequence[Sample], classes: Sequence[str], *, version: str, epochs: int = 6, keep: int = 20_000
) -> LinearModel:
    order = random.Random(20)
    descent = _Descent(len(classes))
    indices = list(range(len(samples)))
    for _ in range(epochs):
        order.shuffle(indices)
        for index in indices:
            descent.step(*samples[index])
    return LinearModel(tuple(classes), _strongest(descent.weights, keep), version)


class _Descent:
    """AdaGrad: each weight has its own pace, so that a rare word learns as surely as a common one."""

    rate = 0.15
    decay = 2e-5

    def __init__(self, classes: int) -> None:
        self._classes = range(classes)
        self.weights: dict[str, list[float]] = {}
        self._history: dict[str, list[float]] = {}

    def step(self, features: Mapping[str, float], target: int, importance: float) -> None:
        errors = softmax(self._totals(features))
        errors[target] -= 1.0
        for name, value in features.items():
            row, past = self.weights[name], self._history[name]
            for c in self._classes:
                slope = importance * errors[c] * value + self.decay * row[c]
                past[c] += slope * slope
                row[c] -= self.rate * slope / math.sqrt(past[c])

    def _totals(self, features: Mapping[str, float]) -> list[float]:
        totals = [0.0 for _ in self._classes]
        for name, value in features.items():
            row = self.weights.get(name)
            if row is None:
                self.weights[name] = [0.0 for _ in self._classes]
                self._history[name] = [1e-2 for _ in self._classes]
                continue
            for c in self._classes:
                totals[c] += row[c] * value
        return totals


def _strongest(weights: Mapping[str, Sequence[float]], keep: int) -> dict[str, tuple[float, ...]]:
    """The features that move a decision; the rest is noise that only makes the file larger."""
    signs = [name for name in weights if name.startswith("#")]
    grams = sorted(
        (name for name in weights if not name.startswith("#")),
        key=lambda name: (-max(map(abs, weights[name])), name),
    )
    return {name: tuple(weights[name]) for name in [*signs, *grams[:keep]]}
