"""Posts and price changes as files: CSV for people, Parquet for programs; made while they are read, so memory stays flat."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from opilio.errors import Invalid

Kind = Literal["text", "texts", "count", "real", "double", "yes_or_no", "time", "json"]
Columns: TypeAlias = Mapping[str, Kind]
Rows: TypeAlias = Sequence[Mapping[str, Any]]
CSV, PARQUET = "text/csv", "application/vnd.apache.parquet"

# Every column of an export of posts, in its order: a file's shape must not depend on what is in it.
COLUMNS: dict[str, Kind] = {
    "id": "text",
    "project_id": "text",
    "platform": "text",
    "job_id": "text",
    "batch_index": "count",
    "task_type": "text",
    "keyword_source": "text",
    "keyword_role": "text",
    "brand_name": "text",
    "at": "time",
    "published_at": "time",
    "crawled_at": "time",
    "analyzed_at": "time",
    "pipeline_version": "text",
    "permalink": "text",
    "content_text": "text",
    "hashtags": "texts",
    "author_id": "text",
    "author_name": "text",
    "author_username": "text",
    "author_is_verified": "yes_or_no",
    "follower_count": "count",
    "view_count": "count",
    "like_count": "count",
    "comment_count": "count",
    "share_count": "count",
    "save_count": "count",
    "language": "text",
    "flags": "texts",
    "keywords": "texts",
    "intent": "text",
    "intent_confidence": "real",
    "sentiment": "text",
    "sentiment_score": "real",
    "aspects": "json",
    "impact_score": "real",
    "risk_level": "text",
    "model_version": "text",
    "fetch_status": "text",
    "fetch_error": "text",
    "error_code": "text",
}
PRICE_COLUMNS: dict[str, Kind] = {
    "id": "text",
    "title": "text",
    "url": "text",
    "host": "text",
    "labels": "json",
    "at": "time",
    "old": "double",
    "new": "double",
    "currency": "text",
    "change": "double",
    "in_stock": "yes_or_no",
    "job_id": "text",
}
_encode = msgspec.json.Encoder(decimal_format="number").encode


async def as_csv(batches: AsyncIterator[Rows], columns: Columns = COLUMNS) -> AsyncIterator[bytes]:
    """CSV with a header; lists and objects as JSON, and no cell that a spreadsheet would run."""
    yield _csv([columns.keys()])
    async for rows in batches:
        yield _csv([_cell(row[name]) for name in columns] for row in rows)


def _csv(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | dict):
        return _encode(value).decode()
    return value


async def as_parquet(batches: AsyncIterator[Rows], columns: Columns = COLUMNS) -> AsyncIterator[bytes]:
    """Parquet with a row group for each batch; what is an object in the database is JSON text."""
    file = _ParquetFile(columns)
    async for rows in batches:
        yield await asyncio.to_thread(file.add, rows)
    yield await asyncio.to_thread(file.end)


class _ParquetFile:
    """A Parquet file that is read piece by piece while it is written."""

    def __init__(self, columns: Columns) -> None:
        arrow, parquet = load_arrow()
        self._arrow = arrow
        self._columns = columns
        self._schema = arrow.schema([(name, _arrow_type(arrow, kind)) for name, kind in columns.items()])
        self._taken = _Taken()
        self._writer = parquet.ParquetWriter(self._taken, self._schema, compression="zstd")

    def add(self, rows: Rows) -> bytes:
        columns = [
            self._arrow.array(
                [_parquet_value(row[name], kind) for row in rows], self._schema.field(name).type
            )
            for name, kind in self._columns.items()
        ]
        self._writer.write_batch(self._arrow.record_batch(columns, schema=self._schema))
        return self._taken.take()

    def end(self) -> bytes:
        self._writer.close()
        return self._taken.take()


class _Taken(io.RawIOBase):
    """The writer's sink; the writer asks for its position and never seeks back."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        self._size += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken


def load_arrow() -> tuple[Any, Any]:
    """The library is as large as all the rest together, so only those who export Parquet install it."""
    try:
        import pyarrow as arrow  # noqa: ICN001, PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise Invalid("format", "parquet needs pyarrow: pip install 'opilio[server,parquet]'") from error
    return arrow, parquet


def _arrow_type(arrow: Any, kind: Kind) -> Any:
    match kind:
        case "texts":
            return arrow.list_(arrow.string())
        case "count":
            return arrow.int64()
        case "real":
            return arrow.float32()
        case "double":
            return arrow.float64()
        case "yes_or_no":
            return arrow.bool_()
        case "time":
            return arrow.timestamp("us", tz="UTC")
        case _:
            return arrow.string()


def _parquet_value(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    match kind:
        case "json":
            return _encode(value).decode()
        case "text":
            return str(value)  # ids are UUIDs
        case "double":
            return float(value)
        case _:
            return value


@dataclass(frozen=True, slots=True)
class Format:
    """How an export is written, and what HTTP calls it."""

    name: str
    media_type: str
    write: Callable[..., AsyncIterator[bytes]]
    check: Callable[[], Any] = lambda: None  # says what is missing before the first byte goes out


FORMATS = {
    "csv": Format("csv", CSV, as_csv),
    "parquet": Format("parquet", PARQUET, as_parquet, load_arrow),
}
