"""`opilio policies`: what is crawled, and how often."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, BinaryIO
from uuid import UUID

import typer

from opilio.cli import option_types
from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.output import Cursor, Json, JsonLines, Limit, note, print_page, print_table, show

if TYPE_CHECKING:
    from opilio.contracts.policies import ImportRow, Policy
    from opilio.crawl.import_policies import Reading

app = typer.Typer(no_args_is_help=True, help="What is crawled, and how often.")

Duration = Annotated[timedelta | None, typer.Option(parser=option_types.duration, metavar="DURATION")]
_COLUMNS = (
    "id",
    "url",
    "enabled",
    "schedule",
    "frequency_hours",
    "priority",
    "queue",
    "next_run_at",
    "failure_count",
)
_MOST_TOLD = 20


class Queue(StrEnum):
    HTTP = "http"
    JS = "js"
    SPECIAL = "special"


class Schedule(StrEnum):
    FIXED = "fixed"
    ADAPTIVE = "adaptive"


class Source(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"
    SITEMAP = "sitemap"
    URLS = "urls"


class Target(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"


@app.command()
def add(
    url: str,
    every: Annotated[
        timedelta, typer.Option(parser=option_types.duration, metavar="DURATION", help="How often: 6h, 1d …")
    ] = "24h",  # type: ignore[assignment] # the parser makes it a timedelta
    priority: Annotated[int, typer.Option(min=0, max=100, help="Importance, before the rule engine.")] = 50,
    max_retries: Annotated[int, typer.Option(min=0, max=100)] = 3,
    retry_backoff: Duration = "5m",  # type: ignore[assignment]
    timeout: Duration = "10m",  # type: ignore[assignment]
    queue: Annotated[Queue | None, typer.Option(help="The rule engine chooses without it.")] = None,
    schedule: Annotated[
        Schedule, typer.Option(help="fixed: every DURATION; adaptive: when a crawl is worth it.")
    ] = Schedule.FIXED,
    min_interval: Duration = None,
    max_interval: Duration = None,
    hot: Annotated[bool, typer.Option("--hot", help="Crawl before other policies.")] = False,
    label: Annotated[list[str] | None, typer.Option(help="key=value. Repeatable.")] = None,
    config: Annotated[str, typer.Option(metavar="JSON", help="crawl_config for the bot.")] = "{}",
    rules: Annotated[str, typer.Option(metavar="JSON", help="rule_set for the bot.")] = "{}",
    disabled: Annotated[bool, typer.Option("--disabled", help="Kept, but not crawled.")] = False,
    json: Json = False,
) -> None:
    """Adds a policy and prints its id; it is due at once."""
    from opilio.contracts.policies import PolicyInput

    assert retry_backoff is not None
    assert timeout is not None
    wanted = PolicyInput(
        url=url,
        enabled=not disabled,
        frequency_hours=option_types.hours(every),
        priority=priority,
        max_retries=max_retries,
        retry_backoff_minutes=option_types.minutes(retry_backoff),
        timeout_minutes=option_types.minutes(timeout),
        queue=queue.value if queue else None,
        crawl_config=option_types.json_object(config),
        rule_set=option_types.json_object(rules),
        hot=hot,
        labels=dict(option_types.label(text) for text in label or []),
        schedule=schedule.value,
        min_interval_hours=option_types.hours(min_interval) if min_interval else None,
        max_interval_hours=option_types.hours(max_interval) if max_interval else None,
    )
    policy = run_async(_add(wanted))
    show(policy, json, lambda: print(policy.id))


async def _add(wanted: Any) -> "Policy":
    async with open_opilio_for_cli() as opilio:
        return await opilio.insights.policy(await opilio.policies.create(wanted, actor()))


@app.command("list")
def list_(
    enabled: Annotated[bool | None, typer.Option("--enabled/--disabled", help="Only these.")] = None,
    host: Annotated[str | None, typer.Option(help="Only of this host.")] = None,
    q: Annotated[str | None, typer.Option("-q", "--search", help="Part of the URL.")] = None,
    label: Annotated[str | None, typer.Option(help="Only with this label, key=value.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    json: Json = False,
) -> None:
    """Lists policies, the newest first."""
    page = run_async(_list(enabled, host, q, option_types.label(label) if label else None, limit, cursor))
    show(page, json, lambda: print_page(page, _COLUMNS, "no policies"))


async def _list(
    enabled: bool | None,
    host: str | None,
    q: str | None,
    label: tuple[str, str] | None,
    limit: int,
    cursor: str | None,
) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.insights.policies(
            enabled=enabled, host=host, q=q, label=label, limit=limit, cursor=cursor
        )


@app.command("schedule")
def schedule_(
    schedule: Annotated[Schedule, typer.Argument(help="adaptive or fixed.")],
    policy_ids: Annotated[list[UUID] | None, typer.Argument(help="Policies to switch.")] = None,
    host: Annotated[str | None, typer.Option(help="All policies of this host.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All policies.")] = False,
    json: Json = False,
) -> None:
    """Switches policies to the adaptive schedule or back; `opilio recrawl plan` shows first what would change."""
    if sum((bool(policy_ids), bool(host), all_)) != 1:
        raise typer.BadParameter("name policies, or --host, or --all")
    switched = run_async(_switch(schedule.value, policy_ids, host))
    show({"switched": switched}, json, lambda: print(f"{switched} policies are {schedule.value}"))


async def _switch(schedule: Any, policy_ids: list[UUID] | None, host: str | None) -> int:
    async with open_opilio_for_cli() as opilio:
        if policy_ids:
            await opilio.policies.set_schedule(policy_ids, schedule, actor())
            return len(policy_ids)
        switched, cursor = 0, None
        while True:
            page = await opilio.insights.policies(host=host, limit=500, cursor=cursor)
            ids = [policy.id for policy in page.items]
            if ids:
                await opilio.policies.set_schedule(ids, schedule, actor())
            switched, cursor = switched + len(ids), page.next_cursor
            if cursor is None:
                return switched


# ── import ───────────────────────────────────────────────────────────────────────────────────────


@app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(help="CSV, JSON lines, a sitemap or a list of URLs; - reads stdin.")
    ],
    kind: Annotated[Source | None, typer.Option("--format", help="By the file's ending without it.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen to every row; change nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Creates or updates a policy for each row; shows the result of every row."""
    answers = run_async(_import(file, kind or _kind(file), dry_run=dry_run))
    counts = Counter(answer.status for answer in answers)
    totals = {status: counts[status] for status in ("created", "updated", "rejected")}
    show({**totals, "rows": answers}, json, lambda: _tell(totals, answers, dry_run=dry_run))
    if answers and counts["rejected"] == len(answers):
        raise typer.Exit(1)


