"""`opilio projects`: keyword projects and their progress."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.option_types import seconds
from opilio.cli.output import Cursor, Json, JsonLines, Limit, note, print_json, print_page, print_table, show

if TYPE_CHECKING:
    from opilio.contracts.projects import DryRun, Progress, Project, ProjectInput

app = typer.Typer(no_args_is_help=True, help="Create and follow keyword projects.")
_COLUMNS = ("project_id", "brand_name", "status", "created_at", "finished_at")
_TASK_COLUMNS = ("job_id", "platform", "keyword", "status", "attempt", "successful", "failed", "error_code")
_PACE = 0.5


@app.command()
def create(
    file: Annotated[Path, typer.Argument(help="A project as JSON or TOML; - reads JSON from stdin.")],
    as_json: Json = False,
) -> None:
    """Create a project and send its tasks; the same file again changes nothing."""

    async def work() -> "Project":
        async with open_opilio_for_cli() as opilio:
            project_id = await opilio.projects.create(_read(file), by=actor())
            return await opilio.project_insights.project(project_id)

    project = run_async(work())
    show(project, as_json, lambda: print(project.project_id))


@app.command("list")
def list_(
    status: Annotated[str | None, typer.Option(help="PENDING, PROCESSING or DONE.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List projects, newest first."""

    async def work() -> Any:
        async with open_opilio_for_cli() as opilio:
            return await opilio.project_insights.projects(limit=limit, cursor=cursor, status=status)

    page = run_async(work())
    show(page, as_json, lambda: print_page(page, _COLUMNS, "no projects"))


@app.command("show")
def show_(project_id: str, as_json: Json = False) -> None:
    """Show a project: its progress, its tasks, its warnings."""

    async def work() -> tuple["Project", Any]:
        async with open_opilio_for_cli() as opilio:
            project = await opilio.project_insights.project(project_id)
            return project, await opilio.project_insights.tasks(project_id, limit=500)

    project, tasks = run_async(work())
    if as_json:
        print_json({"project": project, "tasks": tasks.items})
        return
    _print_progress(project.progress)
    print_page(tasks, _TASK_COLUMNS, "no tasks")
    for warning in project.warnings or []:
        note(f"warning: {warning.platform} {warning.job_id}: {warning.message}".replace("  ", " "))


@app.command("close")
def close_(project_id: str, as_json: Json = False) -> None:
    """Close a project whose analysis does not end: items that were not analysed count as errors."""

    async def work() -> int:
        async with open_opilio_for_cli() as opilio:
            return await opilio.projects.close_project(project_id, by=actor())

    added = run_async(work())
    show(
        {"project_id": project_id, "analyze_errors_added": added},
        as_json,
        lambda: print(f"{project_id} is done; {added} items were not analysed and count as errors"),
    )


