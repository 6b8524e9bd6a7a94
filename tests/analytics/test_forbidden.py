"""S3 answers 403 for a missing key where listing is not allowed: it is not asked for ever."""

import pytest

from opilio.adapters.buckets import Buckets, Forbidden
from opilio.analytics.processing import BatchProcessor, Reject, RetryLater
from opilio.analytics.store import BatchStore
from tests.analytics.batches import event
from tests.components.fixtures import s3  # noqa: F401


@pytest.fixture
def forbidden(s3, monkeypatch) -> Buckets:  # noqa: F811
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    return Buckets(f"s3://{s3.bucket}?endpoint={s3.url}")


async def test_a_refused_object_says_what_to_check(forbidden, s3):  # noqa: F811
    with pytest.raises(Forbidden, match="AWS_… credentials"):
        [chunk async for chunk in forbidden.chunks(s3.bucket, "a.json")]


async def test_it_is_tried_some_times_and_then_given_up(forbidden, s3, database, rows):  # noqa: F811
    processor = BatchProcessor(BatchStore(database), forbidden)
    message = event(f"{s3.bucket}/a.json")
    assert isinstance(await processor.process(message), RetryLater)
    assert isinstance(await processor.process(message, retries=6), RetryLater)
    assert isinstance(await processor.process(message, retries=7), Reject)
    (told,) = await rows("select data from outbox where type = 'analyze_result'")
    assert told["data"]["error_count"] == 3
