"""The task that Celery runs in the bench of peers; as a program it sends so many of them."""

import sys

from celery import Celery

app = Celery("bench")
# As durable as the others: replicated log with fsync, acknowledged after the task. Many short tasks: a larger prefetch.
app.conf.task_default_queue_type = "quorum"
app.conf.task_default_exchange_type = "topic"
app.conf.task_acks_late = True
app.conf.worker_prefetch_multiplier = 50


@app.task(name="crawl", ignore_result=True)
def crawl(**_: object) -> None:
    return None


if __name__ == "__main__":
    from bench.peers import PAYLOAD

    app.conf.broker_url = sys.argv[1]
    app.conf.broker_transport_options = {"confirm_publish": True}
    with app.producer_or_acquire() as producer:
        for _ in range(int(sys.argv[2])):
            crawl.apply_async(kwargs=PAYLOAD, producer=producer)
