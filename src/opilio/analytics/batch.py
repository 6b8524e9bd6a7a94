"""From the items of a batch to the rows of the database: pure, so that it can run in another process."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from opilio.analytics.item import (
    Failure,
    comment_id,
    comments_of,
    count,
    figures_of,
    parse_item,
    parse_time,
    project_of,
    text_of,
)
from opilio.analytics.message import BatchContext
from opilio.analytics.pipeline import Analysis, Pipeline, load_pipeline
from opilio.analytics.stages.document import Figures, Impact, Sentiment
from opilio.analytics.stages.impact import RISKS
from opilio.analytics.stages.preprocessing import MAX_TEXT
from opilio.contracts.codes import ErrorCode, category_of
from opilio.contracts.events import AlertRaised
from opilio.contracts.items import CollectedItem, ItemComment
from opilio.errors import Unavailable

_ALERTING = frozenset(RISKS[2:])
_ROLES = frozenset({"brand", "competitor"})
_IDENTITY = ("project_id", "platform", "id", "keyword_source", "keyword_role")


@dataclass(frozen=True, slots=True)
class Counts:
    """How many items of a batch were to be analysed, succeeded and failed; and how many could not even be fetched."""

    size: int
    succeeded: int
    failed: int
    fetch_errors: int = 0


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Rows as JSON arrays, ready for the database, and the figures of the batch."""

    identities: bytes  # of each post, with the keyword that found it
    posts: bytes
    comments: bytes
    errors: bytes
    alerts: bytes
    counts: Counts
    posts_count: int = 0
    errors_by_code: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(slots=True)
class _Work:
    """An item on its way through the batch."""

    item: CollectedItem
    project_id: str | None
    platform: str
    text: str
    comments: list[ItemComment]
    failure: Failure | None = None  # a media error: the text is analysed all the same


def analyse_batch(
    items: Sequence[bytes], context: BatchContext, stages: Mapping[str, str], now: datetime
) -> BatchRows:
    """Every item becomes a row, whatever is wrong with it or with its neighbours."""
    begun = time.perf_counter()
    pipeline = load_pipeline(stages)
    rows = _Rows(context, pipeline.version)
    work: list[_Work] = []
    for position, raw in enumerate(items):
        item, failure = parse_item(raw, context, position)
        if failure is not None and item is not None and _has_text_only(failure, item):
            work.append(_prepare(item, context, failure))
        elif failure is not None:
            rows.add_failure(failure, item)
        elif item is not None:
            work.append(_prepare(item, context))
    _analyse(work, pipeline, rows, now)
    rows.took((time.perf_counter() - begun) * 1000 / max(len(items), 1))
    return rows.finish(len(items), time.perf_counter() - begun)


def _has_text_only(failure: Failure, item: CollectedItem) -> bool:
    """Whether only the media is missing: its text and figures are used."""
    return category_of(failure.code) == "media" and bool(text_of(item).strip())


def _prepare(item: CollectedItem, context: BatchContext, failure: Failure | None = None) -> _Work:
    text = text_of(item)
    platform = (item.meta.platform or context.platform or "unknown").lower()
    return _Work(item, project_of(item, context), platform, text, comments_of(item), failure)


