"""The counters of a project as differences: what a task or a batch adds, and what replaces what."""

from dataclasses import dataclass, fields

from opilio.collector.batches import Batch
from opilio.collector.completion import is_complete
from opilio.collector.task import State, Task
from opilio.contracts.projects import ProjectState


@dataclass(frozen=True, slots=True)
class Tally:
    """A difference of a project's counters."""

    tasks_done: int = 0
    tasks_errors: int = 0
    items_actual: int = 0
    items_errors: int = 0
    analyze_total: int = 0
    analyze_done: int = 0
    analyze_errors: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, name) + getattr(other, name) for name in COUNTERS))

    def __sub__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, name) - getattr(other, name) for name in COUNTERS))

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in COUNTERS)


COUNTERS = tuple(field.name for field in fields(Tally))


def task_tally(task: Task) -> Tally:
    """What a task adds to the counters of its project: nothing while it is open."""
    if task.state is State.OPEN:
        return Tally()
    return Tally(
        tasks_done=int(task.state is State.DONE),
        tasks_errors=int(task.state is State.FAILED),
        items_actual=task.successful,
        items_errors=task.failed,
        analyze_total=task.successful,
    )


def batch_tally(batch: Batch) -> Tally:
    """What an analysed batch adds to the counters of its project."""
    if not batch.counted:
        return Tally()
    return Tally(analyze_done=batch.success_count, analyze_errors=batch.error_count)


def add_tally(state: ProjectState, tally: Tally) -> ProjectState:
    """The reference for the SQL statement, which does the same in one step."""
    values = {name: getattr(state, name) for name in state.__struct_fields__}
    for name in COUNTERS:
        values[name] += getattr(tally, name)
    values["crawl_done"], values["crawl_errors"] = values["items_actual"], values["items_errors"]
    changed = ProjectState(**values)
    changed.status = "DONE" if state.status == "DONE" or is_complete(changed) else "PROCESSING"
    return changed
