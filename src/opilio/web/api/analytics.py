"""Analytics of a project."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from litestar import Response
from litestar.response import Stream
from msgspec import Meta

from opilio.contracts.analytics import (
    AnalyticsSummary,
    CrawlError,
    ErrorFigures,
    KeywordFigures,
    KeywordRole,
    Post,
    PostComment,
    RiskLevel,
    SentimentLabel,
    TrendPoint,
    Voice,
)
from opilio.contracts.projects import RetriedErrors
from opilio.insights.export import CSV, FORMATS, PARQUET
from opilio.insights.post_filter import PostFilter
from opilio.web.api.shared import whole
from opilio.web.routes import Call, Handler, Registry

ANALYTICS = Registry()
_PATH = "/api/v1/analytics/{project_id:str}"
Word = Annotated[str, Meta(max_length=200)]
Moment = Annotated[datetime, Meta(tz=True)]


class PostsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    platform: Word | None = None
    keyword: Word | None = None
    sentiment: SentimentLabel | None = None
    intent: Word | None = None
    risk: RiskLevel | None = None
    role: KeywordRole | None = None
    language: Word | None = None
    aspect: Word | None = None
    q: Word | None = None
    since: Moment | None = None
    until: Moment | None = None

    @property
    def wanted(self) -> PostFilter:
        return PostFilter(**{name: getattr(self, name) for name in PostsQuery.__struct_fields__})


class PostListQuery(PostsQuery, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    cursor: Annotated[str, Meta(max_length=500)] | None = None
    order: Literal["time", "impact"] = "time"


class TrendQuery(PostsQuery, kw_only=True, forbid_unknown_fields=True):
    bucket: Literal["hour", "day", "week", "month"] = "day"


class ExportQuery(PostsQuery, kw_only=True, forbid_unknown_fields=True):
    format: Literal["csv", "parquet"] | None = None


class KeywordQuery(PostsQuery, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class CommentQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    platform: Word
    id: Annotated[str, Meta(min_length=1, max_length=512)]
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class ErrorQuery(PostsQuery, kw_only=True, forbid_unknown_fields=True):
    retryable: bool = False


class ErrorListQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    code: Word | None = None
    retryable: bool = False
    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    cursor: Annotated[str, Meta(max_length=18)] | None = None


def _get(path: str, summary: str, **about: Any) -> Callable[[Handler], Handler]:
    return ANALYTICS.add("GET", f"{_PATH}/{path}", "read", summary, tag="analytics", **about)


@_get("summary", "The figures of a project", query=PostsQuery, answer=AnalyticsSummary)
async def analytics_summary(call: Call) -> Any:
    return await call.opilio.analytics.summary(call.text("project_id"), call.query.wanted)


@_get("posts", "Posts, newest first or by impact", query=PostListQuery, answer=list[Post])
async def analytics_posts(call: Call) -> Any:
    q: PostListQuery = call.query
    return await call.opilio.analytics.posts(
        call.text("project_id"), q.wanted, order=q.order, limit=q.limit, cursor=q.cursor
    )


@_get("comments", "The comments of a post, most liked first", query=CommentQuery, answer=list[PostComment])
async def analytics_comments(call: Call) -> Any:
    q: CommentQuery = call.query
    found = await call.opilio.analytics.comments(call.text("project_id"), q.platform, q.id, limit=q.limit)
    return whole(found)


@_get("trends", "Volume and sentiment over time", query=TrendQuery, answer=list[TrendPoint])
async def analytics_trends(call: Call) -> Any:
    q: TrendQuery = call.query
    return whole(await call.opilio.analytics.trends(call.text("project_id"), q.wanted, bucket=q.bucket))


@_get("keywords", "The most frequent keywords", query=KeywordQuery, answer=list[KeywordFigures])
async def analytics_keywords(call: Call) -> Any:
    q: KeywordQuery = call.query
    return whole(await call.opilio.analytics.keywords(call.text("project_id"), q.wanted, limit=q.limit))


@_get("share-of-voice", "Brand against competitors, keyword by keyword", query=PostsQuery, answer=list[Voice])
async def analytics_share_of_voice(call: Call) -> Any:
    return whole(await call.opilio.analytics.share_of_voice(call.text("project_id"), call.query.wanted))


@_get("errors", "Errors by category and code", query=ErrorQuery, answer=list[ErrorFigures])
async def analytics_errors(call: Call) -> Any:
    q: ErrorQuery = call.query
    found = await call.opilio.analytics.errors(call.text("project_id"), q.wanted, retryable=q.retryable)
    return whole(found)


@ANALYTICS.add(
    "POST",
    f"{_PATH}/errors/retry",
    "write",
    "Crawl failed posts again where that may help: a crawl_links request for each platform",
    answer=RetriedErrors,
    errors=("not_found",),
    tag="analytics",
)
async def retry_errors(call: Call) -> Any:
    return await call.opilio.projects.retry_errors(call.text("project_id"), by=call.actor)


@_get("errors/items", "Single errors, newest first", query=ErrorListQuery, answer=list[CrawlError])
async def analytics_error_items(call: Call) -> Any:
    q: ErrorListQuery = call.query
    wanted = PostFilter(since=q.since, until=q.until)
    return await call.opilio.analytics.error_list(
        call.text("project_id"), wanted, code=q.code, retryable=q.retryable, limit=q.limit, cursor=q.cursor
    )


@_get("export", "Every post as CSV or Parquet", query=ExportQuery, raw_answers=(CSV, PARQUET))
async def analytics_export(call: Call) -> Response[Any]:
    """`format` decides; without it the header `Accept`; the default is CSV."""
    accepts_parquet = PARQUET in call.request.headers.get("accept", "")
    chosen = FORMATS[call.query.format or ("parquet" if accepts_parquet else "csv")]
    chosen.check()
    project_id = call.text("project_id")
    batches = call.opilio.analytics.export(project_id, call.query.wanted)
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in project_id)[:100]
    headers = {"content-disposition": f'attachment; filename="{name}.{chosen.name}"'}
    return Stream(chosen.write(batches), media_type=chosen.media_type, headers=headers)
