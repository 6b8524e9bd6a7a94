"""Accepts projects and requests: validated, and recorded with their tasks in one transaction."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec

from opilio import audit, tracing
from opilio.adapters.postgres import Database, Session
from opilio.bus import Ack, DeadLetter, Message, Retry, Verdict
from opilio.clock import check_time_zone
from opilio.collector import metrics
from opilio.collector.config import Config
from opilio.collector.plan import Plan, plan_project, plan_request
from opilio.collector.result import digest
from opilio.collector.retry_items import find_posts, plan_retry, retried, retry_job_id
from opilio.collector.sql import queries as sql
from opilio.collector.state.protocol import StateStore, VersionedState
from opilio.collector.unavailable import RETRY_AFTER, UNAVAILABLE
from opilio.contracts.collector import CrawlRequest, CrawlTask
from opilio.contracts.projects import ProjectCreated, ProjectInput, RetriedErrors
from opilio.errors import Conflict, Refused
from opilio.ids import uuid7
from opilio.logs import get_logger

log = get_logger(__name__)
_encode = msgspec.json.Encoder().encode


class _Probe(msgspec.Struct):
    """Distinguishes an event from a request."""

    event_type: Any = None


class Dispatch:
    """Accepting the same project or request again changes nothing."""

    def __init__(
        self,
        database: Database,
        state: StateStore,
        config: Config,
        *,
        check_url: Callable[[str], object] | None = None,
    ) -> None:
        self._db = database
        self._state = state
        self._config = config
        self._check_url = check_url
        self._probe = msgspec.json.Decoder(_Probe)
        self._event = msgspec.json.Decoder(ProjectCreated)
        self._request = msgspec.json.Decoder(CrawlRequest)

    # ── the queue collector.inbound ──────────────────────────────────────────────────────────────

    async def handle(self, message: Message) -> Verdict:
        """Messages wait while the database is away; what can never be accepted becomes a dead letter."""
        try:
            await self._accept(message)
        except msgspec.DecodeError as error:
            return self._refuse(message, f"cannot be decoded: {error}")
        except Refused as refused:
            return self._refuse(message, refused.message)
        except UNAVAILABLE as error:
            log.warning("collector.unavailable", error=str(error), queue=message.queue)
            return Retry(RETRY_AFTER, f"{type(error).__name__}: {error}")
        return Ack()

    async def _accept(self, message: Message) -> None:
        if self._probe.decode(message.body).event_type is not None:
            event = self._event.decode(message.body)
            await self.create(event.payload, by="project.created", trace_id=_trace(message))
        else:
            await self.request(self._request.decode(message.body), trace_id=_trace(message))

    def _refuse(self, message: Message, reason: str) -> Verdict:
        metrics.REFUSED.labels(message.queue).inc()
        log.warning("collector.refused", queue=message.queue, message_id=message.message_id, reason=reason)
        return DeadLetter(reason)

    # ── projects ─────────────────────────────────────────────────────────────────────────────────

    async def create(self, project: ProjectInput, *, by: str, trace_id: str | None = None) -> str:
        """Records a project with its tasks and audit entry; wakes the sender; returns the id.

        The API, the command line, the dashboard and the bus all call this. Another project with the same id is refused.
        """
        if project.webhook_url is not None and self._check_url is not None:
            self._check_url(project.webhook_url)
        if project.time_zone is not None:
            check_time_zone("time_zone", project.time_zone)
        project_id = project.project_id or str(uuid7())
        plan = plan_project(project, project_id, self._config, datetime.now(UTC))

        trace_id = trace_id or uuid4().hex

        async def record(session: Session) -> bool:
            new = await self._insert(session, plan, by, trace_id)
            if new:
                await _insert_tasks(session, plan.tasks, project_id, trace_id)
                await audit.record(session, by, "project.create", project_id)
            return new

        began = tracing.now()
        if await self._db.transact(record):
            tracing.record("create project", trace_id, began, key=tracing.ROOT, project_id=project_id)
            await self._state.publish([VersionedState(project_id, 0, plan.state)])
        return project_id

    async def _insert(self, session: Session, plan: Plan, by: str, trace_id: str) -> bool:
        project, definition = plan.definition, _definition(plan.definition)
        inserted = await session.value(
            sql.insert_project,
            project_id=plan.project_id,
            brand_name=project.brand_name,
            brand_keywords=project.brand_keywords,
            competitor_keywords=project.competitor_keywords,
            platforms=list(plan.platforms),
            limit_per_keyword=plan.limit,
            time_range=project.time_range,
            webhook_url=project.webhook_url or self._config.progress_webhook_url,
            time_zone=project.time_zone,
            tasks_total=len(plan.tasks),
            definition=definition,
            snapshot=msgspec.to_builtins(plan.state),
            trace_id=trace_id,
            created_by=by,
        )
        if inserted is None:
            existing = await session.value(sql.project_definition, project_id=plan.project_id)
            if existing != definition:
                raise Conflict("there is another project %(id)s already", id=plan.project_id)
            return False
        await session.execute(
            sql.create_state,
            project_id=plan.project_id,
            tasks_total=plan.state.tasks_total,
            items_expected=plan.state.items_expected,
        )
        return True

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    async def request(self, request: CrawlRequest, *, trace_id: str | None = None) -> int:
        """Records the tasks of a request, which belong to no project; returns how many were new."""
        tasks = plan_request(request, self._config, datetime.now(UTC))
        trace = trace_id or uuid4().hex
        began = tracing.now()
        new = await self._db.transact(lambda session: _insert_tasks(session, tasks, None, trace))
        tracing.record("create tasks", trace, began, key=tracing.ROOT, tasks=new)
        return new

    async def retry_errors(self, project_id: str, *, by: str) -> RetriedErrors:
        """Sends the posts of a project that could not be crawled out again, where that may help."""
        now = datetime.now(UTC)
        job_id = retry_job_id(project_id, now)

        async def record(session: Session) -> RetriedErrors:
            posts, without_link, more = await find_posts(session, project_id, self._config)
            tasks = plan_retry(posts, job_id, self._config, now)
            if tasks:
                await _insert_tasks(session, tasks, None, uuid4().hex)
                detail = {"job_id": job_id, "posts": len(posts)}
                await audit.record(session, by, "project.retry_errors", project_id, detail)
            return retried(project_id, job_id, tasks, without_link=without_link, more=more)

        return await self._db.transact(record)


async def _insert_tasks(
    session: Session, tasks: Sequence[CrawlTask], project_id: str | None, trace_id: str
) -> int:
    new: int = await session.value(
        sql.insert_tasks,
        project_id=project_id,
        trace_id=trace_id,
        platforms=[task.platform for task in tasks],
        job_ids=[task.job_id for task in tasks],
        task_types=[task.task_type for task in tasks],
        bodies=[_encode(task).decode() for task in tasks],
        attempts=[task.attempt for task in tasks],
        max_attempts=[task.max_attempts for task in tasks],
    )
    return new


def _trace(message: Message) -> str | None:
    """The trace of the message, which goes on through tasks, results and webhooks."""
    trace = message.headers.get("x-trace-id")
    return str(trace)[:200] if trace else None


def _definition(project: ProjectInput) -> bytes:
    """A digest of the project without its id, to recognise the same project."""
    names = [name for name in ProjectInput.__struct_fields__ if name not in ("project_id", "time_zone")]
    fields = [getattr(project, name) for name in names]
    if project.time_zone is not None:  # added later: projects without one keep their digest
        fields.append(project.time_zone)
    return bytes.fromhex(digest(_encode(fields)))
