import gzip
import json
import tracemalloc
from collections.abc import AsyncIterator

import pytest
import zstandard

from opilio.analytics.body import BodyReader, TooLarge, read_body, split_items
from opilio.analytics.message import Unreadable

TEXT = json.dumps([{"meta": {"id": str(n)}} for n in range(200)]).encode()


def read(data, size=7, **options):
    reader = BodyReader(**options)
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    return reader.finish()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("size", [1, 3, 64, 1 << 20])
def test_compression_is_detected_by_the_first_bytes(pack, size):
    assert read(pack(TEXT), size) == TEXT


def test_gzip_members_follow_one_another():
    assert read(gzip.compress(b"[1,") + gzip.compress(b"2]")) == b"[1,2]"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_a_bomb_is_stopped_at_the_limit(pack):
    bomb = pack(b" " * (8 << 20))
    with pytest.raises(TooLarge):
        read(bomb, 1 << 16, limit=1 << 20)


def test_damage_is_named():
    with pytest.raises(Unreadable, match="bad_compression"):
        read(zstandard.compress(TEXT)[:4] + b"\xff" * 60)
    with pytest.raises(Unreadable, match="bad_compression"):
        read(gzip.compress(TEXT)[:12] + b"\xff" * 60)


def test_the_three_shapes_of_a_batch():
    assert split_items(b'[{"a":1}, {"b":2}]') == [b'{"a":1}', b'{"b":2}']
    assert split_items(b'\xef\xbb\xbf {"items": [{"a":1}], "more": 2}') == [b'{"a":1}']
    assert split_items(b' {"meta": {"id": "1"}} ') == [b'{"meta": {"id": "1"}}']
    assert split_items(b"[]") == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty"),
        (b"[1, 2", "not_json"),
        (b"hello", "not_an_array"),
        (b'{"items": 7}', "not_an_array"),
        (b"7", "not_an_array"),
    ],
)
def test_other_shapes_are_refused(body, reason):
    with pytest.raises(Unreadable, match=reason):
        split_items(body)


def test_too_many_items_are_refused():
    with pytest.raises(TooLarge, match="too_many"):
        split_items(b"[1,2,3]", most=2)


def test_half_an_emoji_is_dropped_alone():
    items = split_items(b'[{"t": "\\ud83d"}, {"t": "whole \\ud83d\\ude00"}]')
    assert json.loads(items[0]) == {"t": "?"}
    assert json.loads(items[1]) == {"t": "whole 😀"}


@pytest.mark.parametrize("form", ["[%s]", '{"items": [%s]}'])
async def test_millions_of_items_in_a_few_bytes_are_counted_not_built(form: str) -> None:
    """4 million empty objects are 7 kB of gzip; they cost no more memory than their text."""
    text = (form % ",".join(["{}"] * 4_000_000)).encode()
    packed = gzip.compress(text, 9)
    assert len(packed) < 20_000

    async def chunks() -> AsyncIterator[bytes]:
        yield packed

    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="too_many"):
            split_items(await read_body(chunks()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * len(text), f"{peak >> 20} MiB for {len(text) >> 20} MiB of text"


def test_a_large_batch_within_the_limit_is_split_as_ever() -> None:
    """Above a number of commas the items are cut one by one; the result is the same."""
    item = json.dumps({"text": 'a "quoted", [odd] {one} \\ ' * 30, "list": list(range(100)), "n": {"a": []}})
    items = split_items(f"[ {', '.join([item] * 6_000)} ]".encode())
    assert (len(items), {json.loads(i)["n"]["a"] == [] for i in items}) == (6_000, {True})
    assert items[0] == item.encode()
