import json

import pytest

from opilio.analytics.message import BlobRef, Unreadable, parse_path, read_message
from opilio.project_id import extract_project_id
from tests.analytics.batches import event, post


def test_an_event_says_where_its_batch_lies():
    inbound = read_message(event())
    assert inbound.format == "event"
    assert inbound.blob == BlobRef("crawl-results", "tiktok/proj_xyz/brand/batch_001.json")
    assert (inbound.context.project_id, inbound.context.job_id, inbound.context.batch_index) == (
        "proj_xyz",
        "proj_xyz-brand-0",
        1,
    )


def test_the_project_is_read_from_the_job_where_the_event_has_none():
    assert read_message(event(project_id=None)).context.project_id == "proj_xyz"


def test_a_dry_run_has_no_project():
    dry = event(project_id=None, job_id="6f1c1f0e-8a51-4c7e-9a8e-0a4b6f3b2c11")
    assert read_message(dry).context.project_id is None


def test_the_same_batch_under_another_event_has_the_same_key():
    assert read_message(event(event_id="a")).batch_key == read_message(event(event_id="b")).batch_key
    assert read_message(event(batch_index=2)).batch_key != read_message(event()).batch_key


def test_the_older_form_is_a_reference():
    inbound = read_message(json.dumps({"data_ref": {"bucket": "raw", "path": "/posts/1.json"}}).encode())
    assert (inbound.format, inbound.blob) == ("legacy", BlobRef("raw", "posts/1.json"))


def test_an_item_can_be_the_message():
    inbound = read_message(json.dumps(post(meta={"job_id": "p-1-competitor-3"})).encode())
    assert (inbound.format, inbound.context.project_id, inbound.context.platform) == (
        "inline",
        "p-1",
        "tiktok",
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b"[1]", "unknown_format"),
        (b'{"hello": 1}', "unknown_format"),
        (b'{"data_ref": {"bucket": "a@evil.test:80", "path": "x"}}', "bad_path"),
    ],
)
def test_what_cannot_be_understood_says_why(body, reason):
    with pytest.raises(Unreadable, match=reason):
        read_message(body)


@pytest.mark.parametrize(
    "path",
    [
        "7",
        '"only-a-bucket"',
        '"bucket/../secret"',
        '"../etc/passwd"',
        '"./etc/passwd"',
        '"bucket//etc"',
        '""',
    ],
)
def test_an_event_with_a_path_that_is_none_still_says_whose_batch_it_is(path):
    inbound = read_message(f'{{"payload": {{"minio_path": {path}, "job_id": "p-brand-0"}}}}'.encode())
    assert "bad_path" in inbound.fault
    assert (inbound.blob, inbound.context.project_id) == (None, "p")


def test_a_path_may_carry_a_scheme():
    assert parse_path("minio://bucket/a/b.json") == BlobRef("bucket", "a/b.json")


@pytest.mark.parametrize(
    ("job_id", "project"),
    [
        ("proj_xyz-brand-0", "proj_xyz"),
        ("proj-with-dashes-competitor-12", "proj-with-dashes"),
        ("6f1c1f0e-8a51-4c7e-9a8e-0a4b6f3b2c11-brand-0", "6f1c1f0e-8a51-4c7e-9a8e-0a4b6f3b2c11"),
        ("6f1c1f0e-8a51-4c7e-9a8e-0a4b6f3b2c11", None),
        ("6F1C1F0E-8A51-4C7E-9A8E-0A4B6F3B2C11", None),
        ("one-two", None),
        ("a-brand-x", None),
        ("-brand-0", None),
        ("a-brand-²", None),
        ("", None),
    ],
)
def test_extract_project_id(job_id, project):
    assert extract_project_id(job_id) == project
