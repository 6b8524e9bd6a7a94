"""The task that Celery runs in the bench of peers; as a program it sends so many of them."""

import sys

from celery import Celery

app = Celery("bench")


@app.task(name="crawl", ignore_result=True)
def crawl(**_: object) -> None:
    return None


if __name__ == "__main__":
    from bench.peers import PAYLOAD

    app.conf.broker_url = sys.argv[1]
    with app.producer_or_acquire() as producer:
        for _ in range(int(sys.argv[2])):
            crawl.apply_async(kwargs=PAYLOAD, producer=producer)
