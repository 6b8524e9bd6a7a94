"""The analytics API over a real database: every answer, and exports that read back."""

import csv
import io

import pyarrow.parquet
import pytest

from opilio.adapters.buckets import Buckets
from opilio.analytics.processing import BatchProcessor
from opilio.analytics.storing import BatchStore
from tests.analytics.batches import body, event, failed, post

PATH = "/api/v1/analytics/proj_xyz"


@pytest.fixture
async def posts(database):
    buckets = Buckets("memory://")
    await buckets.put(
        "crawl-results",
        "tiktok/proj_xyz/brand/batch_001.json",
        body(
            post("1", comments=[{"text": "đẹp"}]),
            post("2", "Giao hàng chậm, quá tệ"),
            failed("3", "TIMEOUT"),
        ),
    )
    await BatchProcessor(BatchStore(database), buckets).process(event())


async def test_an_export_is_csv_unless_parquet_is_asked_for(site, posts):
    answer = await site.reader.call("GET", f"{PATH}/export")
    assert answer.headers["content-type"].startswith("text/csv")
    assert {row["id"] for row in csv.DictReader(io.StringIO(answer.text))} == {"1", "2", "3"}
    for asked in (
        {"params": {"format": "parquet"}},
        {"headers": {"accept": "application/vnd.apache.parquet"}},
    ):
        answer = await site.reader.call("GET", f"{PATH}/export", **asked)
        assert answer.headers["content-type"] == "application/vnd.apache.parquet"
        assert answer.headers["content-disposition"] == 'attachment; filename="proj-xyz.parquet"'
        table = pyarrow.parquet.read_table(io.BytesIO(answer.content))
        assert sorted(table.column("id").to_pylist()) == ["1", "2", "3"]


async def test_the_format_is_stronger_than_the_header(site, posts):
    answer = await site.reader.call(
        "GET", f"{PATH}/export?format=csv", headers={"accept": "application/vnd.apache.parquet"}
    )
    assert answer.headers["content-type"].startswith("text/csv")
    await site.reader.refused("validation_error", 400, "GET", f"{PATH}/export?format=xlsx")
    await site.nobody.refused("unauthorized", 401, "GET", f"{PATH}/export")
