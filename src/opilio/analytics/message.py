"""The three formats of a message with posts, detected by their fields."""

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from opilio.contracts.collector import LegacyMessage
from opilio.project_id import extract_project_id

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")
LONGEST_ID = 512  # bytes; an index entry holds three of them
_LONGEST_KEY = 1000
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Format = Literal["event", "legacy", "inline"]


class Unreadable(Exception):
    """A message or batch that cannot be read; the text is the reason."""


class _Payload(msgspec.Struct, kw_only=True):
    """`CollectedBatch` with only the path required, because crawlers are written by others."""

    minio_path: Any = None
    project_id: str | None = None
    job_id: str | None = None
    batch_index: _Number | None = None
    content_count: _Number | None = None
    fetch_error_count: _Number = 0
    crawl_id: str | None = None
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
    """What the items of a batch have in common; an item's own values come first."""

    project_id: str | None = None
    job_id: str | None = None
    platform: str = ""
    batch_index: int | None = None
    content_count: int | None = None
    fetch_error_count: int = 0
    crawl_id: str | None = None
    task_type: str | None = None
    keyword: str | None = None
    brand_name: str | None = None


@dataclass(frozen=True, slots=True)
class Inbound:
    """A message that was read: its format, and the location of its items or the item itself."""

    format: Format
    event_id: str
    context: BatchContext
    blob: BlobRef | None = None
    item: bytes | None = None
    path: str = ""  # as the event names it
    fault: str | None = None  # why the event cannot be followed, though it says whose batch it is
    trace_id: str | None = None

    @property
    def batch_key(self) -> str:
        """Identifies the batch, whichever event announces it."""
        context = self.context
        if self.format != "event":
            return f"{self.format}/{self.event_id}"
        key = f"{context.platform}/{context.job_id or ''}/{context.batch_index}/{self.blob or self._path_digest}"
        return key if len(key.encode()) <= _LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest()

    @property
    def batch_name(self) -> str:
        """The number of the batch, or a digest of its path where the event has none."""
        if self.context.batch_index is not None:
            return str(self.context.batch_index)
        return self._path_digest

    @property
    def _path_digest(self) -> str:
        """A path that is none may hold what a database cannot."""
        return hashlib.sha256(self.path.encode("utf-8", "replace")).hexdigest()[:12]

    @property
    def owed(self) -> int:
        """How many items the collector expects to be analysed, as far as the event says."""
        return max((self.context.content_count or 0) - self.context.fetch_error_count, 0)


def read_message(body: bytes) -> Inbound:
    inbound = _read(body)
    context = inbound.context
    for value in (
        inbound.event_id,
        context.project_id,
        context.job_id,
        context.platform,
        context.task_type,
        context.crawl_id,
    ):
        if value and not is_storable(value):
            raise Unreadable(f"bad_field: {value[:40]!r}… is too long or contains U+0000")
    return inbound


def is_storable(name: str) -> bool:
    """Whether it can be stored in an index."""
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


def parse_path(path: Any) -> BlobRef:
    """`bucket/key`, with or without a scheme."""
    if not isinstance(path, str):
        raise Unreadable(f"bad_path: {path!r} is not a text")
    bucket, _, key = path.split("://", 1)[-1].lstrip("/").partition("/")
    # A bucket becomes a folder or part of a host name, so its characters are restricted.
    if not _BUCKET.fullmatch(bucket) or not key or {".", "..", ""} & set(key.split("/")):
        raise Unreadable(f"bad_path: {path[:200]!r} is not bucket/key")
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
        fetch_error_count=payload.fetch_error_count,
        crawl_id=payload.crawl_id,
        task_type=payload.task_type,
        keyword=payload.keyword,
        brand_name=payload.brand_name,
    )
    path = payload.minio_path if isinstance(payload.minio_path, str) else repr(payload.minio_path)
    try:
        blob, fault = parse_path(path), None
    except Unreadable as unreadable:  # its batch is lost, but its project must finish
        blob, fault = None, str(unreadable)
    return Inbound("event", event.event_id or digest, context, blob, path=path[:_LONGEST_KEY], fault=fault)


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
    """From the event, or the first folder of the key."""
    if payload.platform:
        return payload.platform.lower()
    try:
        return parse_path(payload.minio_path).key.split("/")[0].lower()
    except Unreadable:
        return ""
