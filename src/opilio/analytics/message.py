"""The three forms of a message that brings posts, told apart by their shape."""

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from opilio.contracts.collector import LegacyMessage
from opilio.project_id import extract_project_id

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")
LONGEST_ID = 512  # bytes; what the database's indexes can hold, three at once
_LONGEST_KEY = 1000
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Format = Literal["event", "legacy", "inline"]


class Unreadable(Exception):
    """A message or a batch that no retry will make readable; the text is its reason."""


class _Payload(msgspec.Struct, kw_only=True):
    """Of the contract's `CollectedBatch` only the path is indispensable: crawlers are written by others."""

    minio_path: str
    project_id: str | None = None
    job_id: str | None = None
    batch_index: _Number | None = None
    content_count: _Number | None = None
    platform: str | None = None
    task_type: str | None = None
    keyword: str | None = None
    brand_name: str | None = None


class _Event(msgspec.Struct, kw_only=True):
    payload: _Payload
    event_id: str | None = None


S = TypeVar("S", _Event, LegacyMessage)


@dataclass(frozen=True, slots=True)
class BlobRef:
    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{self.bucket}/{self.key}"


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What all items of a batch have in common; an item that says otherwise of itself is believed."""

    project_id: str | None = None
    job_id: str | None = None
    platform: str = ""
    batch_index: int | None = None
    content_count: int | None = None
    task_type: str | None = None
    keyword: str | None = None
    brand_name: str | None = None


@dataclass(frozen=True, slots=True)
class Inbound:
    """A message that was understood: its form, and either where its items lie or the item itself."""

    format: Format
    event_id: str
    context: BatchContext
    blob: BlobRef | None = None
    item: bytes | None = None

    @property
    def batch_key(self) -> str:
        """The batch itself, whatever event speaks of it."""
        context = self.context
        if self.format != "event":
            return f"{self.format}/{self.event_id}"
        key = f"{context.platform}/{context.job_id or ''}/{context.batch_index}/{self.blob}"
        return key if len(key.encode()) <= _LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest()


def read_message(body: bytes) -> Inbound:
    inbound = _read(body)
    context = inbound.context
    for value in (inbound.event_id, context.project_id, context.job_id, context.platform, context.task_type):
        if value and not is_storable(value):
            raise Unreadable(f"bad_field: {value[:40]!r}… is too long or contains U+0000")
    return inbound


def is_storable(name: str) -> bool:
    """Whether rows can be found by it."""
    return len(name.encode("utf-8", "replace")) <= LONGEST_ID and "\x00" not in name


def _read(body: bytes) -> Inbound:
    shape = _shape(body)
    digest = hashlib.sha256(body).hexdigest()[:32]
    payload = shape.get("payload")
    if isinstance(payload, dict) and "minio_path" in payload:
        return _event(_typed(body, _Event), digest)
    if "data_ref" in shape:
        return _legacy(_typed(body, LegacyMessage), digest)
    if isinstance(shape.get("meta"), dict):
        return Inbound("inline", digest, _context_of_item(shape["meta"]), item=body)
    raise Unreadable("unknown_format: neither payload.minio_path, data_ref nor meta")


def parse_path(path: str) -> BlobRef:
    """`bucket/key`, with or without a scheme."""
    bucket, _, key = path.split("://", 1)[-1].lstrip("/").partition("/")
    # A bucket may be a folder or a part of a host's name, so it is held to what buckets may be called.
    if not _BUCKET.fullmatch(bucket) or not key or {".", "..", ""} & set(key.split("/")):
        raise Unreadable(f"bad_path: {path[:200]!r} is no bucket/key")
    return BlobRef(bucket, key)


def _shape(body: bytes) -> dict[str, Any]:
    try:
        shape = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"not_json: {error}") from error
    if not isinstance(shape, dict):
        raise Unreadable("unknown_format: not an object")
    return shape


def _typed(body: bytes, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except msgspec.ValidationError as error:
        raise Unreadable(f"bad_field: {error}") from error


def _event(event: _Event, digest: str) -> Inbound:
    payload = event.payload
    context = BatchContext(
        project_id=_project(payload.project_id, payload.job_id),
        job_id=payload.job_id,
        platform=_platform(payload),
        batch_index=payload.batch_index,
        content_count=payload.content_count,
        task_type=payload.task_type,
        keyword=payload.keyword,
        brand_name=payload.brand_name,
    )
    return Inbound("event", event.event_id or digest, context, parse_path(payload.minio_path))


def _legacy(message: LegacyMessage, digest: str) -> Inbound:
    context = BatchContext(
        project_id=_project(message.project_id, message.job_id),
        job_id=message.job_id,
        platform=(message.platform or "").lower(),
    )
    blob = parse_path(f"{message.data_ref.bucket}/{message.data_ref.path.lstrip('/')}")
    return Inbound("legacy", digest, context, blob)


def _context_of_item(meta: dict[str, Any]) -> BatchContext:
    job_id = meta.get("job_id")
    job = job_id if isinstance(job_id, str) else None
    return BatchContext(_project(None, job), job, str(meta.get("platform") or "").lower())


def _project(project_id: str | None, job_id: str | None) -> str | None:
    return project_id or (extract_project_id(job_id) if job_id else None)


def _platform(payload: _Payload) -> str:
    """Named by the event, or by the first folder of the key."""
    return (payload.platform or parse_path(payload.minio_path).key.split("/")[0]).lower()
