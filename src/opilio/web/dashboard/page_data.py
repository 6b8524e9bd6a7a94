"""Every page as data: `.json` and `.csv` behind its path."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
from litestar import Response

from opilio.errors import NotFound

_encode = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
_KEEP = (UUID,)
FORMATS = ("json", "csv")


def split_format(path: str) -> tuple[str, str]:
    """The path without its data format, and the format; empty for HTML."""
    for name in FORMATS:
        if path.endswith(f".{name}"):
            return path.removesuffix(f".{name}"), name
    return path, ""


def as_data(data: Any, rows: Sequence[Any] | None, data_format: str) -> Response[Any]:
    plain_rows = [msgspec.to_builtins(row, builtin_types=_KEEP, enc_hook=dict) for row in rows or []]
    if data_format == "json":
        content = data if data is not None else {"items": plain_rows}
        return Response(msgspec.json.format(_encode(content)), media_type="application/json")
    if rows is None:
        raise NotFound("this page has no rows; use its .json instead")
    return Response(_csv(plain_rows), media_type="text/csv; charset=utf-8")


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    if rows:
        table.writerow(rows[0].keys())
    table.writerows([_cell(value) for value in row.values()] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> str:
    """A cell that a spreadsheet would run as a formula gets a quote: titles come from strangers."""
    if value is None:
        return ""
    text = _encode(value).decode() if isinstance(value, dict | list | bool) else str(value)
    return f"'{text}" if text[:1] in "=+-@\t\r" and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
