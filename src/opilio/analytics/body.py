"""The body of a batch: decompressed while it streams in, never further than the limits, then cut into items."""

import json
import zlib
from collections.abc import AsyncIterable
from typing import Any

import msgspec
import zstandard

from opilio.analytics.message import Unreadable

MAX_BYTES = 64 << 20
MAX_ITEMS = 10_000
_ZSTD, _GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
_PIECE = 1 << 20
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class TooLarge(Unreadable):
    """A body beyond the limits: the same tomorrow, so it is never tried again."""


class _Sink:
    """Takes what was decompressed, up to the limit."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self._limit = limit

    def write(self, piece: bytes | memoryview) -> int:
        if len(self.data) + len(piece) > self._limit:
            raise TooLarge(f"too_large: more than {self._limit >> 20} MiB decompressed")
        self.data += piece
        return len(piece)


class BodyReader:
    """Fed with chunks; the compression is told by the first bytes, whatever the metadata says."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self._sink = _Sink(limit)
        self._head = b""
        self._begun = False
        self._zstd: zstandard.ZstdDecompressionWriter | None = None
        self._gzip: zlib._Decompress | None = None

    def feed(self, chunk: bytes) -> None:
        if not self._begun:
            self._head += chunk
            if len(self._head) < len(_ZSTD):
                return
            chunk = self._begin()
        self._write(chunk)

    def finish(self) -> bytes:
        if not self._begun:
            self._write(self._begin())
        return bytes(self._sink.data)

    def _begin(self) -> bytes:
        self._begun = True
        if self._head.startswith(_ZSTD):
            sink: Any = self._sink
            self._zstd = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_writer(
                sink, closefd=False
            )
        elif self._head.startswith(_GZIP):
            self._gzip = zlib.decompressobj(wbits=31)
        return self._head

    def _write(self, chunk: bytes) -> None:
        try:
            if self._zstd is not None:
                self._zstd.write(chunk)
            elif self._gzip is not None:
                self._write_gzip(chunk)
            else:
                self._sink.write(chunk)
        except (zstandard.ZstdError, zlib.error) as error:
            raise Unreadable(f"bad_compression: {error}") from error

    def _write_gzip(self, chunk: bytes) -> None:
        assert self._gzip is not None
        while chunk:
            self._sink.write(self._gzip.decompress(chunk, _PIECE))
            chunk = self._gzip.unconsumed_tail
            if self._gzip.eof and self._gzip.unused_data:  # members of a gzip file follow one another
                chunk, self._gzip = self._gzip.unused_data, zlib.decompressobj(wbits=31)


async def read_body(chunks: AsyncIterable[bytes], limit: int = MAX_BYTES) -> bytes:
    reader = BodyReader(limit)
    async for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def split_items(body: bytes, most: int = MAX_ITEMS) -> list[bytes]:
    """The items of an array, of `{items: […]}`, or one object; each still undecoded, so that each can fail alone."""
    text = body.removeprefix(b"\xef\xbb\xbf").strip()
    if not text:
        raise Unreadable("empty: no body")
    try:
        items = _split(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        items = _split_tolerantly(text, error)
    if len(items) > most:
        raise TooLarge(f"too_many: {len(items)} items, at most {most}")
    return items


def _split(text: bytes) -> list[bytes]:
    if text.startswith(b"["):
        return [bytes(item) for item in _ITEMS.decode(text)]
    if not text.startswith(b"{"):
        raise Unreadable("not_an_array: neither an array nor an object")
    fields = _FIELDS.decode(text)
    if "items" not in fields:
        return [text]
    if not bytes(fields["items"]).startswith(b"["):
        raise Unreadable("not_an_array: items is no array")
    return [bytes(item) for item in _ITEMS.decode(fields["items"])]


def _split_tolerantly(text: bytes, error: Exception) -> list[bytes]:
    """Half an emoji in one post (a lone surrogate, which JavaScript writes) must not cost its neighbours."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable(f"not_json: {error}") from error
    items = whole if isinstance(whole, list) else whole.get("items", [whole])
    if not isinstance(items, list):
        raise Unreadable("not_an_array: items is no array")
    return [json.dumps(item, ensure_ascii=False).encode("utf-8", "replace") for item in items]
