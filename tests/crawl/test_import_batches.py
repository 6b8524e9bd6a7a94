"""Rows of a file are saved in batches; the next one is read meanwhile."""

import asyncio
import threading

import msgspec
import pytest

from opilio.contracts.policies import ImportRow
from opilio.crawl.import_policies import import_rows, read_jsonl, read_urls
from opilio.crawl.policies import CheckedDrafts
from opilio.errors import Invalid


class Memory:
    """Stands in for the database: keeps how many rows each batch had."""

    def __init__(self):
        self.batches = []

    def check_drafts(self, drafts):
        return CheckedDrafts([list(drafts)], [])

    async def import_checked(self, checked, by):
        (batch,) = checked.groups
        self.batches.append(len(batch))
        return [ImportRow(row=d.row, url=d.url, status="created") for d in batch]


async def test_rows_are_saved_in_batches_and_answered_in_order():
    memory = Memory()
    lines = [
        "{}" if n % 5 == 0 else msgspec.json.encode({"url": f"https://a.example/{n}"}).decode()
        for n in range(1, 13)
    ]
    answers = [row async for batch in import_rows(memory, read_jsonl(lines), batch=5) for row in batch]
    assert [row.row for row in answers] == list(range(1, 13))
    assert [row.row for row in answers if row.status == "rejected"] == [5, 10]
    assert memory.batches == [4, 4, 2]


async def test_one_batch_is_read_ahead_while_one_is_saved():
    read = []
    one_ahead = threading.Event()

    def lines():
        for n in range(1, 101):
            read.append(n)
            if n == 20:
                one_ahead.set()
            yield f"https://a.example/{n}"

    class Slow(Memory):
        async def import_checked(self, checked, by):
            if not self.batches:
                assert await asyncio.to_thread(one_ahead.wait, 10), "read while the first batch is saved"
            assert len(read) <= 10 * (len(self.batches) + 2), "and no further than one batch"
            return await super().import_checked(checked, by)

    answers = [row.row async for rows in import_rows(Slow(), read_urls(lines()), batch=10) for row in rows]
    assert answers == list(range(1, 101))


async def test_what_was_read_before_an_error_is_saved_and_answered():
    def lines():
        yield from (f"https://a.example/{n}" for n in range(1, 11))
        raise Invalid("body", "breaks off")

    memory = Memory()
    batches = import_rows(memory, read_urls(lines()), batch=5)
    assert [row.row for row in [*await anext(batches), *await anext(batches)]] == list(range(1, 11))
    with pytest.raises(Invalid, match="breaks off"):
        await anext(batches)
    assert memory.batches == [5, 5]


async def test_an_import_that_fails_leaves_no_thread_that_reads():
    reading, go_on = threading.Event(), threading.Event()
    read = []

    def lines():
        for n in range(1, 11):
            if n == 6:
                reading.set()
                assert go_on.wait(10)
            read.append(n)
            yield f"https://a.example/{n}"

    class Broken(Memory):
        async def import_checked(self, checked, by):
            assert await asyncio.to_thread(reading.wait, 10)
            asyncio.get_running_loop().call_later(0.05, go_on.set)
            raise Invalid("body", "cannot be saved")

    with pytest.raises(Invalid, match="cannot be saved"):
        _ = [rows async for rows in import_rows(Broken(), read_urls(lines()), batch=5)]
    assert read == list(range(1, 11)), "the batch that was being read is read to its end, and no further"
