"""The summary of a project reads its digest and a handful of posts, however many posts it has."""

from typing import Any

import pytest

from opilio.analytics.store import BatchStore
from opilio.insights import analytics
from opilio.insights.analytics import AnalyticsInsights
from opilio.insights.post_filter import PostFilter

POSTS = 5_000
SEED = f"""
insert into post_analytics (post_key, stored_at, id, project_id, platform, keyword_source, keyword_role, published_at, language,
    keywords, intent, sentiment, sentiment_score, aspects, impact_score, risk_level, analyzed_at, fetch_status)
  select opilio_uuid7(), now(), i::text, 'large', 'tiktok', 'VF8', 'brand', now() - i % 90 * interval '1 day', 'vi',
    array['battery', 'thing ' || i % 50], 'praise', 'positive', 0.5,
    '{{"battery": {{"sentiment": "positive", "score": 0.8, "mentions": ["pin"]}}}}', i % 100, 'low', now(), 'success'
  from generate_series(1, {POSTS}) i;
insert into analytics_project values ('large', 'UTC');
analyze post_analytics;
"""


@pytest.fixture
async def large(database):
    async with database.session() as session:
        await session.connection.execute(SEED)
    await BatchStore(database).mend_digests()
    return database


@pytest.fixture
def posts_read(monkeypatch):
    """Explains every statement of a summary and counts the rows that it reads from the tables of posts."""
    read: list[int] = []

    class Explained(analytics._OneTransaction):
        async def _ask(self, statement: Any, **params: Any) -> Any:
            explained = f"explain (analyze, format json) {statement.sql}"
            plan = await self._session.connection.fetchval(explained, *statement.bind(params))
            read.extend(rows_of_posts(plan[0]["Plan"]))
            return await super()._ask(statement, **params)

    monkeypatch.setattr(analytics, "_OneTransaction", Explained)
    return read


def rows_of_posts(node: dict[str, Any]) -> list[int]:
    found = [row for inner in node.get("Plans", []) for row in rows_of_posts(inner)]
    if node.get("Relation Name", "").startswith(("post_analytics", "post_comments")):
        each = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        found.append(int(each * node["Actual Loops"]))
    return found


async def test_a_summary_reads_no_more_posts_than_it_shows(large, posts_read):
    summary = await AnalyticsInsights(large).summary("large", top=5)
    assert (summary.posts, len(summary.top_posts), len(summary.top_keywords)) == (POSTS, 5, 5)
    assert 5 <= sum(posts_read) <= 10  # five shown, one to see whether there are more, the first and the last


async def test_a_filtered_summary_reads_the_posts(large, posts_read):
    """The count above would notice."""
    summary = await AnalyticsInsights(large).summary("large", PostFilter(language="vi"))
    assert summary.posts == POSTS
    assert sum(posts_read) >= POSTS
