"""What the API and the command line ask of projects; lists and details are read by `opilio.insights.projects`."""

from opilio.collector.dispatch import Dispatch
from opilio.collector.state.protocol import StateStore
from opilio.contracts.projects import ProjectInput, ProjectState
from opilio.errors import NotFound


class Projects:
    def __init__(self, state: StateStore, dispatch: Dispatch) -> None:
        self._state = state
        self._dispatch = dispatch

    async def create(self, project: ProjectInput, *, by: str) -> str:
        """Answers the project's id; the same project again is no error and changes nothing."""
        return await self._dispatch.create(project, by=by)

    async def state(self, project_id: str) -> ProjectState:
        """The live state, as the flat hash."""
        state = await self._state.read(project_id)
        if state is None:
            raise NotFound(f"there is no project {project_id}")
        return state

    async def close(self) -> None:
        await self._state.close()
