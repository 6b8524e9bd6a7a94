"""The analytics API over a real database: every answer, and exports that read back."""

import csv
import io
from typing import get_args, get_origin

import jsonschema_rs
import pyarrow.parquet
import pytest

from opilio.adapters.buckets import Buckets
from opilio.analytics.processing import BatchProcessor
from opilio.analytics.store import BatchStore
from opilio.web.api.analytics import ANALYTICS
from opilio.web.openapi import document
from tests.analytics.batches import body, event, failed, post

ANSWERING = [endpoint for endpoint in ANALYTICS.endpoints if endpoint.answer]
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


@pytest.mark.parametrize("endpoint", ANSWERING, ids=lambda endpoint: endpoint.path.rsplit("}/")[-1])
async def test_every_answer_is_what_openapi_says(site, posts, endpoint):
    """With rows in place: a struct that forgets a column, or calls it something else, does not pass."""
    path = endpoint.path.replace("{project_id:str}", "proj_xyz")
    params = {"platform": "tiktok", "id": "1"} if path.endswith("/comments") else {}
    data = await site.writer.ok(endpoint.method, path, params=params)
    described = document()["paths"][endpoint.path.replace(":str", "")]
    described = described[endpoint.method.lower()]["responses"]["200"]
    schema = described["content"]["application/json"]["schema"]
    jsonschema_rs.validate(schema | {"components": document()["components"]}, {"success": True, "data": data})
    assert data.get("items", data), path
    kind = get_args(endpoint.answer)[0] if get_origin(endpoint.answer) is list else endpoint.answer
    for item in data.get("items", [data]):
        assert item.keys() == set(kind.__struct_fields__)


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


async def test_retryable_errors_are_offered_and_sent_out_again(site, posts):
    all_of_them = await site.reader.ok("GET", f"{PATH}/errors")
    assert [row["error_code"] for row in all_of_them["items"]] == ["TIMEOUT"]
    assert (await site.reader.ok("GET", f"{PATH}/errors?retryable=true"))["items"] == all_of_them["items"]
    items = (await site.reader.ok("GET", f"{PATH}/errors/items?retryable=true"))["items"]
    assert [item["content_id"] for item in items] == ["3"]
    await site.reader.refused("forbidden", 403, "POST", f"{PATH}/errors/retry")
    sent = await site.writer.ok("POST", f"{PATH}/errors/retry")
    assert (sent["posts"], sent["tasks"]) == (1, [{"platform": "tiktok", "posts": 1}])
    assert sent["job_id"].startswith("proj_xyz-retry-")
    assert (await site.writer.ok("POST", f"{PATH}/errors/retry"))["posts"] == 0
    await site.writer.refused("not_found", 404, "POST", "/api/v1/analytics/nobody/errors/retry")