def _analyse(work: list[_Work], pipeline: Pipeline, rows: "_Rows", now: datetime) -> None:
    """All at once; where that fails, one by one, so that only the item at fault is lost."""
    try:
        done = _through_stages(work, pipeline, now)
    except Unavailable:
        raise  # a model elsewhere is away: nothing is wrong with the batch, and it will come again
    except Exception as error:  # noqa: BLE001 - a user's own stage may raise anything
        if len(work) == 1:
            content_id = str(work[0].item.meta.id)
            own = Failure(content_id, ErrorCode.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
            rows.add_failure(work[0].failure or own, work[0].item)
            return
        for one in work:
            _analyse([one], pipeline, rows, now)
        return
    for one, analysis, figures, impact, sentiments in done:
        rows.add_post(one, analysis, figures, impact, sentiments)


def _through_stages(
    work: list[_Work], pipeline: Pipeline, now: datetime
) -> list[tuple[_Work, Analysis, Figures, Impact, list[Sentiment | None]]]:
    analyses = pipeline.analyse([one.text for one in work], [one.item.meta.lang for one in work])
    comments = [(one, comment) for one in work for comment in one.comments]
    sentiments = iter(
        pipeline.sentiments(
            [comment.text or "" for _, comment in comments],
            [one.item.meta.lang for one, _ in comments],
        )
    )
    figures = [figures_of(one.item, one.platform, now) for one in work]
    impacts = pipeline.impacts(
        [
            (figure, analysis.sentiment, analysis.intent)
            for figure, analysis in zip(figures, analyses, strict=True)
        ]
    )
    return [
        (one, analysis, figure, impact, [next(sentiments) for _ in one.comments])
        for one, analysis, figure, impact in zip(work, analyses, figures, impacts, strict=True)
    ]


class _Rows:
    """Collects rows; of an item that comes twice in a batch the last one counts."""

    def __init__(self, context: BatchContext, version: str) -> None:
        self._context = context
        self._version = version
        self._posts: dict[tuple[str | None, str, str], dict[str, Any]] = {}
        self._comments: dict[tuple[str | None, str, str, str], dict[str, Any]] = {}
        self._alerts: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._errors: list[dict[str, Any]] = []
        self._codes: Counter[str] = Counter()
        self._fetch_errors = 0

    def add_post(
        self,
        work: _Work,
        analysis: Analysis,
        figures: Figures,
        impact: Impact,
        sentiments: Sequence[Sentiment | None],
    ) -> None:
        row = self._common(work.item, work.project_id, work.platform)
        row |= (
            _content_columns(work, analysis)
            | _figure_columns(work.item, figures)
            | _insight_columns(analysis, impact)
        )
        row |= {"fetch_status": "success", "model_version": self._version}
        if work.failure is not None:
            row |= self._error_columns(work.failure)
            self._fetch_errors += 1
            self._add_error(row, work.failure)
        key = (work.project_id, work.platform, row["id"])
        self._posts[key] = row
        for comment, sentiment in zip(work.comments, sentiments, strict=True):
            comment_row = _comment_row(key, comment, sentiment)
            self._comments[*key, comment_row["comment_id"]] = comment_row
        if work.project_id and impact.risk in _ALERTING:
            self._alerts[work.project_id, work.platform, row["id"]] = _alert_row(work.project_id, row, impact)

    def add_failure(self, failure: Failure, item: CollectedItem | None) -> None:
        self._fetch_errors += not failure.fetched
        context = self._context
        project_id = project_of(item, context) if item else context.project_id
        platform = ((item.meta.platform if item else None) or context.platform or "unknown").lower()
        common = self._common(item, project_id, platform)
        row = common | {"id": failure.content_id, "fetch_status": "error"} | self._error_columns(failure)
        self._posts[project_id, platform, failure.content_id] = row
        self._add_error(row, failure)

    def _error_columns(self, failure: Failure) -> dict[str, Any]:
        return {
            "fetch_error": failure.message,
            "error_code": failure.code,
            "error_details": failure.details,
        }

    def _add_error(self, row: Mapping[str, Any], failure: Failure) -> None:
        self._codes[failure.code] += 1
        self._errors.append(
            {
                "content_id": failure.content_id,
                "project_id": row["project_id"],
                "job_id": row["job_id"] or "",
                "platform": row["platform"],
                "error_code": failure.code,
                "error_category": category_of(failure.code),
                "error_message": failure.message,
                "error_details": failure.details,
                "permalink": row["permalink"],
            }
        )

    def _common(self, item: CollectedItem | None, project_id: str | None, platform: str) -> dict[str, Any]:
        context = self._context
        meta = item.meta if item else None
        job_id = context.job_id or (meta.job_id if meta else None)
        return {
            "id": meta.id if meta else None,
            "project_id": project_id,
            "job_id": job_id,
            "batch_index": context.batch_index,
            "task_type": context.task_type or (meta.task_type if meta else None),
            "platform": platform,
            "keyword_source": _keyword(meta.keyword_source if meta else None, context.keyword),
            "keyword_role": _role(job_id, meta.keyword_source if meta else None),
            "brand_name": context.brand_name,
            "crawled_at": parse_time(meta.crawled_at) if meta else None,
            "published_at": parse_time(meta.published_at) if meta else None,
            "pipeline_version": meta.pipeline_version if meta else None,
            "permalink": meta.permalink if meta else None,
        }

    def took(self, milliseconds: float) -> None:
        for row in self._posts.values():
            row["processing_time_ms"] = round(milliseconds, 3)

    def finish(self, batch_size: int, seconds: float) -> BatchRows:
        failed = sum(self._codes.values()) - self._fetch_errors
        size = batch_size - self._fetch_errors
        return BatchRows(
            _encoded([{name: row[name] for name in _IDENTITY} for row in self._posts.values()]),
            _encoded(list(self._posts.values())),
            _encoded(list(self._comments.values())),
            _encoded(self._errors),
            _encoded(list(self._alerts.values())),
            Counts(size, size - failed, failed, self._fetch_errors),
            len(self._posts),
            dict(self._codes),
            seconds,
        )


def _keyword(of_item: str | None, of_batch: str | None) -> str | None:
    """The keyword that found an item; some crawlers write only the role of it into `keyword_source`."""
    if of_item and of_item not in _ROLES:
        return of_item
    return of_batch or of_item


def _role(job_id: str | None, keyword_source: str | None) -> str | None:
    parts = (job_id or "").split("-")
    if len(parts) >= 3 and parts[-2] in _ROLES:
        return parts[-2]
    return keyword_source if keyword_source in _ROLES else None


def _content_columns(work: _Work, analysis: Analysis) -> dict[str, Any]:
    content = work.item.content
    return {
        "content_text": content.text[:MAX_TEXT] if content.text else None,
        "content_transcription": content.transcription[:MAX_TEXT] if content.transcription else None,
        "media_duration": content.duration,
        "hashtags": list(dict.fromkeys([*(content.hashtags or []), *analysis.document.hashtags])),
        "language": analysis.document.language,
        "flags": list(analysis.document.flags),
    }


def _figure_columns(item: CollectedItem, figures: Figures) -> dict[str, Any]:
    author = item.author
    return {
        "author_id": str(author.id) if author.id is not None else None,
        "author_name": author.name,
        "author_username": author.username,
        "author_avatar_url": author.avatar_url,
        "author_is_verified": author.is_verified,
        "follower_count": figures.followers,
        "view_count": figures.views,
        "like_count": figures.likes,
        "comment_count": figures.comments,
        "share_count": figures.shares,
        "save_count": figures.saves,
    }


def _insight_columns(analysis: Analysis, impact: Impact) -> dict[str, Any]:
    sentiment, intent = analysis.sentiment, analysis.intent
    return {
        "keywords": [keyword.word for keyword in analysis.topics.keywords],
        "intent": intent.label,
        "intent_confidence": intent.confidence,
        "sentiment": sentiment.label if sentiment else None,
        "sentiment_score": sentiment.score if sentiment else None,
        "sentiment_probabilities": sentiment.probabilities if sentiment else None,
        "aspects": aspects_as_json(analysis),
        "impact_score": impact.score,
        "risk_level": impact.risk,
        "impact_breakdown": impact.reasons,
    }


def aspects_as_json(analysis: Analysis) -> dict[str, Any]:
    return {
        aspect: {"sentiment": found.label, "score": found.score, "mentions": list(found.words)}
        for aspect, found in analysis.aspects.items()
    }


def _comment_row(
    key: tuple[str | None, str, str], comment: ItemComment, sentiment: Sentiment | None
) -> dict[str, Any]:
    return {
        "project_id": key[0],
        "platform": key[1],
        "id": key[2],
        "comment_id": comment_id(comment),
        "text": (comment.text or "")[:MAX_TEXT],
        "author_name": comment.author_name,
        "likes": count(comment.likes),
        "sentiment": sentiment.label if sentiment else None,
        "sentiment_score": sentiment.score if sentiment else None,
        "commented_at": parse_time(comment.created_at),
    }


def _alert_row(project_id: str, row: Mapping[str, Any], impact: Impact) -> dict[str, Any]:
    alert = AlertRaised(
        project_id=project_id,
        post_id=row["id"],
        platform=row["platform"],
        risk_level=impact.risk,
        impact_score=impact.score,
        intent=row["intent"],
        sentiment=row["sentiment"],
        permalink=row["permalink"],
        reasons=row["impact_breakdown"],
    )
    level = RISKS.index(impact.risk)
    return {
        "project_id": project_id,
        "platform": row["platform"],
        "id": row["id"],
        "level": level,
        "data": msgspec.to_builtins(alert),
    }


def _encoded(rows: Sequence[Mapping[str, Any]]) -> bytes:
    data = msgspec.json.encode(rows)
    # PostgreSQL keeps no NUL in text; it says nothing in a post either.
    return msgspec.json.encode(_without_nul(msgspec.to_builtins(rows))) if b"\\u0000" in data else data


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, Mapping):
        return {_without_nul(key): _without_nul(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nul(inner) for inner in value]
    return value
