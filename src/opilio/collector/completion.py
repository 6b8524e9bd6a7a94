"""When a project is done, and how far it is, by the contract's formulas."""

from datetime import datetime

from opilio.contracts.projects import (
    AnalyzeProgress,
    CrawlProgress,
    ItemProgress,
    Progress,
    ProjectState,
    TaskProgress,
)


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
    """The mean of the two phases while PROCESSING, 100 when DONE."""
    if state.status == "DONE":
        return 100.0
    return round((crawl_percent(state) + analyze_percent(state)) / 2, 2)


def _percent(part: int, whole: int) -> float:
    return round(min(part / whole * 100, 100.0), 2)


def progress(project_id: str, state: ProjectState, at: datetime) -> Progress:
    """The body of the progress webhook; `at` is the time of the state."""
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
