"""A softmax over named features: small weights, quick to load, readable in a diff."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul

import msgspec

from opilio.analytics.words.features import ENGLISH

# Weights are stored as whole thousandths: a third of the size of floats, without a measurable loss.
_SCALE = 1000


@dataclass(frozen=True, slots=True)
class LinearModel:
    """Classes, and for each feature one weight per class."""

    classes: tuple[str, ...]
    weights: Mapping[str, tuple[float, ...]]
    version: str

    def probabilities(self, features: Mapping[str, float]) -> list[float]:
        known = self.weights
        rows = [(row, value) for name, value in features.items() if (row := known.get(name)) is not None]
        totals = [sum([row[index] * value for row, value in rows]) for index in range(len(self.classes))]
        return softmax(totals)


class QuickModel:
    """The same model, for texts whose grams all count the same: their weights are summed, then multiplied once."""

    def __init__(self, model: LinearModel) -> None:
        self._signs = {name: row for name, row in model.weights.items() if name.startswith("#")}
        self._english = {
            name.removeprefix(ENGLISH): row for name, row in model.weights.items() if name.startswith(ENGLISH)
        }
        self._others = {
            name: row for name, row in model.weights.items() if not name.startswith(("#", ENGLISH))
        }
        self._nothing = [0.0] * len(model.classes)

    def known(self, grams: Iterable[str], *, english: bool) -> list[tuple[float, ...]]:
        """The weights of the grams that the model has seen."""
        return list(filter(None, map((self._english if english else self._others).get, grams)))

    def probabilities(
        self, known: Sequence[tuple[float, ...]], share: float, signs: Mapping[str, float]
    ) -> list[float]:
        totals = [share * total for total in map(sum, zip(*known, strict=True))] if known else self._nothing
        weights = self._signs
        present = [(value, weights[name]) for name, value in signs.items() if name in weights]
        if len(totals) == 3:  # the model that reads every comment: worth a line of its own
            return softmax(_three(totals, present))
        if not present:
            return softmax(totals)
        values = [value for value, _ in present]
        columns = zip(*(row for _, row in present), strict=True)
        return softmax(
            [total + sum(map(mul, values, column)) for total, column in zip(totals, columns, strict=True)]
        )


def _three(totals: Sequence[float], present: Sequence[tuple[float, Sequence[float]]]) -> list[float]:
    first, second, third = totals
    for value, (one, two, three) in present:
        first += value * one
        second += value * two
        third += value * three
    return [first, second, third]


def softmax(totals: Sequence[float]) -> list[float]:
    top = max(totals)
    raised = [math.exp(total - top) for total in totals]
    whole = sum(raised)
    return [value / whole for value in raised]


class _File(msgspec.Struct):
    version: str
    classes: list[str]
    weights: dict[str, list[int]]


def dump(model: LinearModel) -> bytes:
    rows = {name: [round(w * _SCALE) for w in row] for name, row in sorted(model.weights.items())}
    kept = {name: row for name, row in rows.items() if any(row)}
    lines = ",\n".join(
        f"{msgspec.json.encode(name).decode()}:{row}".replace(", ", ",") for name, row in kept.items()
    )
    head = msgspec.json.encode({"version": model.version, "classes": list(model.classes)}).decode()
    return f'{head[:-1]},"weights":{{\n{lines}\n}}}}\n'.encode()


def load(data: bytes) -> LinearModel:
    file = msgspec.json.decode(data, type=_File)
    weights = {name: tuple(value / _SCALE for value in row) for name, row in file.weights.items()}
    return LinearModel(tuple(file.classes), weights, file.version)
