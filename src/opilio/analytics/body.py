"""Reads the body of a batch: decompressed while it streams, within limits, then split into items."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterable

import msgspec
import zstandard

from opilio.analytics.message import Unreadable
from opilio.bounded_json import TooManyItemsError, split_array

MAX_BYTES = 64 << 20
MAX_ITEMS = 10_000
_ZSTD, _GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
_PIECE = 1 << 20
_ZSTD_PIECE = 2 << 10  # becomes 64 MiB at most: a block of 4 bytes may stand for 128 KiB
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class TooLarge(Unreadable):
    """A body beyond the limits; never retried."""


class _LimitedBuffer:
    """Collects decompressed bytes up to the limit."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self._limit = limit

    def write(self, piece: bytes | memoryview) -> int:
        if len(self.data) + len(piece) > self._limit:
            raise TooLarge(f"too_large: more than {self._limit >> 20} MiB decompressed")
        self.data += piece
        return len(piece)


class BodyReader:
    """Reads chunks; the first bytes decide the compression, not the metadata."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self._buffer = _LimitedBuffer(limit)
        self._head = b""
        self._begun = False
        self._zstd: zstandard.ZstdDecompressionObj | None = None
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
        stream = self._zstd or self._gzip
        if stream is not None and not stream.eof:
            raise Unreadable("truncated: the compressed stream does not end")
        return bytes(self._buffer.data)

    def _begin(self) -> bytes:
        self._begun = True
        if self._head.startswith(_ZSTD):
            self._zstd = _zstd_stream()
        elif self._head.startswith(_GZIP):
            self._gzip = zlib.decompressobj(wbits=31)
        return self._head

    def _write(self, chunk: bytes) -> None:
        try:
            if self._zstd is not None:
                self._write_zstd(chunk)
            elif self._gzip is not None:
                self._write_gzip(chunk)
            else:
                self._buffer.write(chunk)
        except (zstandard.ZstdError, zlib.error) as error:
            raise Unreadable(f"bad_compression: {error}") from error

    def _write_zstd(self, chunk: bytes) -> None:
        """In small pieces, because a piece is decompressed as a whole, however large it becomes."""
        for at in range(0, len(chunk), _ZSTD_PIECE):
            piece = chunk[at : at + _ZSTD_PIECE]
            while piece:
                assert self._zstd is not None
                if self._zstd.eof:  # frames follow one another
                    self._zstd = _zstd_stream()
                self._buffer.write(self._zstd.decompress(piece))
                piece = self._zstd.unused_data if self._zstd.eof else b""

    def _write_gzip(self, chunk: bytes) -> None:
        assert self._gzip is not None
        while chunk:
            self._buffer.write(self._gzip.decompress(chunk, _PIECE))
            chunk = self._gzip.unconsumed_tail
            if self._gzip.eof and self._gzip.unused_data:  # a gzip file may have several members
                chunk, self._gzip = self._gzip.unused_data, zlib.decompressobj(wbits=31)


def _zstd_stream() -> "zstandard.ZstdDecompressionObj":  # a name of the type stubs alone
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()


async def read_body(chunks: AsyncIterable[bytes], limit: int = MAX_BYTES) -> bytes:
    reader = BodyReader(limit)
    async for chunk in chunks:
        await asyncio.to_thread(reader.feed, chunk)  # a few bytes may decompress to many
    return await asyncio.to_thread(reader.finish)


def split_items(body: bytes, most: int = MAX_ITEMS) -> list[bytes]:
    """The items of an array, of `{items: […]}`, or one object; each undecoded, so that one bad item does not affect the others."""
    text = body.removeprefix(b"\xef\xbb\xbf").strip()
    if not text:
        raise Unreadable("empty: no body")
    try:
        return _split(text, most)
    except TooManyItemsError as error:
        raise TooLarge(f"too_many: {error}") from None
    except (ValueError, RecursionError) as error:
        items = _split_tolerantly(text, error)
    if len(items) > most:
        raise TooLarge(f"too_many: {len(items)} items, at most {most}")
    return items


def _split(text: bytes, most: int) -> list[bytes]:
    if text.startswith(b"["):
        return split_array(text, most)
    if not text.startswith(b"{"):
        raise Unreadable("not_an_array: neither an array nor an object")
    fields = _FIELDS.decode(text)
    if "items" not in fields:
        return [text]
    if not bytes(fields["items"]).startswith(b"["):
        raise Unreadable("not_an_array: items is no array")
    return split_array(bytes(fields["items"]), most)


def _split_tolerantly(text: bytes, error: Exception) -> list[bytes]:
    """Accepts lone surrogates (half an emoji, as JavaScript writes it), so that the other items are kept."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable(f"not_json: {error}") from error
    items = whole if isinstance(whole, list) else whole.get("items", [whole])
    if not isinstance(items, list):
        raise Unreadable("not_an_array: items is no array")
    return [json.dumps(item, ensure_ascii=False).encode("utf-8", "replace") for item in items]
