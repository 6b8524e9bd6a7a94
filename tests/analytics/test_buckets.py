import asyncio
import re

import pytest

from opilio.adapters.buckets import Buckets, Missing
from opilio.analytics.processing import BatchProcessor, Done, RetryLater
from tests.analytics.batches import body, event, post
from tests.components.fixtures import s3  # noqa: F401
from tests.components.servers import S3


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", S3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", S3.secret_key)


@pytest.fixture
def buckets(s3):  # noqa: F811
    return Buckets(f"s3://{s3.crawl_results}?endpoint={s3.url}")


async def test_a_batch_from_s3(buckets, store):
    await buckets.put("crawl-results", "tiktok/proj_xyz/brand/batch_001.json", body(post("1")))
    outcome = await BatchProcessor(store, buckets).process(event())
    assert isinstance(outcome, Done)
    assert outcome.rows.counts.succeeded == 1


@pytest.mark.parametrize("bucket", ["crawl-results", "no-such-bucket"])
async def test_what_is_not_there_is_missing(buckets, bucket):
    with pytest.raises(Missing):
        [chunk async for chunk in buckets.chunks(bucket, "nothing.json")]


@pytest.mark.parametrize(
    ("query", "variables", "region"),
    [
        ("&region=ap-southeast-1", {"AWS_REGION": "eu-west-3"}, "ap-southeast-1"),
        ("", {"AWS_REGION": "eu-west-3"}, "eu-west-3"),
        ("", {"AWS_DEFAULT_REGION": "eu-north-1"}, "eu-north-1"),
        ("", {}, "us-east-1"),
    ],
)
async def test_requests_are_signed_for_the_region_of_the_bucket(monkeypatch, query, variables, region):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    signed = []

    async def answer(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        signed.extend(re.findall(rb"(?i)authorization: .*Credential=[^/]+/\d+/([^/]+)/s3/", head))
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        buckets = Buckets(f"s3://crawl-results?endpoint=http://127.0.0.1:{port}{query}")
        with pytest.raises(Missing):
            [chunk async for chunk in buckets.chunks("another-bucket", "batch.json")]
    assert signed == [region.encode()]


async def test_a_server_that_is_away_is_no_fault_of_the_batch(store):
    away = Buckets("s3://crawl-results?endpoint=http://127.0.0.1:1")
    outcome = await BatchProcessor(store, away).process(event(), retries=99)
    assert isinstance(outcome, RetryLater)
    assert outcome.reason.startswith("unavailable")
