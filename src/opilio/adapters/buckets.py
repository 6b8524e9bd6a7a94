"""Several buckets behind one URL: S3 and compatible stores, or folders of a local directory."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import PermissionDeniedError, UnauthenticatedError
from obstore.store import ObjectStore

from opilio.adapters.blobs import open_bucket, open_store

_CHUNK = 1 << 20


class Missing(Exception):
    """There is no such object, or no such bucket."""


class Forbidden(Exception):
    """Object storage refuses the object: no permission, or no such key where listing is not allowed."""


class Buckets:
    """Opens buckets by name, each once."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._folder = Path(unquote(urlsplit(url).path)) if urlsplit(url).scheme == "file" else None
        self._stores: dict[str, ObjectStore] = {}
        open_store(url)  # a wrong URL is known at once, not with the first batch

    def store(self, bucket: str) -> ObjectStore:
        if bucket not in self._stores:
            self._stores[bucket] = open_bucket(self._url, bucket)
        return self._stores[bucket]

    async def chunks(self, bucket: str, key: str) -> AsyncIterator[bytes]:
        """Streams the object."""
        if self._folder is not None and not (self._folder / bucket).is_dir():
            raise Missing(f"there is no bucket {bucket}")
        try:
            found = await obstore.get_async(self.store(bucket), key)
        except FileNotFoundError as error:
            raise Missing(f"{bucket}/{key} is not in object storage") from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise Forbidden(
                f"object storage refuses {bucket}/{key} (403): there is no such key, or the AWS_… credentials may not read it"
            ) from error
        async for chunk in found.stream(min_chunk_size=_CHUNK):
            yield bytes(chunk)

    async def put(self, bucket: str, key: str, body: bytes) -> None:
        await obstore.put_async(self.store(bucket), key, body)


def crawl_bucket(blobs_url: str) -> str:
    """The bucket in the path of a batch; a local store accepts any name."""
    parts = urlsplit(blobs_url)
    return parts.netloc if parts.scheme == "s3" else "crawl-data"
