"""The processes that run the stages: one that is killed leads to a retry, and its figures are counted with the others."""

import os
import signal
from concurrent.futures import BrokenExecutor

import pytest

from opilio.analytics.processing import BatchProcessor, Done, ProcessingOptions, Reject, RetryLater
from opilio.runtime.process_pool import ProcessPool
from tests.analytics.batches import body, event, post


def _pid() -> int:
    return os.getpid()


class Deadly:
    """A stage that takes its process with it."""

    version = "deadly-1"

    def classify(self, documents):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_died_is_replaced():
    with ProcessPool(1) as workers:
        first = workers.submit(_pid).result()
        assert first != os.getpid()
        with pytest.raises(BrokenExecutor):
            workers.submit(os.kill, first, signal.SIGKILL).result()
        assert workers.submit(_pid).result() not in (first, os.getpid())


async def test_a_batch_that_kills_its_worker_is_tried_again_and_given_up_in_the_end(store, buckets, rows):
    await buckets.put("r", "1.json", body(post("1")))
    options = ProcessingOptions(stages={"intent": "tests.analytics.test_workers:Deadly"})
    with ProcessPool(1) as workers:
        deadly = BatchProcessor(store, buckets, options, pool=workers)
        assert isinstance(await deadly.process(event("r/1.json")), RetryLater)
        harmless = BatchProcessor(store, buckets, pool=workers)
        assert isinstance(await harmless.process(event("r/1.json", "e2", batch_index=2)), Done)
        last = await deadly.process(event("r/1.json"), retries=9)
    assert isinstance(last, Reject)
    assert "worker_died" in last.reason
    told = await rows("select data from outbox where type = 'analyze_result' order by seq desc")
    assert told[0]["data"]["error_count"] == 3