@app.command()
def reconcile(
    project_id: Annotated[
        str | None, typer.Argument(help="A project; all that are not done without it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Recount projects from their recorded tasks and batches, and show what differed."""

    async def work() -> Any:
        async with open_opilio_for_cli() as opilio:
            return await opilio.projects.reconcile(project_id, by=actor())

    differences = run_async(work())
    if as_json:
        print_json(differences)
        return
    rows = [(d.project_id, d.where, d.field, "-" if d.was is None else d.was, d.now) for d in differences]
    print_table(("project", "where", "field", "was", "is now"), rows, "nothing differed")


@app.command("dry-run")
def dry_run(
    keywords: Annotated[list[str], typer.Argument(help="Keywords to search for.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Items for each platform.")] = 10,
    timeout: Annotated[
        float, typer.Option(parser=seconds, metavar="DURATION", help="How long to wait for the crawlers.")
    ] = "5m",  # type: ignore[assignment]
    as_json: Json = False,
) -> None:
    """Search keywords on every platform without a project, and show what is found."""

    async def work() -> "DryRun":
        async with open_opilio_for_cli() as opilio:
            job_id = await opilio.projects.dry_run(keywords, limit=limit, by=actor())
            note(f"dry run {job_id}; waiting for the crawlers")
            found = await opilio.project_insights.dry_run(job_id)
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    while not found.done:
                        await asyncio.sleep(_PACE)
                        found = await opilio.project_insights.dry_run(job_id)
            return found

    found = run_async(work())
    show(found, as_json, lambda: _print_dry_run(found))
    if not found.done:
        note(
            f"not every platform answered within {timeout:g} s: is a crawler connected? "
            "`opilio crawler simulate --platform NAME` is one to try with"
        )
        raise typer.Exit(1)


def _print_dry_run(found: "DryRun") -> None:
    print_table(
        ("platform", "status", "found", "fetched", "failed", "error"),
        [
            (
                t.platform,
                t.status,
                "-" if t.total_found is None else t.total_found,
                t.successful,
                t.failed,
                t.error_code or "",
            )
            for t in found.tasks
        ],
    )
    print_table(
        ("platform", "id", "views", "author", "text"),
        [
            (i.platform, i.id, i.view_count, i.author_name or "", (i.content_text or i.error_code or "")[:80])
            for i in found.items
        ],
        "no items",
    )


@app.command()
def watch(project_id: str, as_json: JsonLines = False) -> None:
    """Watch a project until it is done: two bars, crawl and analysis."""

    async def work() -> None:
        async with open_opilio_for_cli() as opilio:
            await (_stream if as_json else _bars)(opilio.projects, project_id)

    run_async(work())


async def _stream(projects: Any, project_id: str) -> None:
    """A JSON line for each changed state."""
    last: Progress | None = None
    while True:
        progress = await _progress(projects, project_id)
        if last is None or _numbers(progress) != _numbers(last):
            print_json(progress)
            sys.stdout.flush()
            last = progress
        if progress.status == "DONE":
            return
        await asyncio.sleep(_PACE)


async def _bars(projects: Any, project_id: str) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<8}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        crawl = bars.add_task("crawl", total=100, text="")
        analyze = bars.add_task("analyze", total=100, text="")
        while True:
            progress = await _progress(projects, project_id)
            tasks, items, batch = progress.crawl.tasks, progress.crawl.items, progress.analyze
            crawl_text = f"{tasks.done + tasks.errors}/{tasks.total} tasks, {items.actual} items, {tasks.errors} failed"
            bars.update(crawl, completed=items.percent, text=crawl_text)
            bars.update(
                analyze,
                completed=batch.percent if batch.total else 0,
                text=f"{batch.done}/{batch.total} items, {batch.errors} failed",
            )
            if progress.status == "DONE":
                bars.update(crawl, completed=100)
                bars.update(analyze, completed=100)
                break
            await asyncio.sleep(_PACE)
    print("DONE")


async def _progress(projects: Any, project_id: str) -> "Progress":
    from datetime import UTC, datetime

    from opilio.collector.completion import progress

    return progress(project_id, await projects.state(project_id), datetime.now(UTC))


def _numbers(progress: "Progress") -> Any:
    return progress.status, progress.crawl, progress.analyze


def _print_progress(progress: "Progress") -> None:
    tasks, items, analyze = progress.crawl.tasks, progress.crawl.items, progress.analyze
    print(f"{progress.project_id}  {progress.status}  {progress.overall_progress_percent:g}%")
    print_table(
        ("phase", "total", "done", "errors", "percent"),
        [
            ("tasks", tasks.total, tasks.done, tasks.errors, tasks.percent),
            ("items", items.expected, items.actual, items.errors, items.percent),
            ("analyze", analyze.total, analyze.done, analyze.errors, analyze.percent),
        ],
    )


def _read(file: Path) -> "ProjectInput":
    import msgspec

    from opilio.contracts.projects import ProjectInput
    from opilio.errors import OpilioError

    decode = msgspec.toml.decode if file.suffix == ".toml" else msgspec.json.decode
    try:
        body = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return decode(body, type=ProjectInput)
    except OSError as error:
        raise OpilioError(f"{file} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise OpilioError(f"{file} is not a project: {error}") from None
