"""Figures of one project with 200,000 posts: from the digest by day, and from the posts for comparison."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.report import Table
from bench.size import scaled
from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.analytics.store import BatchStore
from opilio.insights.analytics import AnalyticsInsights
from opilio.insights.post_filter import PostFilter

POSTS, ROUNDS = scaled(200_000, 2_000), scaled(15, 3)
PROJECT = "large"

SEED = f"""
insert into post_analytics (post_key, stored_at, id, project_id, job_id, batch_index, task_type, platform, keyword_source, keyword_role,
    crawled_at, published_at, content_text, follower_count, view_count, like_count, comment_count, language, keywords, intent,
    sentiment, sentiment_score, aspects, impact_score, risk_level, analyzed_at, fetch_status)
  select opilio_uuid7(), now(), i::text, '{PROJECT}', '{PROJECT}-brand-0', i / 50, 'research_and_crawl',
    (array['tiktok', 'youtube'])[1 + i % 2], 'word ' || i % 4, case when i % 4 < 2 then 'brand' else 'competitor' end, now(),
    now() - random() * interval '90 days', repeat('what somebody said about it ', 5), 900, 1000 + i % 9000, i % 500, i % 30,
    (array['vi', 'en'])[1 + i % 2], array['battery', 'price ' || i % 40, 'thing ' || i % 300],
    (array['discussion', 'complaint', 'purchase_intent', 'praise'])[1 + i % 4], (array['negative', 'neutral', 'positive'])[1 + i % 3],
    random() * 2 - 1, '{{"battery": {{"sentiment": "positive", "score": 0.8, "mentions": ["pin"]}}}}', random() * 100,
    (array['low', 'low', 'medium', 'high'])[1 + i % 4], now(), 'success'
  from generate_series(1, {POSTS}) i;
insert into post_identity (project, platform, content_id, post_key, stored_at)
  select project_id, platform, id, post_key, stored_at from post_analytics;
"""
# What a batch writes beside its posts; the dashboard's bench needs it too.
DIGEST_SEED = """
insert into analytics_project (project_id, time_zone) select distinct project_id, 'UTC' from post_analytics;
insert into post_keywords (project_id, post_key, stored_at, keyword, role, first_seen, last_seen)
  select project_id, post_key, stored_at, keyword_source, keyword_role, now(), now() from post_analytics;
"""


async def main() -> Table:
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedPostgres(Path(folder) / "pg")
        url = server.start()
        try:
            await migrate.upgrade(url)
            database = await Database.connect(url)
            await _seed(database)
            table = await _measure(AnalyticsInsights(database))
            await database.close()
            return table
        finally:
            server.stop()


async def _seed(database: Database) -> None:
    async with database.session() as session:
        await session.connection.execute(SEED, timeout=900)
        await session.connection.execute(DIGEST_SEED, timeout=900)
    await BatchStore(database).mend_digests()
    async with database.session() as session:
        await session.connection.execute("vacuum analyze", timeout=300)


async def _measure(insights: AnalyticsInsights) -> Table:
    questions: dict[str, Callable[[PostFilter], Awaitable[Any]]] = {
        "figures": lambda wanted: insights.figures(PROJECT, wanted),
        "aspects": lambda wanted: insights.aspects(PROJECT, wanted),
        "share of voice": lambda wanted: insights.share_of_voice(PROJECT, wanted),
        "keywords": lambda wanted: insights.keywords(PROJECT, wanted, limit=12),
        "trends": lambda wanted: insights.trends(PROJECT, wanted),
        "whole summary": lambda wanted: insights.summary(PROJECT, wanted),
        "the dashboard's four at once": lambda wanted: asyncio.gather(
            insights.figures(PROJECT, wanted),
            insights.aspects(PROJECT, wanted),
            insights.share_of_voice(PROJECT, wanted),
            insights.keywords(PROJECT, wanted, limit=12),
        ),
    }
    assert (await insights.figures(PROJECT))["posts"] == POSTS
    table = Table(
        f"Figures of a project with {POSTS:,} posts: milliseconds, median of {ROUNDS}",
        ("question", "from the digest", "from half of the posts, by a filter"),
    )
    slowest = 0.0
    for name, ask in questions.items():
        digest = await _milliseconds(ask, PostFilter())
        slowest = max(slowest, digest)
        table.add(name, digest, await _milliseconds(ask, PostFilter(language="vi")))
    table.goal("slowest question, ms", slowest, at_most=100)
    return table


async def _milliseconds(ask: Callable[[PostFilter], Awaitable[Any]], wanted: PostFilter) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await ask(wanted)
        taken.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(taken), 1)
