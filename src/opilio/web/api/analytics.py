"""What the posts of a project say."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from litestar import Response
from litestar.response import Stream
from msgspec import Meta

from opilio.insights.analytics import PostFilter
from opilio.insights.export import CSV, FORMATS, PARQUET
from opilio.web.endpoint import Call, Registry

ANALYTICS = Registry()
_PATH = "/api/v1/analytics/{project_id:str}"
Figures = dict[str, Any]
Word = Annotated[str, Meta(max_length=200)]
Moment = Annotated[datetime, Meta(tz=True)]


class PostsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    platform: Word | None = None
    keyword: Word | None = None
    sentiment: Literal["negative", "neutral", "positive"] | None = None
    intent: Word | None = None
    risk: Literal["low", "medium", "high", "critical"] | None = None
    role: Literal["brand", "competitor"] | None = None
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


@ANALYTICS.add(
    "GET",
    f"{_PATH}/summary",
    "read",
    "A project on one page",
    query=PostsQuery,
    answer=Figures,
    tag="analytics",
)
async def analytics_summary(call: Call) -> Any:
    return await call.opilio.analytics.summary(call.text("project_id"), call.query.wanted)


@ANALYTICS.add(
    "GET",
    f"{_PATH}/posts",
    "read",
    "Posts, newest or weightiest first",
    query=PostListQuery,
    answer=list[Figures],
    tag="analytics",
)
async def analytics_posts(call: Call) -> Any:
    q: PostListQuery = call.query
    return await call.opilio.analytics.posts(
        call.text("project_id"), q.wanted, order=q.order, limit=q.limit, cursor=q.cursor
    )


@ANALYTICS.add(
    "GET",
    f"{_PATH}/trends",
    "read",
    "Volume and feeling over time",
    query=TrendQuery,
    answer=list[Figures],
    tag="analytics",
)
async def analytics_trends(call: Call) -> Any:
    points = await call.opilio.analytics.trends(
        call.text("project_id"), call.query.wanted, bucket=call.query.bucket
    )
    return {"items": points, "next_cursor": None}


@ANALYTICS.add(
    "GET",
    f"{_PATH}/keywords",
    "read",
    "What is talked about",
    query=KeywordQuery,
    answer=list[Figures],
    tag="analytics",
)
async def analytics_keywords(call: Call) -> Any:
    found = await call.opilio.analytics.keywords(
        call.text("project_id"), call.query.wanted, limit=call.query.limit
    )
    return {"items": found, "next_cursor": None}


@ANALYTICS.add(
    "GET",
    f"{_PATH}/errors",
    "read",
    "Errors by category and code",
    query=PostsQuery,
    answer=list[Figures],
    tag="analytics",
)
async def analytics_errors(call: Call) -> Any:
    found = await call.opilio.analytics.errors(call.text("project_id"), call.query.wanted)
    return {"items": found, "next_cursor": None}


@ANALYTICS.add(
    "GET",
    f"{_PATH}/export",
    "read",
    "Every post as CSV or Parquet",
    query=ExportQuery,
    raw_answers=(CSV, PARQUET),
    tag="analytics",
)
async def analytics_export(call: Call) -> Response[Any]:
    """`format` decides; without it the header `Accept` does, and CSV is what is given to anybody else."""
    accepts_parquet = PARQUET in call.request.headers.get("accept", "")
    chosen = FORMATS[call.query.format or ("parquet" if accepts_parquet else "csv")]
    chosen.check()
    project_id = call.text("project_id")
    batches = call.opilio.analytics.export(project_id, call.query.wanted)
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in project_id)[:100]
    headers = {"content-disposition": f'attachment; filename="{name}.{chosen.name}"'}
    return Stream(chosen.write(batches), media_type=chosen.media_type, headers=headers)
