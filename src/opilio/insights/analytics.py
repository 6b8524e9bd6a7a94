"""Questions about posts: what people say, how they feel, what they want, what went wrong while crawling."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Database, Row, Statement, load_queries
from opilio.contracts.analytics import (
    AnalysedProject,
    AnalyticsSummary,
    CrawlError,
    ErrorFigures,
    KeywordFigures,
    Post,
    PostComment,
    TrendPoint,
    Voice,
)
from opilio.errors import Invalid
from opilio.pages import Page, page_of, read_number, read_text, refuse_cursor, write_cursor

_Q = load_queries("opilio.insights")
BUCKETS = ("hour", "day", "week", "month")
ORDERS = ("time", "impact")
S = TypeVar("S", bound=msgspec.Struct)
_ASPECT_FIGURES = ("posts", "negative", "neutral", "positive")


@dataclass(frozen=True, slots=True)
class PostFilter:
    """Which posts are meant; what is None is not asked for. `since` is included, `until` is not."""

    platform: str | None = None
    keyword: str | None = None
    sentiment: str | None = None
    intent: str | None = None
    risk: str | None = None
    role: str | None = None
    language: str | None = None
    aspect: str | None = None
    q: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that every statement over posts takes."""
        names = ("platform", "keyword", "sentiment", "intent", "risk", "role", "language", "aspect", "q")
        wanted = {name: value for name in names if (value := getattr(self, name)) is not None}
        return {"wanted": wanted, "since": self.since, "until": self.until}


_ALL = PostFilter()


