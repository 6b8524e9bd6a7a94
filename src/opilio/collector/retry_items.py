"""Sends posts that could not be crawled out again, as one `crawl_links` request for each platform.

The tasks belong to no project, so that its counters, which are final once it is done, do not change; the posts do.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from opilio.adapters.postgres import Row, Session
from opilio.collector.config import Config
from opilio.collector.plan import plan_request
from opilio.collector.sql import queries as sql
from opilio.contracts.codes import FINAL_CODES
from opilio.contracts.collector import CrawlRequest, CrawlTask
from opilio.contracts.projects import RetriedErrors, RetryTask
from opilio.errors import NotFound

MOST_POSTS = 1_000  # sent out by one call


def retry_job_id(project_id: str, now: datetime) -> str:
    """Like the other jobs of a project, so that its crawlers and analytics attribute the posts to it."""
    return f"{_prefix(project_id)}{int(now.timestamp() * 1000)}"


def is_retry(project_id: str, job_id: str) -> bool:
    """Whether a job sends failed posts of the project out again."""
    prefix = _prefix(project_id)
    return job_id.startswith(prefix) and job_id[len(prefix) :].isdecimal()


def plan_retry(posts: Iterable[Row], job_id: str, config: Config, now: datetime) -> list[CrawlTask]:
    """One task for each platform, with the links and the ids of its posts in the same order."""
    by_platform: dict[str, list[Row]] = defaultdict(list)
    for post in posts:
        by_platform[post["platform"]].append(post)
    tasks: list[CrawlTask] = []
    for platform, of_platform in by_platform.items():
        payload = {
            "links": [post["permalink"] for post in of_platform],
            "content_ids": [post["id"] for post in of_platform],
            "limit": len(of_platform),
        }
        request = CrawlRequest(job_id=job_id, task_type="crawl_links", payload=payload)
        tasks += plan_request(request, config, now, platforms=[platform])
    return tasks


async def find_posts(session: Session, project_id: str, config: Config) -> tuple[list[Row], int, bool]:
    """The posts to send out, how many have no link, and whether there are more than one call sends."""
    if not await session.value(sql.project_is_known, project_id=project_id):
        raise NotFound("there is no project %(id)s", id=project_id)
    await session.execute(sql.lock_retries, project_id=project_id)
    rows = await session.fetch(
        sql.retryable_posts,
        project_id=project_id,
        prefix=_prefix(project_id),
        final_codes=sorted(FINAL_CODES),
        platforms=list(config.platforms),
        most=MOST_POSTS + 1,
    )
    found = rows[:MOST_POSTS]
    linked = [row for row in found if row["permalink"]]
    return linked, len(found) - len(linked), len(rows) > MOST_POSTS


def retried(
    project_id: str, job_id: str, tasks: Iterable[CrawlTask], *, without_link: int, more: bool
) -> RetriedErrors:
    sent = [RetryTask(platform=task.platform, posts=task.limit) for task in tasks]
    return RetriedErrors(
        project_id=project_id,
        job_id=job_id if sent else None,
        posts=sum(task.posts for task in sent),
        without_link=without_link,
        more=more,
        tasks=sent,
    )


def _prefix(project_id: str) -> str:
    return f"{project_id}-retry-"