def _kind(file: Path) -> Source:
    known = {
        ".csv": Source.CSV,
        ".jsonl": Source.JSONL,
        ".ndjson": Source.JSONL,
        ".xml": Source.SITEMAP,
        ".gz": Source.SITEMAP,
        ".txt": Source.URLS,
    }
    if file.suffix.lower() not in known:
        raise typer.BadParameter(f"the ending of {file} says nothing: add --format {'|'.join(Source)}")
    return known[file.suffix.lower()]


async def _import(file: Path, kind: Source, *, dry_run: bool) -> "list[ImportRow]":
    from opilio.crawl.import_policies import import_rows, preview_rows

    with _opened(file) as source, _progress(source) as readable:
        async with open_opilio_for_cli() as opilio:
            readings = _readings(readable, kind)
            batches = (
                preview_rows(opilio.policies, readings)
                if dry_run
                else import_rows(opilio.policies, readings, actor())
            )
            return [answer async for batch in batches for answer in batch]


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    from opilio.errors import OpilioError

    try:
        source = file.open("rb")
    except OSError as error:
        raise OpilioError(f"{file} cannot be read: {error.strerror}") from None
    with source:
        yield source


@contextmanager
def _progress(source: BinaryIO) -> Iterator[BinaryIO]:
    """A bar on stderr, where a person looks; it moves as the file is read."""
    from rich.console import Console
    from rich.progress import wrap_file

    console = Console(stderr=True)
    if not source.seekable() or not console.is_terminal:
        yield source
        return
    size = source.seek(0, 2)
    source.seek(0)
    with wrap_file(source, size, description="importing", console=console) as watched:
        yield watched


