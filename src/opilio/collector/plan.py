"""Turns a project or a request into tasks: one keyword on one platform each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opilio.collector.config import Config
from opilio.collector.platforms import Search, Strategy
from opilio.contracts.collector import CrawlRequest, CrawlTask
from opilio.contracts.projects import ProjectInput, ProjectState
from opilio.errors import Invalid

_MOST_TASKS = 10_000


@dataclass(frozen=True, slots=True)
class Plan:
    """A project with all defaults filled in, and its tasks."""

    project_id: str
    definition: ProjectInput
    platforms: tuple[str, ...]
    limit: int
    tasks: tuple[CrawlTask, ...]

    @property
    def state(self) -> ProjectState:
        total = len(self.tasks)
        return ProjectState(
            tasks_total=total, items_expected=total * self.limit, crawl_total=total, status="PENDING"
        )


def plan_project(project: ProjectInput, project_id: str, config: Config, now: datetime) -> Plan:
    """Fills in the defaults and creates the tasks; raises `Invalid` with the field that is wrong."""
    platforms = _platforms(project.platforms, config)
    limit = project.limit_per_keyword or config.limit_per_keyword
    keywords = [*_numbered(project_id, "brand", project.brand_keywords)]
    keywords += _numbered(project_id, "competitor", flatten(project.competitor_keywords))
    if not keywords:
        raise Invalid("brand_keywords", "give at least one keyword, of the brand or of a competitor")
    if len(keywords) * len(platforms) > _MOST_TASKS:
        raise Invalid("brand_keywords", "more than %(limit)s tasks: split the project", limit=_MOST_TASKS)
    tasks = tuple(
        _task(
            config.strategies[platform],
            Search((keyword,), limit, project.time_range, now, {}),
            job_id=job_id,
            task_type="research_and_crawl",
            attempt=1,
            max_attempts=config.max_attempts,
            brand_name=project.brand_name,
        )
        for platform in platforms
        for job_id, keyword in keywords
    )
    return Plan(project_id, project, platforms, limit, tasks)


def plan_request(
    request: CrawlRequest, config: Config, now: datetime, *, platforms: Iterable[str] | None = None
) -> list[CrawlTask]:
    """The tasks of a CrawlRequest: one for every platform, or for those given."""
    keywords = _requested_keywords(request.payload)
    limit = request.payload.get("limit", config.limit_per_keyword)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 100_000:
        raise Invalid("payload.limit", "must be a number from 1 to 100000")
    emitted_at = request.emitted_at or now
    return [
        _task(
            config.strategies[platform],
            Search(keywords, limit, request.time_range, emitted_at, request.payload),
            job_id=request.job_id,
            task_type=request.task_type,
            attempt=request.attempt,
            max_attempts=request.max_attempts or config.max_attempts,
        )
        for platform in (config.platforms if platforms is None else platforms)
    ]


def flatten(competitors: list[str] | Mapping[str, list[str]]) -> list[str]:
    """All competitor keywords, in the order given."""
    if isinstance(competitors, Mapping):
        return [keyword for keywords in competitors.values() for keyword in keywords]
    return competitors


def _platforms(requested: Iterable[str] | None, config: Config) -> tuple[str, ...]:
    if requested is None:
        return config.platforms
    platforms = tuple(dict.fromkeys(requested))
    for platform in platforms:
        if platform not in config.platforms:
            raise Invalid(
                "platforms",
                "%(platform)s is not one of %(known)s",
                platform=platform,
                known=", ".join(config.platforms),
            )
    if not platforms:
        raise Invalid("platforms", "give at least one platform, or leave the field out for all of them")
    return platforms


def _numbered(project_id: str, kind: str, keywords: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, keyword in enumerate(keywords):
        if not keyword.strip() or "\0" in keyword:
            raise Invalid(f"{kind}_keywords", "keyword %(number)s is blank or contains U+0000", number=number)
        yield f"{project_id}-{kind}-{number}", keyword.strip()


def _requested_keywords(payload: Mapping[str, Any]) -> tuple[str, ...]:
    keywords = payload.get("keywords", payload.get("keyword", []))
    listed = [keywords] if isinstance(keywords, str) else keywords
    if not isinstance(listed, list) or not all(isinstance(keyword, str) for keyword in listed):
        raise Invalid("payload.keywords", "must be a list of strings")
    return tuple(listed)


def _task(
    strategy: Strategy,
    search: Search,
    *,
    job_id: str,
    task_type: str,
    attempt: int,
    max_attempts: int,
    brand_name: str | None = None,
) -> CrawlTask:
    return CrawlTask(
        job_id=job_id,
        platform=strategy.platform,
        task_type=task_type,
        keywords=list(search.keywords),
        limit=search.limit,
        time_range=search.time_range,
        payload=strategy.payload(search),
        attempt=attempt,
        max_attempts=max_attempts,
        emitted_at=search.emitted_at,
        brand_name=brand_name,
    )
