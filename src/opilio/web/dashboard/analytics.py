"""Analytics of a project: volume and sentiment over time, share of voice, posts by impact."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from opilio.clock import check_moment
from opilio.contracts.analytics import AnalysedProject, CrawlError, Voice
from opilio.contracts.decoding import named
from opilio.contracts.events import ALERT_RAISED
from opilio.contracts.projects import Project
from opilio.errors import Invalid, NotFound
from opilio.insights.analytics import BUCKETS, ORDERS, VoicePoint
from opilio.insights.post_filter import PostFilter
from opilio.web.api.analytics import PostsQuery
from opilio.web.dashboard.forms import with_query
from opilio.web.dashboard.page import Page, PageRequest, Section, redirect
from opilio.web.dashboard.projects import flat

ANALYTICS = Section()
SENTIMENTS = ("negative", "neutral", "positive")
RISKS = ("low", "medium", "high", "critical")
# Labels of the built-in stages; those of other stages are shown as they are.
INTENTS = ("complaint", "question", "purchase_intent", "praise", "comparison", "spam", "crisis", "discussion")
_POSTS, _WORDS, _ALERTS, _ERRORS, _ACTORS = 15, 12, 5, 20, 5
_WORDS_ONLY = tuple(name for name in PostsQuery.__struct_fields__ if name not in ("since", "until"))


@dataclass(frozen=True, slots=True)
class Asked:
    project_id: str
    wanted: PostFilter
    query: str
    link: Callable[..., str]


@ANALYTICS.page("/analytics")
async def choose_project(request: PageRequest) -> Page:
    """Projects to choose from; the analysed count comes from the project, not from its posts."""
    found = await request.opilio.project_insights.projects(
        limit=50, cursor=request.query("cursor"), q=request.query("q")
    )
    others = [] if request.query("cursor") else await _without_record(request)
    return Page(
        "analytics_projects.html",
        request.locale.gettext("Analytics"),
        {"items": found.items, "next_cursor": found.next_cursor, "others": others},
        rows=[flat(project) for project in found.items],
    )


async def _without_record(request: PageRequest) -> Sequence[AnalysedProject]:
    """Projects that are known only from their batches."""
    return await request.opilio.analytics.projects_without_record(q=request.query("q"))


@ANALYTICS.page("/analytics/{id:str}")
async def one_project(request: PageRequest) -> Page:
    """Renders what an index finds at once; figures that read every post are loaded by the page afterwards."""
    asked = await _asked(request)
    analytics, project = request.opilio.analytics, await _project(request, asked.project_id)
    order = request.query("order") if request.query("order") in ORDERS else "impact"
    posts = await analytics.posts(
        asked.project_id, asked.wanted, order=str(order), limit=_POSTS, cursor=request.query("cursor")
    )
    errors = await analytics.errors(asked.project_id, asked.wanted)
    alerts = await _alerts(request, asked.project_id)
    values = {
        "project": project,
        "project_id": asked.project_id,
        "keywords": _keywords(project),
        "posts": posts.items,
        "next_cursor": posts.next_cursor,
        "order": order,
        "errors": errors,
        "retryable": bool(errors) and bool(await analytics.errors(asked.project_id, retryable=True)),
        "single": await _single_errors(request, asked),
        "alerts": alerts,
        "texts": await analytics.texts(
            asked.project_id, [(alert["platform"], alert["post_id"]) for alert in alerts]
        ),
        "platforms": project.platforms if project else request.opilio.settings.platforms,
        "sentiments": SENTIMENTS,
        "intents": INTENTS,
        "risks": RISKS,
        "buckets": BUCKETS,
        "bucket": _bucket(request),
        "query": asked.query,
        "to": asked.link,
    }
    title = project.brand_name or project.project_id if project else asked.project_id
    # A finished project does not change, so only others are watched.
    watch = f"projects={asked.project_id}" if project and project.status != "DONE" else ""
    data: dict[str, Any] = {"posts": posts.items, "next_cursor": posts.next_cursor, "errors": errors}
    if request.data_format == "json":
        data["summary"] = await analytics.summary(asked.project_id, asked.wanted)
    return Page("analytics.html", title, values, data=data, rows=_flat(posts.items), charts=True, watch=watch)


@ANALYTICS.page("/analytics/{id:str}/figures")
async def figures(request: PageRequest) -> Page:
    """The figures of the posts that match the filter, as a part of the page."""
    asked = await _asked(request)
    summary, aspects, shares, spoken = await request.app.single_flight.get(
        ("figures", asked.project_id, asked.wanted), lambda: _figures(request, asked)
    )
    data = {**summary, "aspects": aspects, "share_of_voice": shares, "top_keywords": spoken}
    values = {
        "summary": summary,
        "aspects": list(aspects.items())[:_WORDS],
        "spoken": spoken,
        "voices": voices(shares, await _project(request, asked.project_id)),
        "sentiments": SENTIMENTS,
        "risks": RISKS,
        "to": asked.link,
    }
    return Page("parts/analytics_figures.html", "", values, data=data, rows=_flat(shares))


async def _figures(request: PageRequest, asked: Asked) -> tuple[Any, ...]:
    """Each reads every matching post: run concurrently, they take as long as the slowest."""
    analytics, chosen = request.opilio.analytics, (asked.project_id, asked.wanted)
    return tuple(
        await asyncio.gather(
            analytics.figures(*chosen),
            analytics.aspects(*chosen),
            analytics.share_of_voice(*chosen),
            analytics.keywords(*chosen, limit=_WORDS),
        )
    )


@ANALYTICS.page("/analytics/{id:str}/trends")
async def trends(request: PageRequest) -> Page:
    """The chart's data."""
    return Page(None, "", rows=_flat(await _over_time(request, "trends", request.opilio.analytics.trends)))


