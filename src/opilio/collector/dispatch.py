"""Takes projects and requests in: validated, recorded with their tasks in one transaction, sent by the sender."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from opilio.adapters.postgres import Database, Session
from opilio.bus import Ack, DeadLetter, Message, Verdict
from opilio.collector import metrics as measures
from opilio.collector.config import Config
from opilio.collector.plan import Plan, plan_project, plan_request
from opilio.collector.result import digest
from opilio.collector.state.postgres import sql
from opilio.collector.state.protocol import StateStore
from opilio.contracts.collector import CrawlRequest, CrawlTask
from opilio.contracts.projects import ProjectCreated, ProjectInput, ProjectState
from opilio.errors import Conflict, Refused
from opilio.ids import uuid7

log = structlog.get_logger(__name__)
_encode = msgspec.json.Encoder().encode
_OPENED_AT_ONCE = 200


class _Probe(msgspec.Struct):
    """Enough of a message to tell an event from a request."""

    event_type: Any = None


class Dispatch:
    """Sending the same project or request again changes nothing."""

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
        try:
            await self._take(message)
        except msgspec.DecodeError as error:
            return self._refuse(message, f"cannot be decoded: {error}")
        except Refused as refused:
            return self._refuse(message, refused.message)
        return Ack()

    async def _take(self, message: Message) -> None:
        if self._probe.decode(message.body).event_type is not None:
            event = self._event.decode(message.body)
            await self.create(event.payload, by="project.created")
        else:
            await self.request(self._request.decode(message.body))

    def _refuse(self, message: Message, reason: str) -> Verdict:
        measures.REFUSED.labels(message.queue).inc()
        log.warning("collector.refused", queue=message.queue, message_id=message.message_id, reason=reason)
        return DeadLetter(reason)

    # ── projects ─────────────────────────────────────────────────────────────────────────────────

    async def create(self, project: ProjectInput, *, by: str) -> str:
        """Records a project with its tasks and answers its id. Another project under the same id is refused."""
        if project.webhook_url is not None and self._check_url is not None:
            self._check_url(project.webhook_url)
        project_id = project.project_id or str(uuid7())
        plan = plan_project(project, project_id, self._config, datetime.now(UTC))

        async def record(session: Session) -> None:
            if await self._insert(session, plan, by):
                await _insert_tasks(session, plan.tasks, project_id)

        await self._db.transact(record)
        await self._state.open(project_id, plan.state)
        await self._db.execute(sql.mark_opened, project_ids=[project_id])
        return project_id

    async def _insert(self, session: Session, plan: Plan, by: str) -> bool:
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
            tasks_total=len(plan.tasks),
            definition=definition,
            snapshot=msgspec.to_builtins(plan.state),
            created_by=by,
        )
        if inserted is None:
            existing = await session.value(sql.project_definition, project_id=plan.project_id)
            if existing != definition:
                raise Conflict(f"there is another project {plan.project_id} already")
        return inserted is not None

    async def open_projects(self) -> int:
        """Makes the state of projects that were recorded by a process that died before it could."""
        return await self._db.transact(self._open)

    async def _open(self, session: Session) -> int:
        rows = await session.fetch(sql.unopened_projects, most=_OPENED_AT_ONCE)
        for row in rows:
            tasks = row["tasks_total"]
            state = ProjectState(tasks_total=tasks, items_expected=row["items_expected"], crawl_total=tasks)
            await self._state.open(row["project_id"], state)
        await session.execute(sql.mark_opened, project_ids=[row["project_id"] for row in rows])
        return len(rows)

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    async def request(self, request: CrawlRequest) -> int:
        """Records the tasks of a request and answers how many were new; they belong to no project's plan."""
        tasks = plan_request(request, self._config, datetime.now(UTC))
        return await self._db.transact(lambda session: _insert_tasks(session, tasks, None))


async def _insert_tasks(session: Session, tasks: Sequence[CrawlTask], project_id: str | None) -> int:
    new: int = await session.value(
        sql.insert_tasks,
        project_id=project_id,
        platforms=[task.platform for task in tasks],
        job_ids=[task.job_id for task in tasks],
        task_types=[task.task_type for task in tasks],
        bodies=[_encode(task).decode() for task in tasks],
        attempts=[task.attempt for task in tasks],
        max_attempts=[task.max_attempts for task in tasks],
    )
    return new


def _definition(project: ProjectInput) -> bytes:
    """What was asked for, without the id: equal for the same project sent again."""
    fields = [getattr(project, name) for name in ProjectInput.__struct_fields__ if name != "project_id"]
    return bytes.fromhex(digest(_encode(fields)))
