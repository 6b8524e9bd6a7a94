"""Writes policies as files that an import reads back."""

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from opilio.contracts.policies import PolicyInput

_FIELDS = PolicyInput.__struct_fields__
_encode = msgspec.json.Encoder(decimal_format="number").encode


def write_jsonl(policies: Iterable[PolicyInput]) -> Iterator[str]:
    for policy in policies:
        yield _encode(policy).decode() + "\n"


def write_csv(policies: Iterable[PolicyInput], *, header: bool = True) -> Iterator[str]:
    """Lines of CSV; what is empty or not set is an empty cell."""
    if header:
        yield _line(_FIELDS)
    for policy in policies:
        yield _line([_cell(getattr(policy, field)) for field in _FIELDS])


def _line(cells: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _cell(value: Any) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return _encode(value).decode()
