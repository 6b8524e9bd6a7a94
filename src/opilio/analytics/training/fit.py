"""Fits a linear model by AdaGrad on softmax in a fixed order, so that the same text gives the same weights."""

import math
import random
from collections.abc import Mapping, Sequence

from opilio.analytics.words.linear import LinearModel, softmax

Sample = tuple[Mapping[str, float], int, float]  # features, class, weight
# The mean of the last epochs depends less on the order of the samples than the last one alone.
_AVERAGED = 3


def fit(
    samples: Sequence[Sample], classes: Sequence[str], *, version: str, epochs: int = 6, keep: int = 20_000
) -> LinearModel:
    order = random.Random(20)
    descent = _Descent(len(classes))
    indices = list(range(len(samples)))
    sums: dict[str, list[float]] = {}
    for epoch in range(epochs):
        order.shuffle(indices)
        for index in indices:
            descent.step(*samples[index])
        if epoch >= epochs - _AVERAGED:
            _add(sums, descent.weights)
    mean = {name: [value / _AVERAGED for value in row] for name, row in sums.items()}
    return LinearModel(tuple(classes), _strongest(mean, keep), version)


def _add(sums: dict[str, list[float]], weights: Mapping[str, Sequence[float]]) -> None:
    for name, row in weights.items():
        kept = sums.setdefault(name, [0.0 for _ in row])
        for index, value in enumerate(row):
            kept[index] += value


class _Descent:
    """AdaGrad: each weight has its own learning rate, so that rare words are learned too."""

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
    """All dense features and the `keep` strongest grams."""
    signs = [name for name in weights if name.startswith("#")]
    grams = sorted(
        (name for name in weights if not name.startswith("#")),
        key=lambda name: (-max(map(abs, weights[name])), name),
    )
    return {name: tuple(weights[name]) for name in [*signs, *grams[:keep]]}
