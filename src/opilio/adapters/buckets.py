"""Object storage with several buckets behind one URL: S3 and its kin, or folders of a local directory."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import obstore
from obstore.store import LocalStore, MemoryStore, S3Store

from opilio.errors import Unavailable

_CHUNK = 1 << 20


class Missing(Exception):
    """There is no such object, or no such bucket."""


class Buckets:
    """Opens buckets by name, each once. Credentials come from the usual `AWS_…` variables."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._options = {key: values[-1] for key, values in parse_qs(self._url.query).items()}
        if self._url.scheme not in {"s3", "file", "memory"}:
            raise Unavailable(f"Object storage at {url!r}: use s3://bucket?endpoint=… or file:///folder.")
        self._stores: dict[str, Any] = {}

    def store(self, bucket: str) -> Any:
        if bucket not in self._stores:
            self._stores[bucket] = self._open(bucket)
        return self._stores[bucket]

    def _open(self, bucket: str) -> Any:
        if self._url.scheme == "memory":
            return MemoryStore()
        if self._url.scheme == "file":
            return LocalStore(str(self._folder(bucket)), mkdir=True)
        endpoint = self._options.get("endpoint")
        config: Any = {"endpoint": endpoint} if endpoint else {}
        return S3Store(
            bucket,
            region=self._options.get("region", "us-east-1"),
            virtual_hosted_style_request=endpoint is None,
            client_options={"allow_http": True, "timeout": "60s", "connect_timeout": "5s"},
            **config,
        )

    def _folder(self, bucket: str) -> Path:
        return Path(unquote(self._url.path)) / bucket

    async def chunks(self, bucket: str, key: str) -> AsyncIterator[bytes]:
        """The object as it streams in."""
        if self._url.scheme == "file" and not self._folder(bucket).is_dir():
            raise Missing(f"there is no bucket {bucket}")
        try:
            found = await obstore.get_async(self.store(bucket), key)
        except FileNotFoundError as error:
            raise Missing(f"{bucket}/{key} is not in object storage") from error
        async for chunk in found.stream(min_chunk_size=_CHUNK):
            yield bytes(chunk)

    async def put(self, bucket: str, key: str, body: bytes) -> None:
        await obstore.put_async(self.store(bucket), key, body)
