"""What a result adds to the state of its project, when a project is done, and how far it is."""

from dataclasses import dataclass
from datetime import datetime

from opilio.collector.result import Analysis, Result
from opilio.contracts.projects import (
    AnalyzeProgress,
    CrawlProgress,
    ItemProgress,
    Progress,
    ProjectState,
    TaskProgress,
)


@dataclass(frozen=True, slots=True)
class Tally:
    """One addition to a project's counters; counted once, however often it is handed in."""

    project_id: str
    identity: str
    tasks_done: int = 0
    tasks_errors: int = 0
    items_actual: int = 0
    items_errors: int = 0
    analyze_total: int = 0
    analyze_done: int = 0
    analyze_errors: int = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """In the order of COUNTERS."""
        return (
            self.tasks_done,
            self.tasks_errors,
            self.items_actual,
            self.items_errors,
            self.analyze_total,
            self.analyze_done,
            self.analyze_errors,
        )


COUNTERS = (
    "tasks_done",
    "tasks_errors",
    "items_actual",
    "items_errors",
    "analyze_total",
    "analyze_done",
    "analyze_errors",
)


def started(project_id: str) -> Tally:
    """The tasks are on their way: PENDING becomes PROCESSING."""
    return Tally(project_id, "started")


def of_result(project_id: str, result: Result, *, settles: bool) -> Tally:
    """A result that settles its task moves the task counters; a further page adds its items alone."""
    return Tally(
        project_id,
        result.identity,
        tasks_done=int(settles and result.success),
        tasks_errors=int(settles and not result.success),
        items_actual=result.successful,
        items_errors=result.failed,
        analyze_total=result.successful,
    )


def of_analysis(analysis: Analysis) -> Tally:
    return Tally(
        analysis.project_id,
        analysis.identity,
        analyze_done=analysis.success_count,
        analyze_errors=analysis.error_count,
    )


def add(state: ProjectState, tally: Tally) -> ProjectState:
    """The counters after a tally. Both stores do the same in one atomic step; tests hold them to this."""
    fields = {name: getattr(state, name) for name in state.__struct_fields__}
    for name, number in zip(COUNTERS, tally.numbers, strict=True):
        fields[name] += number
    fields["crawl_done"], fields["crawl_errors"] = fields["items_actual"], fields["items_errors"]
    moved = ProjectState(**fields)
    moved.status = "DONE" if state.status == "DONE" or is_complete(moved) else "PROCESSING"
    return moved


# ── completion and percentages: the contract's own formulas ──────────────────────────────────────


def is_crawl_complete(state: ProjectState) -> bool:
    if state.tasks_total == 0:
        return state.crawl_done + state.crawl_errors >= state.crawl_total
    return state.tasks_done + state.tasks_errors >= state.tasks_total


def is_analyze_complete(state: ProjectState) -> bool:
    return state.analyze_total == 0 or state.analyze_done + state.analyze_errors >= state.analyze_total


def is_complete(state: ProjectState) -> bool:
    return is_crawl_complete(state) and is_analyze_complete(state)


def crawl_percent(state: ProjectState) -> float:
    if state.items_expected == 0:
        return tasks_percent(state)
    return _percent(state.items_actual, state.items_expected)


def tasks_percent(state: ProjectState) -> float:
    return _percent(state.tasks_done, state.tasks_total) if state.tasks_total else 0.0


def analyze_percent(state: ProjectState) -> float:
    return _percent(state.analyze_done, state.analyze_total) if state.analyze_total else 100.0


def overall_percent(state: ProjectState) -> float:
    """The mean of the two phases while they run; what is DONE is 100."""
    if state.status == "DONE":
        return 100.0
    return round((crawl_percent(state) + analyze_percent(state)) / 2, 2)


def _percent(part: int, whole: int) -> float:
    return round(min(part / whole * 100, 100.0), 2)


def progress(project_id: str, state: ProjectState, at: datetime) -> Progress:
    """The body of the webhook: `at` is when the state was reached."""
    body = Progress(
        project_id=project_id,
        status=state.status,
        overall_progress_percent=overall_percent(state),
        crawl=CrawlProgress(
            tasks=TaskProgress(
                total=state.tasks_total,
                done=state.tasks_done,
                errors=state.tasks_errors,
                percent=tasks_percent(state),
            ),
            items=ItemProgress(
                expected=state.items_expected,
                actual=state.items_actual,
                errors=state.items_errors,
                percent=crawl_percent(state),
            ),
        ),
        analyze=AnalyzeProgress(
            total=state.analyze_total,
            done=state.analyze_done,
            errors=state.analyze_errors,
            percent=analyze_percent(state),
        ),
    )
    if state.status == "DONE":
        body.completed_at = at
    else:
        body.updated_at = at
    return body
