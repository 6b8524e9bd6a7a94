"""`opilio jobs`: list and show jobs, and operator actions."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from opilio.cli import option_types
from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.output import Cursor, Json, Limit, note, print_fields, print_page, print_table, show
from opilio.cli.policies import print_why

app = typer.Typer(no_args_is_help=True, help="What is being crawled, what was, and doing something about it.")
_COLUMNS = (
    "id",
    "status",
    "url",
    "queue",
    "priority",
    "retry_count",
    "locked_by",
    "created_at",
    "last_error",
)
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="One or more jobs.")]


class Status(StrEnum):
    PENDING = "pending"
    LOCKED = "locked"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"


@app.command("create-due")
def create_due(json: Json = False) -> None:
    """Creates the jobs of all due policies, once; what the scheduler does every second."""
    counts = run_async(_round("create_due"))
    show(counts, json, lambda: print(f"{counts['created']} created"))


@app.command()
def expire(json: Json = False) -> None:
    """Expires locks whose TTL passed, once; what the scheduler does every second."""
    counts = run_async(_round("expire"))
    show(counts, json, lambda: print(f"{counts['retried']} to be tried again, {counts['ended']} ended"))


async def _round(name: str) -> Any:
    from opilio.runtime.roles.scheduler import Rounds

    async with open_opilio_for_cli() as opilio:
        return await getattr(Rounds(opilio), name)()


@app.command("list")
def list_(
    status: Annotated[Status | None, typer.Option(help="Only in this state.")] = None,
    host: Annotated[str | None, typer.Option(help="Only of this host.")] = None,
    policy: Annotated[str | None, typer.Option(help="Only of this policy.")] = None,
    bot: Annotated[str | None, typer.Option(help="Only of this bot.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    json: Json = False,
) -> None:
    """Lists jobs, the newest first."""
    policy_id = option_types.uuid(policy) if policy else None
    page = run_async(
        _list(status=status, host=host, policy_id=policy_id, bot_id=bot, limit=limit, cursor=cursor)
    )
    show(page, json, lambda: print_page(page, _COLUMNS, "no jobs"))


async def _list(**filters: Any) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.insights.jobs(**filters)


@app.command("show")
def show_(job_id: str, json: Json = False) -> None:
    """Shows a job and its timeline."""
    job = run_async(_show(job_id))
    show(job, json, lambda: _print_job(job))


async def _show(job_id: str) -> dict[str, Any]:
    wanted = option_types.uuid(job_id)
    async with open_opilio_for_cli() as opilio:
        job = await opilio.insights.job(wanted)
        return {
            **{name: getattr(job, name) for name in job.__struct_fields__},
            "timeline": await opilio.insights.timeline(wanted),
            "late": await opilio.insights.late(wanted),
        }


def _print_job(job: dict[str, Any]) -> None:
    print_fields(job, hide=("timeline", "late"))
    print()
    print_table(
        ("at", "from", "to", "by", "reason"), ([t.at, t.from_, t.to, t.by, t.reason] for t in job["timeline"])
    )
    if job["late"]:
        note(f"{len(job['late'])} late results were kept aside; --json shows them")


@app.command()
def why(job_id: str, json: Json = False) -> None:
    """Says why a job is not running now; for one that ended, why its policy is not."""
    answer = run_async(_why(job_id))
    show(answer, json, lambda: print_why(answer))


async def _why(job_id: str) -> Any:
    async with open_opilio_for_cli() as opilio:
        return (await opilio.insights.job_why(option_types.uuid(job_id))).as_answer()


# ── by hand ──────────────────────────────────────────────────────────────────────────────────────


@app.command()
def reset(ids: Ids, json: Json = False) -> None:
    """Returns locked, failed or expired jobs to the queue, with all their retries."""
    _act("reset", ids, json)


@app.command()
def release(ids: Ids, json: Json = False) -> None:
    """Releases locks; the jobs return to the queue with the retries that they have left."""
    _act("release", ids, json)


@app.command("force-expire")
def force_expire(ids: Ids, json: Json = False) -> None:
    """Ends locks as if their TTL had passed."""
    _act("expire", ids, json)


def _act(action: str, ids: Sequence[str], json: bool) -> None:
    rows = run_async(_apply(action, ids))
    show(rows, json, lambda: _print_apply(rows))
    if not all(row.success for row in rows):
        raise typer.Exit(1)


async def _apply(action: str, ids: Sequence[str]) -> list[Any]:
    from opilio.contracts.envelope import ErrorBody
    from opilio.contracts.management import ActionRow

    wanted = [option_types.uuid(text) for text in ids]
    async with open_opilio_for_cli() as opilio:
        results = await opilio.operator_actions.apply(action, wanted, actor())
    return [
        ActionRow(
            id=result.job_id,
            success=result.refusal is None,
            status=result.status,
            error=ErrorBody(result.refusal.code, result.refusal.message) if result.refusal else None,
        )
        for result in results
    ]


def _print_apply(rows: Sequence[Any]) -> None:
    for row in rows:
        if row.success:
            print(f"{row.id} {row.status}")
        else:
            error = msgspec.to_builtins(row.error)
            note(f"{row.id}: {error['message']}")
