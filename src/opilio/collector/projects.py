"""What the API, the command line and the dashboard do with projects; `opilio.insights.projects` lists them."""

from uuid import uuid4

from opilio import audit
from opilio.adapters.postgres import Database, Session
from opilio.collector.dispatch import Dispatch
from opilio.collector.reconcile import Reconcile
from opilio.collector.stalled_analysis import close_project, missing_analysis
from opilio.collector.state.protocol import StateStore, VersionedState
from opilio.contracts.collector import CrawlRequest
from opilio.contracts.projects import Difference, MissingAnalysis, ProjectInput, ProjectState, RetriedErrors
from opilio.errors import NotFound


class Projects:
    def __init__(self, database: Database, state: StateStore, dispatch: Dispatch) -> None:
        self._db = database
        self._state = state
        self._dispatch = dispatch

    async def create(self, project: ProjectInput, *, by: str) -> str:
        """Returns the project's id; creating the same project again changes nothing."""
        return await self._dispatch.create(project, by=by)

    async def state(self, project_id: str) -> ProjectState:
        """The live state."""
        state = await self._state.read(project_id)
        if state is None:
            raise NotFound("there is no project %(id)s", id=project_id)
        return state

    async def waiting_for(self, project_id: str) -> list[MissingAnalysis]:
        """The jobs with items that were crawled and not analysed yet."""
        return await missing_analysis(self._db, project_id)

    async def close_project(self, project_id: str, *, by: str) -> int:
        """Ends a project whose analysis does not: what is missing counts as errors; returns how many items."""

        async def close(session: Session) -> tuple[int, list[VersionedState]]:
            missing, states = await close_project(session, project_id)
            if states:
                await audit.record(session, by, "project.close", project_id, {"analyze_errors": missing})
            return missing, states

        missing, states = await self._db.transact(close)
        await self._state.publish(states)
        return missing

    async def reconcile(self, project_id: str | None = None, *, by: str = audit.SYSTEM) -> list[Difference]:
        """Recounts one project, or all that are not done, and returns what differed."""
        reconcile = Reconcile(self._db, self._state)
        found = await (reconcile.unfinished() if project_id is None else reconcile.one(project_id))
        details = {"differences": len(found)}
        await audit.record(self._db, by, "project.reconcile", project_id or "projects", details)
        return found

    async def dry_run(self, keywords: list[str], *, limit: int, by: str) -> str:
        """Sends a dry run to every platform; returns its job id."""
        job_id = str(uuid4())
        request = CrawlRequest(
            job_id=job_id, task_type="dryrun_keyword", payload={"keywords": keywords, "limit": limit}
        )
        await self._dispatch.request(request)
        await audit.record(self._db, by, "project.dry_run", job_id, {"keywords": keywords, "limit": limit})
        return job_id

    async def retry_errors(self, project_id: str, *, by: str) -> RetriedErrors:
        """Sends failed posts out again, where that may help; those that are on their way are left out."""
        return await self._dispatch.retry_errors(project_id, by=by)

    async def close(self) -> None:
        await self._state.close()
