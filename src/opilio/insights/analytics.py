"""Reads analysed posts: figures, trends, keywords, share of voice, errors.

Figures over whole days come from the digest that is kept as batches are stored; filtered ones from the posts.
"""

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from opilio.adapters.postgres import Database, Row, Session, Statement, load_queries
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
from opilio.contracts.codes import FINAL_CODES
from opilio.errors import Invalid
from opilio.insights.post_filter import Days, PostFilter
from opilio.pages import Page, page_of, read_number, read_text, refuse_cursor, write_cursor

_Q = load_queries("opilio.insights")
BUCKETS = ("hour", "day", "week", "month")
ORDERS = ("time", "impact")
S = TypeVar("S", bound=msgspec.Struct)
_SEARCHED_POSTS = 2000
_FINAL_CODES = sorted(FINAL_CODES)
_ASPECT_FIGURES = ("posts", "negative", "neutral", "positive")


_ALL = PostFilter()
_EVERY = 1_000_000


class VoicePoint(NamedTuple):
    """How many posts a keyword of the brand or of a competitor found in a span of time."""

    at: datetime
    role: str
    keyword: str | None
    posts: int


class AnalyticsInsights:
    """Read queries for the API, the dashboard and the CLI."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def _ask(self, statement: Statement, **params: Any) -> list[Row]:
        """Planned anew for each filter and project: an unset filter must cost nothing, and sizes differ widely."""
        async with self._db.transaction() as session:
            await session.execute(_Q.plan_for_these_values)
            return await session.fetch(statement, **params)

    async def time_zone(self, project_id: str) -> ZoneInfo:
        """The zone that the days of a project are counted in."""
        return _zone(await self._db.fetch(_Q.digest_zone, project_id=project_id))

    async def _days(self, project_id: str, wanted: PostFilter) -> Days | None:
        return Days.covering(wanted, await self.time_zone(project_id))

    async def _labels(self, project_id: str, kind: str, days: Days, limit: int = _EVERY) -> list[Row]:
        return await self._ask(_Q.digest_labels, project_id=project_id, kind=kind, most=limit, **days.params)

    async def summary(self, project_id: str, wanted: PostFilter = _ALL, *, top: int = 5) -> AnalyticsSummary:
        """All of a project on one page, read in one transaction: each question alone would be five round trips."""
        async with self._db.transaction() as session:
            await session.execute(_Q.plan_for_these_values)
            return await _OneTransaction(self._db, session).all_figures(project_id, wanted, top)

    async def all_figures(self, project_id: str, wanted: PostFilter, top: int) -> AnalyticsSummary:
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
        """How many posts, with their sentiment, intent and risk."""
        if days := await self._days(project_id, wanted):
            span = {"since": wanted.since, "until": wanted.until, **days.params}
            [row] = await self._ask(_Q.digest_summary, project_id=project_id, **span)
            return dict(row)
        [row] = await self._ask(_Q.analytics_summary, project_id=project_id, **wanted.params)
        return dict(row)

    async def comment_sentiments(self, project_id: str, wanted: PostFilter = _ALL) -> dict[str, int]:
        if days := await self._days(project_id, wanted):
            return {row["key"]: row["posts"] for row in await self._labels(project_id, "comment", days)}
        rows = await self._ask(_Q.analytics_comment_sentiments, project_id=project_id, **wanted.params)
        return {row["sentiment"]: row["comments"] for row in rows}

    async def aspects(self, project_id: str, wanted: PostFilter = _ALL) -> dict[str, dict[str, int]]:
        """By name, the most mentioned first: how many posts, and their sentiment about it."""
        if days := await self._days(project_id, wanted):
            rows = await self._labels(project_id, "aspect", days)
            return {row["key"]: {name: row[name] for name in _ASPECT_FIGURES} for row in rows}
        rows = await self._ask(_Q.analytics_aspects, project_id=project_id, **wanted.params)
        return {row["aspect"]: {name: row[name] for name in _ASPECT_FIGURES} for row in rows}

    async def texts(self, project_id: str, posts: Iterable[tuple[str, str]]) -> dict[str, str]:
        """What some posts say, by their id; given are platform and id. One that was deleted has no text."""
        platforms, ids = zip(*posts, strict=True) if posts else ((), ())
        rows = await self._ask(
            _Q.analytics_texts, project_id=project_id, platforms=list(platforms), ids=list(ids)
        )
        return {row["id"]: row["content_text"] for row in rows if row["content_text"]}

    async def posts(
        self,
        project_id: str,
        wanted: PostFilter = _ALL,
        *,
        order: str = "time",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Any]:
        """Posts, newest or highest impact first."""
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

    async def posts_like(self, q: str, *, most: int) -> list[Row]:
        """Posts of any project for a search from everywhere, among the newest."""
        return await self._db.fetch(_Q.posts_like, q=q, bound=_SEARCHED_POSTS, most=most)

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
        """Volume and sentiment over time in the project's zone, the oldest first."""
        both = (_Q.digest_trends, _Q.analytics_trends)
        return _typed(await self._over_time(both, project_id, wanted, bucket, limit), TrendPoint)

    async def voices_over_time(
        self, project_id: str, wanted: PostFilter = _ALL, *, bucket: str = "day", limit: int = 20_000
    ) -> list[VoicePoint]:
        """Posts of the brand and of each competitor over time, keyword by keyword, the oldest first."""
        both = (_Q.digest_voices, _Q.analytics_voices)
        rows = await self._over_time(both, project_id, wanted, bucket, limit)
        return [VoicePoint(row["at"], *_voice_of(row["key"]), row["posts"]) for row in rows]

    async def _over_time(
        self,
        statements: tuple[Statement, Statement],
        project_id: str,
        wanted: PostFilter,
        bucket: str,
        limit: int,
    ) -> list[Row]:
        """From the digest of the days if it covers what is wanted, else from the posts."""
        _one_of("bucket", bucket, BUCKETS)
        zone = await self.time_zone(project_id)
        asked = {"project_id": project_id, "bucket": bucket, "most": limit, "time_zone": zone.key}
        days = Days.covering(wanted, zone) if bucket != "hour" else None
        of_days, of_posts = statements
        if days:
            rows = await self._ask(of_days, **asked, **days.params)
        else:
            rows = await self._ask(of_posts, **asked, **wanted.params)
        return rows[::-1]

    async def keywords(
        self, project_id: str, wanted: PostFilter = _ALL, *, limit: int = 50
    ) -> list[KeywordFigures]:
        if days := await self._days(project_id, wanted):
            rows = await self._labels(project_id, "word", days, limit)
            return [_keyword_figures(row) for row in rows]
        rows = await self._ask(_Q.analytics_keywords, project_id=project_id, most=limit, **wanted.params)
        return _typed(rows, KeywordFigures)

    async def errors(
        self, project_id: str, wanted: PostFilter = _ALL, *, retryable: bool = False
    ) -> list[ErrorFigures]:
        """Errors by category and code; `retryable` ones may pass, and their posts are still missing."""
        rows = await self._ask(
            _Q.analytics_errors,
            project_id=project_id,
            since=wanted.since,
            until=wanted.until,
            retryable=retryable,
            final_codes=_FINAL_CODES,
        )
        return _typed(rows, ErrorFigures)

    async def error_list(
        self,
        project_id: str,
        wanted: PostFilter = _ALL,
        *,
        code: str | None = None,
        retryable: bool = False,
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
            retryable=retryable,
            final_codes=_FINAL_CODES,
            before=read_number(cursor),
            most=limit + 1,
        )
        page = page_of(rows, limit, lambda row: row, lambda row: row["id"])
        return Page(items=_typed(page.items, CrawlError), next_cursor=page.next_cursor)

    async def share_of_voice(self, project_id: str, wanted: PostFilter = _ALL) -> list[Voice]:
        """Brand against competitors, keyword by keyword; a post found by two keywords counts for both."""
        if days := await self._days(project_id, wanted):
            return _voices(await self._labels(project_id, "voice", days))
        rows = await self._ask(_Q.analytics_share_of_voice, project_id=project_id, **wanted.params)
        return _typed(rows, Voice)

    async def knows(self, project_id: str) -> bool:
        """Whether there are posts of a project, whoever created it."""
        return bool(await self._db.fetch(_Q.digest_zone, project_id=project_id))

    async def projects_without_record(
        self, *, q: str | None = None, limit: int = 50
    ) -> list[AnalysedProject]:
        """Projects that are known only from their batches, the largest first."""
        return _typed(await self._ask(_Q.analytics_projects, q=q, most=limit), AnalysedProject)

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


