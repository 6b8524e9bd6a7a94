"""Object storage: S3, MinIO or local files behind one API."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

import obstore
import zstandard
from obstore.store import LocalStore, MemoryStore, ObjectStore, S3Store

from opilio.errors import Unavailable

# A page of this many characters or more goes to object storage instead of the database.
LARGE_PAGE = 256 * 1024


def open_store(url: str, *, retries: int | None = None) -> ObjectStore:
    """`file:///path`, or `s3://bucket?endpoint=http://…`."""
    return open_bucket(url, None, retries=retries)


def open_bucket(url: str, bucket: str | None, *, retries: int | None = None) -> ObjectStore:
    """A bucket beside the one that the URL names (None: that one); a folder of the path for `file:`.

    Credentials and region come from the usual AWS_… variables; `region` and `endpoint` may be in the URL's query.
    """
    parts = urlsplit(url)
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    if parts.scheme == "memory":
        return MemoryStore()
    if parts.scheme == "file":
        folder = Path(unquote(parts.path)) / (bucket or "")
        return LocalStore(str(folder), mkdir=True)
    if parts.scheme == "s3" and (bucket or parts.netloc):
        return _open_s3(bucket or parts.netloc, options, retries)
    raise Unavailable(f"OPILIO_BLOBS_URL is {url}; it must be file:///path or s3://bucket?endpoint=…")


def _open_s3(bucket: str, options: dict[str, str], retries: int | None) -> S3Store:
    config: Any = {}
    if region := options.get("region"):
        config["region"] = region
    if endpoint := options.get("endpoint"):
        config["endpoint"] = endpoint
        config["virtual_hosted_style_request"] = False
        # Servers behind an endpoint of their own seldom have regions, but a request is signed for one.
        if not (region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
            config["region"] = "us-east-1"
    client: Any = {"timeout": "60s", "connect_timeout": "5s"}
    if endpoint and endpoint.startswith("http://"):
        client["allow_http"] = True
    if retries is not None:
        config["retry_config"] = {"max_retries": retries}
    return S3Store(bucket, client_options=client, **config)


class PageStore:
    """Raw pages that are too large for the database, one folder a day so that old days can be dropped."""

    def __init__(self, store: ObjectStore, *, large: int = LARGE_PAGE) -> None:
        self._store = store
        self._large = large

    def is_large(self, html: str) -> bool:
        return len(html) >= self._large

    async def put_page(self, result_id: UUID, html: str) -> str:
        """Stores a large page before the result that names it; one whose result never comes is dropped by age."""
        key = f"html/{datetime.now(UTC):%Y%m%d}/{result_id}.html.zst"
        body = await asyncio.to_thread(lambda: zstandard.compress(html.encode(), 3))
        await obstore.put_async(self._store, key, body)
        return key

    async def get_page(self, key: str) -> str:
        found = await obstore.get_async(self._store, key)
        body = bytes(await found.bytes_async())
        return zstandard.ZstdDecompressor().stream_reader(body).read().decode()

    async def drop_before(self, day: datetime) -> int:
        """Drops the folders of days before `day`."""
        listing = await obstore.list_with_delimiter_async(self._store, "html/")
        dropped = 0
        for prefix in listing["common_prefixes"]:
            if prefix.rsplit("/", 1)[-1] < f"{day:%Y%m%d}":
                async for chunk in obstore.list(self._store, prefix, chunk_size=1000):
                    keys = [meta["path"] for meta in chunk]
                    await obstore.delete_async(self._store, keys)
                    dropped += len(keys)
        return dropped