class AnalyticsInsights:
    """Read by the API, the dashboard and the command line alike."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def _ask(self, statement: Statement, **params: Any) -> list[Row]:
        """A filter that is not said must cost nothing, and a project may be small or huge: each is planned for."""
        async with self._db.transaction() as session:
            await session.execute(_Q.plan_for_these_values)
            return await session.fetch(statement, **params)

    async def summary(self, project_id: str, wanted: PostFilter = _ALL, *, top: int = 5) -> AnalyticsSummary:
        """All of a project on one page."""
        found: dict[str, Any] = {
            **await self.figures(project_id, wanted),
            "project_id": project_id,
            "comment_sentiments": await self.comment_sentiments(project_id, wanted),
            "aspects": await self.aspects(project_id, wanted),
            "share_of_voice": await self.share_of_voice(project_id, wanted),
            "top_keywords": await self.keywords(project_id, wanted, limit=top),
            "top_posts": (await self.posts(project_id, wanted, order="impact", limit=top)).items,
            "errors_by_code": await self.errors(project_id, wanted),
        }
        return msgspec.convert(found, AnalyticsSummary)

    async def figures(self, project_id: str, wanted: PostFilter = _ALL) -> dict[str, Any]:
        """How many posts, how felt, how wanted, how risky."""
        [row] = await self._ask(_Q.analytics_summary, project_id=project_id, **wanted.params)
        return dict(row)

    async def comment_sentiments(self, project_id: str, wanted: PostFilter = _ALL) -> dict[str, int]:
        rows = await self._ask(_Q.analytics_comment_sentiments, project_id=project_id, **wanted.params)
        return {row["sentiment"]: row["comments"] for row in rows}

    async def aspects(self, project_id: str, wanted: PostFilter = _ALL) -> dict[str, dict[str, int]]:
        """By name, the most spoken of first: how many posts, and how they feel about it."""
        rows = await self._ask(_Q.analytics_aspects, project_id=project_id, **wanted.params)
        return {row["aspect"]: {name: row[name] for name in _ASPECT_FIGURES} for row in rows}

    async def posts(
        self,
        project_id: str,
        wanted: PostFilter = _ALL,
        *,
        order: str = "time",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Any]:
        """Posts, the newest or the weightiest first."""
        _one_of("order", order, ORDERS)
        mark, key = _read_cursor(cursor, order)
        if order == "impact":
            statement, place, field = _Q.analytics_posts_by_impact, {"below": mark}, "impact_score"
        else:
            statement, place, field = _Q.analytics_posts, {"before_at": mark}, "at"
        rows = await self._ask(
            statement, project_id=project_id, before_key=key, most=limit + 1, **place, **wanted.params
        )
        more = rows[limit - 1] if len(rows) > limit else None
        next_cursor = _write_cursor(order, more[field], more["post_key"]) if more else None
        return Page(items=_typed(rows[:limit], Post), next_cursor=next_cursor)

    async def comments(
        self, project_id: str, platform: str, content_id: str, *, limit: int = 100
    ) -> list[PostComment]:
        rows = await self._ask(
            _Q.analytics_comments, project_id=project_id, platform=platform, id=content_id, most=limit
        )
        return _typed(rows, PostComment)

    async def trends(
        self, project_id: str, wanted: PostFilter = _ALL, *, bucket: str = "day", limit: int = 500
    ) -> list[TrendPoint]:
        """Volume and feeling over time, the oldest first."""
        _one_of("bucket", bucket, BUCKETS)
        rows = await self._ask(
            _Q.analytics_trends, project_id=project_id, bucket=bucket, most=limit, **wanted.params
        )
        return _typed(reversed(rows), TrendPoint)

    async def keywords(
        self, project_id: str, wanted: PostFilter = _ALL, *, limit: int = 50
    ) -> list[KeywordFigures]:
        rows = await self._ask(_Q.analytics_keywords, project_id=project_id, most=limit, **wanted.params)
        return _typed(rows, KeywordFigures)

    async def errors(self, project_id: str, wanted: PostFilter = _ALL) -> list[ErrorFigures]:
        """Errors by category and code."""
        rows = await self._ask(
            _Q.analytics_errors, project_id=project_id, since=wanted.since, until=wanted.until
        )
        return _typed(rows, ErrorFigures)

    async def error_list(
        self,
        project_id: str,
        wanted: PostFilter = _ALL,
        *,
        code: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Any]:
        """Single errors, the newest first."""
        rows = await self._ask(
            _Q.analytics_error_list,
            project_id=project_id,
            since=wanted.since,
            until=wanted.until,
            code=code,
            before=read_number(cursor),
            most=limit + 1,
        )
        page = page_of(rows, limit, lambda row: row, lambda row: row["id"])
        return Page(items=_typed(page.items, CrawlError), next_cursor=page.next_cursor)

    async def share_of_voice(self, project_id: str, wanted: PostFilter = _ALL) -> list[Voice]:
        """Brand against competitors, keyword by keyword."""
        rows = await self._ask(_Q.analytics_share_of_voice, project_id=project_id, **wanted.params)
        return _typed(rows, Voice)

    async def projects(self, *, limit: int = 100) -> list[AnalysedProject]:
        return _typed(await self._ask(_Q.analytics_projects, most=limit), AnalysedProject)

    async def export(
        self, project_id: str, wanted: PostFilter = _ALL, *, batch: int = 2_000
    ) -> AsyncIterator[list[Row]]:
        """Every post, the oldest first, a batch at a time: memory stays flat however large the project is.

        Pages by key, not a cursor: a reader may be slow, and must not hold a transaction open for as long.
        """
        at: datetime | None = None
        key: UUID | None = None
        while rows := await self._ask(
            _Q.analytics_export,
            project_id=project_id,
            after_at=at,
            after_key=key,
            most=batch,
            **wanted.params,
        ):
            yield rows
            at, key = rows[-1]["at"], rows[-1]["post_key"]


def _typed(rows: Iterable[Row], kind: type[S]) -> list[S]:
    return [msgspec.convert(dict(row), kind) for row in rows]


def _one_of(field: str, value: str, allowed: Iterable[str]) -> None:
    if value not in allowed:
        raise Invalid(field, f"must be one of {', '.join(allowed)}")


def _write_cursor(order: str, mark: datetime | float, key: UUID) -> str:
    shown = mark.isoformat() if isinstance(mark, datetime) else mark
    return write_cursor(msgspec.json.encode({order: [shown, str(key)]}).decode())


def _read_cursor(cursor: str | None, order: str) -> tuple[Any, UUID | None]:
    text = read_text(cursor)
    if text is None:
        return None, None
    try:
        place = msgspec.json.decode(text)
        mark, key = place[order]
        return (datetime.fromisoformat(mark) if order == "time" else float(mark)), UUID(key)
    except (ValueError, TypeError, KeyError, AttributeError, msgspec.DecodeError):
        refuse_cursor()