class _OneTransaction(AnalyticsInsights):
    """The same questions on one connection; the zone is asked once."""

    def __init__(self, database: Database, session: Session) -> None:
        super().__init__(database)
        self._session = session
        self._zones: dict[str, ZoneInfo] = {}

    async def _ask(self, statement: Statement, **params: Any) -> list[Row]:
        return await self._session.fetch(statement, **params)

    async def time_zone(self, project_id: str) -> ZoneInfo:
        if project_id not in self._zones:
            rows = await self._ask(_Q.digest_zone, project_id=project_id)
            self._zones[project_id] = _zone(rows)
        return self._zones[project_id]


def _zone(rows: list[Row]) -> ZoneInfo:
    return ZoneInfo(rows[0]["time_zone"] if rows else "UTC")


def _keyword_figures(row: Row) -> KeywordFigures:
    names = ("posts", "negative", "positive", "sentiment_score", "top_impact")
    return KeywordFigures(keyword=row["key"], **{name: row[name] for name in names})


def _voice_of(key: str) -> tuple[Any, str | None]:
    """`brand iphone 15` → the role and the keyword."""
    role, _, keyword = key.partition(" ")
    return role, keyword or None


def _voices(rows: list[Row]) -> list[Voice]:
    posts = sum(row["posts"] for row in rows)
    interactions = sum(row["interactions"] for row in rows)
    names = ("posts", "views", "interactions", "negative", "positive", "sentiment_score")
    found = []
    for row in rows:
        role, keyword = _voice_of(row["key"])
        found.append(
            Voice(
                role=role,
                keyword=keyword,
                share_percent=round(row["posts"] * 100 / posts, 2),
                engagement_percent=round(row["interactions"] * 100 / interactions, 2)
                if interactions
                else 0.0,
                **{name: row[name] for name in names},
            )
        )
    return sorted(found, key=lambda voice: (-voice.posts, voice.role, voice.keyword or ""))


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