def _readings(source: BinaryIO, kind: Source) -> "Iterable[Reading]":
    from opilio.crawl import import_policies

    if kind is Source.SITEMAP:
        return import_policies.read_sitemap(source.read())
    read = {
        Source.CSV: import_policies.read_csv,
        Source.JSONL: import_policies.read_jsonl,
        Source.URLS: import_policies.read_urls,
    }[kind]
    return read(_text(source))


def _text(source: BinaryIO) -> Iterator[str]:
    from opilio.errors import OpilioError

    for number, line in enumerate(source, 1):
        try:
            yield line.decode()
        except UnicodeDecodeError:
            raise OpilioError(
                f"line {number} is not UTF-8; save the file as UTF-8 (what came before is imported)"
            ) from None


def _tell(totals: dict[str, int], answers: "list[ImportRow]", *, dry_run: bool) -> None:
    rejected = [answer for answer in answers if answer.status == "rejected"]
    for answer in rejected[:_MOST_TOLD]:
        note(f"row {answer.row}: {answer.error}" + (f" ({answer.url[:80]})" if answer.url else ""))
    if len(rejected) > _MOST_TOLD:
        note(f"… and {len(rejected) - _MOST_TOLD} more; --json tells of every row")
    text = ", ".join(f"{count} {status}" for status, count in totals.items())
    print(f"nothing was changed; an import would give: {text}" if dry_run else text)


# ── export ───────────────────────────────────────────────────────────────────────────────────────


@app.command()
def export(
    kind: Annotated[Target, typer.Option("--format")] = Target.JSONL,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; stdout without it.")] = None,
    json: JsonLines = False,
) -> None:
    """Writes every policy in a form that `import` reads back."""
    run_async(_export(Target.JSONL if json else kind, output))


async def _export(kind: Target, output: Path | None) -> None:
    from opilio.crawl.export_policies import write_csv, write_jsonl

    with output.open("w", encoding="utf-8", newline="") if output else _stdout() as file:
        empty = True
        if kind is Target.CSV:
            file.writelines(write_csv([]))
        async with open_opilio_for_cli() as opilio:
            async for batch in opilio.insights.export():
                file.writelines(
                    write_jsonl(batch) if kind is Target.JSONL else write_csv(batch, header=False)
                )
                empty = False
    if empty:
        note("no policies")


@contextmanager
def _stdout() -> Iterator[IO[str]]:
    yield sys.stdout


# ── one policy ───────────────────────────────────────────────────────────────────────────────────


@app.command()
def run(policy_id: Annotated[str, typer.Argument()], json: Json = False) -> None:
    """Makes a job at once, due or not, and prints its id; with an active job, that one's, whose retry waits no longer."""
    job_id = run_async(_run(policy_id))
    show({"job_id": job_id}, json, lambda: print(job_id))


async def _run(policy_id: str) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.operator_actions.run_now(option_types.uuid(policy_id), actor())


@app.command()
def why(policy_id: str, json: Json = False) -> None:
    """Says why a policy is not being crawled now."""
    answer = run_async(_why(policy_id))
    show(answer, json, lambda: print_why(answer))


async def _why(policy_id: str) -> Any:
    async with open_opilio_for_cli() as opilio:
        return (await opilio.insights.policy_why(option_types.uuid(policy_id))).as_answer()


def print_why(answer: Any) -> None:
    if not answer.reasons:
        print("nothing stands in its way: a bot may get it at its next pull")
        return
    print_table(("code", "message", "until"), ([r.code, r.message, r.until] for r in answer.reasons))
