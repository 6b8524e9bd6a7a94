"""How fast the stages are, one by one and together, and the whole way of a batch into PostgreSQL.

python bench/analytics_stages.py [--items 5000] [--comments 3] [--database] [--workers 2]
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import zstandard

from opilio.analytics.batch import analyse_batch
from opilio.analytics.gold import posts
from opilio.analytics.message import BatchContext
from opilio.analytics.pipeline import Pipeline
from opilio.analytics.stages.document import Figures

NOW = datetime(2026, 5, 4, tzinfo=UTC)
CONTEXT = BatchContext("p1", "p1-brand-0", "tiktok", 1, 50, "research_and_crawl", "VinFast")


def texts_of(count):
    draw = random.Random(1)
    gold = [post.text for post in posts()]
    return [". ".join(draw.sample(gold, 2)) for _ in range(count)]


def items_of(texts, comments):
    return [
        msgspec.json.encode(
            {
                "meta": {
                    "id": str(7_300_000_000_000_000_000 + n),
                    "platform": "TIKTOK",
                    "fetch_status": "success",
                    "published_at": "2026-05-01T08:00:00Z",
                    "crawled_at": "2026-05-02T08:00:00Z",
                },
                "content": {"text": text},
                "interaction": {"views": 1000 + n, "likes": 50, "comments_count": comments, "shares": 2},
                "author": {"id": str(n), "name": "An", "followers": 900},
                "comments": [
                    {"id": f"{n}-{c}", "text": texts[(n + c + 1) % len(texts)]} for c in range(comments)
                ],
            }
        )
        for n, text in enumerate(texts)
    ]


def stage_times(texts):
    """Milliseconds of processor time that a text takes in each stage."""
    pipeline = Pipeline.default()
    pipeline.analyse(texts[:200], [None] * 200)  # caches warm
    count = len(texts)
    took = {}

    def timed(title, work):
        begun = time.process_time()
        result = work()
        took[title] = 1000 * (time.process_time() - begun) / count
        return result

    documents = timed("preprocessing", lambda: pipeline.preprocessing.prepare(texts, [None] * count))
    timed("keywords", lambda: pipeline.keywords.extract(documents))
    intents = timed("intent", lambda: pipeline.intent.classify(documents))
    feelings = timed("sentiment", lambda: pipeline.sentiment.score(documents))
    figures = [Figures(views=1000, likes=50, followers=900, age_hours=5)] * count
    rows = list(zip(figures, feelings, intents, strict=True))
    timed("impact", lambda: pipeline.impacts(rows))
    return took


def stages(texts):
    size = sum(map(len, texts)) / len(texts)
    print(f"stages, one core, {len(texts)} texts of {size:.0f} characters")
    for title, milliseconds in stage_times(texts).items():
        print(f"  {title:<15}{1000 / milliseconds:>10,.0f} a second")


def batches(items, comments):
    took = []
    for start in range(0, len(items), 50):
        begun = time.process_time()
        analyse_batch(items[start : start + 50], CONTEXT, {}, NOW)
        took.append(time.process_time() - begun)
    print(f"batches of 50 items with {comments} comments each, parsed and turned into rows, one core")
    print(f"  {len(items) / sum(took):,.0f} items a second; p95 {1000 * p95(took):.1f} ms a batch")


def p95(values):
    return statistics.quantiles(values, n=20)[-1]


async def through_database(items, workers, together):
    from opilio.adapters.buckets import Buckets
    from opilio.adapters.postgres import Database, migrate
    from opilio.adapters.postgres.embedded import EmbeddedPostgres
    from opilio.analytics.processing import BatchProcessor
    from opilio.analytics.store import BatchStore

    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedPostgres(Path(folder) / "postgres")
        url = server.start()
        await migrate.upgrade(url)
        database = await Database.connect(url, size=together + 2)
        buckets = Buckets("memory://")
        messages = []
        for n, start in enumerate(range(0, len(items), 50)):
            body = zstandard.compress(b"[" + b",".join(items[start : start + 50]) + b"]")
            await buckets.put("crawl", f"{n}.json", body)
            payload = {
                "minio_path": f"crawl/{n}.json",
                "project_id": "p1",
                "job_id": "p1-brand-0",
                "batch_index": n,
                "content_count": 50,
                "platform": "tiktok",
            }
            messages.append(msgspec.json.encode({"event_id": f"e{n}", "payload": payload}))
        with ProcessPoolExecutor(workers) as pool:
            processor = BatchProcessor(BatchStore(database), buckets, pool=pool)
            await asyncio.gather(
                *(
                    asyncio.get_running_loop().run_in_executor(pool, analyse_batch, [], CONTEXT, {}, NOW)
                    for _ in range(workers * 2)
                )
            )
            await run(processor, messages, together, len(items))
        await database.close()
        server.stop()


async def run(processor, messages, together, count):
    took = []
    gate = asyncio.Semaphore(together)

    async def one(message):
        async with gate:
            begun = time.perf_counter()
            outcome = await processor.process(message)
            took.append(time.perf_counter() - begun)
            assert outcome.rows is not None, outcome

    begun = time.perf_counter()
    await asyncio.gather(*(one(message) for message in messages))
    seconds = time.perf_counter() - begun
    print(f"whole way: message, zstd, stages in a pool, PostgreSQL, outbox; {together} batches at once")
    print(f"  {60 * count / seconds:,.0f} items a minute; p95 {1000 * p95(took):.0f} ms a batch of 50")


def main():
    parser = argparse.ArgumentParser(description="Measures the speed of the analytics stages.")
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--comments", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--together", type=int, default=5)
    parser.add_argument("--database", action="store_true", help="also the whole way into PostgreSQL")
    options = parser.parse_args()
    texts = texts_of(options.items)
    items = items_of(texts, options.comments)
    stages(texts)
    batches(items, options.comments)
    if options.database:
        asyncio.run(through_database(items, options.workers, options.together))


if __name__ == "__main__":
    main()
