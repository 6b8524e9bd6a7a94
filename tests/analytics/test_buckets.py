import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opilio.adapters.buckets import Buckets, Missing
from opilio.analytics.processing import Again, BatchProcessor, Done
from tests.analytics.batches import body, event, post


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """A real S3 server over a folder."""
    folder = tmp_path_factory.mktemp("s3")
    (folder / "crawl-results").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    rclone = shutil.which("rclone", path=Path(sys.executable).parent)
    command = [
        rclone,
        "serve",
        "s3",
        "--addr",
        f"127.0.0.1:{port}",
        "--auth-key",
        "opilio-test,opilio-test-secret",
        str(folder),
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait_for(port)
    yield f"s3://crawl-results?endpoint=http://127.0.0.1:{port}"
    server.terminate()
    server.wait(10)


def _wait_for(port):
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the S3 server did not start")


@pytest.fixture
def buckets(s3, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "opilio-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "opilio-test-secret")
    return Buckets(s3)


async def test_a_batch_from_s3(buckets, store):
    await buckets.put("crawl-results", "tiktok/proj_xyz/brand/batch_001.json", body(post("1")))
    outcome = await BatchProcessor(store, buckets).process(event())
    assert isinstance(outcome, Done)
    assert outcome.rows.counts.succeeded == 1


@pytest.mark.parametrize("bucket", ["crawl-results", "no-such-bucket"])
async def test_what_is_not_there_is_missing(buckets, bucket):
    with pytest.raises(Missing):
        [chunk async for chunk in buckets.chunks(bucket, "nothing.json")]


async def test_a_server_that_is_away_is_no_fault_of_the_batch(store, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "opilio-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "opilio-test-secret")
    away = Buckets("s3://crawl-results?endpoint=http://127.0.0.1:1")
    outcome = await BatchProcessor(store, away).process(event(), retries=99)
    assert isinstance(outcome, Again)
    assert outcome.reason.startswith("unavailable")