@ANALYTICS.page("/analytics/{id:str}/voices")
async def voices_over_time(request: PageRequest) -> Page:
    """The data of the chart that compares the brand with its competitors."""
    points = await _over_time(request, "voices", request.opilio.analytics.voices_over_time)
    return Page(None, "", rows=voice_lines(points, Actors(await _project(request, request.name()))))


async def _over_time(request: PageRequest, name: str, read: Callable[..., Awaitable[Any]]) -> Any:
    asked, bucket = await _asked(request), _bucket(request)
    return await request.app.single_flight.get(
        (name, asked.project_id, asked.wanted, bucket),
        lambda: read(asked.project_id, asked.wanted, bucket=bucket),
    )


@ANALYTICS.action("/analytics/{id:str}/retry")
async def retry_errors(request: PageRequest) -> Any:
    project_id = request.name()
    sent = await request.opilio.projects.retry_errors(project_id, by=request.actor)
    message = request.locale.ngettext(
        "%(n)s post is crawled again.", "%(n)s posts are crawled again.", sent.posts
    )
    return redirect(f"/analytics/{project_id}#errors", message)


# ── what the address asks for ────────────────────────────────────────────────────────────────────


async def _asked(request: PageRequest) -> Asked:
    """The filter as the API reads it; dates are days of the project's time zone."""
    project_id = request.name()
    zone = await request.opilio.analytics.time_zone(project_id)
    given: dict[str, Any] = {name: request.query(name) for name in _WORDS_ONLY if request.query(name)}
    given |= {
        "since": _moment("since", request.query("since"), zone, days=0),
        "until": _moment("until", request.query("until"), zone, days=1),
    }
    try:
        wanted = msgspec.convert(given, PostsQuery).wanted
    except msgspec.ValidationError as error:
        raise named(error) from None
    query = dict(request.http.query_params.items())

    def link(**changes: Any) -> str:
        return with_query(f"/analytics/{project_id}", query | {"cursor": None} | changes)

    return Asked(project_id, wanted, request.http.url.query, link)


