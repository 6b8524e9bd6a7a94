"""Object storage: S3, MinIO or local files behind one API."""

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

import obstore
import zstandard
from obstore.store import LocalStore, ObjectStore, S3Store

from opilio.errors import Unavailable

# A page of this many characters or more goes to object storage instead of the database.
LARGE_PAGE = 256 * 1024


def open_store(url: str) -> ObjectStore:
    """`file:///path`, or `s3://bucket?endpoint=http://…`; credentials come from the usual AWS_… variables."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        folder = Path(unquote(parts.path))
        folder.mkdir(parents=True, exist_ok=True)
        return LocalStore(folder)
    if parts.scheme == "s3" and parts.netloc:
        query = parse_qs(parts.query)
        endpoint = query.get("endpoint", [None])[0]
        if endpoint is None:
            return S3Store(parts.netloc)
        return S3Store(
            parts.netloc,
            endpoint=endpoint,
            region=query.get("region", ["us-east-1"])[0],
            client_options={"allow_http": endpoint.startswith("http://")},
            virtual_hosted_style_request=False,
        )
    raise Unavailable(f"OPILIO_BLOBS_URL is {url}; it must be file:///path or s3://bucket?endpoint=…")


class PageStore:
    """Raw pages that are too large for the database, a folder a day so that old ones can be dropped."""

    def __init__(self, store: ObjectStore, *, large: int = LARGE_PAGE) -> None:
        self._store = store
        self._large = large

    async def put_page(self, result_id: UUID, html: str) -> str | None:
        """Stores a large page before the result that names it; one whose result never comes is dropped by age."""
        if len(html) < self._large:
            return None
        key = f"html/{datetime.now(UTC):%Y%m%d}/{result_id}.html.zst"
        await obstore.put_async(self._store, key, zstandard.compress(html.encode(), 3))
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