def _moment(field: str, text: str | None, zone: ZoneInfo, *, days: int) -> datetime | None:
    """A moment, or a date, so many days later: the last day of a span is included."""
    if text is None:
        return None
    try:
        if len(text) == len("2026-01-31"):
            moment = datetime.combine(date.fromisoformat(text) + timedelta(days=days), time(), zone)
        else:
            moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise Invalid(field, "must be a date or a time") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    check_moment(field, moment)
    return moment


def _flat(rows: Sequence[msgspec.Struct]) -> list[dict[str, Any]]:
    """Flattened for the page's JSON and CSV forms."""
    return [msgspec.structs.asdict(row) for row in rows]


def _bucket(request: PageRequest) -> str:
    wanted = request.query("bucket") or "day"
    return wanted if wanted in BUCKETS else "day"


# ── what goes with the posts ─────────────────────────────────────────────────────────────────────


async def _project(request: PageRequest, project_id: str) -> Project | None:
    """Posts may belong to a project that the collector does not know."""
    try:
        return await request.opilio.project_insights.project(project_id)
    except NotFound:
        return None


async def _alerts(request: PageRequest, project_id: str) -> Sequence[Mapping[str, Any]]:
    found = await request.opilio.events.page(types=[ALERT_RAISED], subject=project_id, limit=_ALERTS)
    return [{"at": event.time, **msgspec.json.decode(event.event)["data"]} for event in found.items]


async def _single_errors(request: PageRequest, asked: Asked) -> Sequence[CrawlError]:
    code = request.query("error")
    if code is None:
        return []
    found = await request.opilio.analytics.error_list(
        asked.project_id, asked.wanted, code=code, limit=_ERRORS
    )
    return found.items


def _keywords(project: Project | None) -> list[str]:
    if project is None:
        return []
    named_by = project.competitor_keywords
    lists = named_by.values() if isinstance(named_by, dict) else [named_by]
    return [*project.brand_keywords, *(keyword for keywords in lists for keyword in keywords)]


class Actors:
    """Whose keyword is whose: keywords of the same competitor, and all of the brand, are one actor."""

    def __init__(self, project: Project | None) -> None:
        self._brand = (project.brand_name if project else None) or ""
        self._owners: dict[str, str] = {}
        if project is not None and isinstance(project.competitor_keywords, dict):
            named_by = project.competitor_keywords
            self._owners = {word: name for name, keywords in named_by.items() for word in keywords}

    def name(self, role: str, keyword: str | None) -> str:
        if role == "brand" and self._brand:
            return self._brand
        return self._owners.get(keyword or "", keyword or "")


def voices(rows: Sequence[Voice], project: Project | None) -> list[dict[str, Any]]:
    """The brand against each competitor: keywords of the same actor are added up."""
    actors = Actors(project)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        name = actors.name(row.role, row.keyword)
        new = {"posts": 0, "share": 0.0, "engagement": 0.0, "negative": 0, "positive": 0}
        voice = found.setdefault((row.role, name), {"name": name, "role": row.role, **new})
        for field, source in (
            ("posts", "posts"), ("share", "share_percent"), ("engagement", "engagement_percent"),
            ("negative", "negative"), ("positive", "positive"),
        ):  # fmt: skip
            voice[field] += getattr(row, source)
    return sorted(found.values(), key=lambda voice: -voice["posts"])


def voice_lines(points: Sequence[VoicePoint], actors: Actors) -> list[dict[str, Any]]:
    """Posts of the brand and its largest competitors in each span of time; none is 0."""
    counts: Counter[tuple[datetime, str, str]] = Counter()
    totals: Counter[tuple[str, str]] = Counter()
    for point in points:
        actor = (point.role, actors.name(point.role, point.keyword))
        counts[point.at, *actor] += point.posts
        totals[actor] += point.posts
    largest = sorted(totals, key=lambda actor: (actor[0] != "brand", -totals[actor], actor))[:_ACTORS]
    return [
        {"at": at, "name": name, "role": role, "posts": counts[at, role, name]}
        for at in sorted({at for at, *_ in counts})
        for role, name in largest
    ]
