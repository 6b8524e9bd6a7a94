"""`opilio webhooks`: where events are posted, how that goes, and posting them again."""

from typing import Annotated, Any
from uuid import UUID

import typer

from opilio import audit
from opilio.cli import option_types
from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.option_types import Since, Until
from opilio.cli.output import Cursor, Json, Limit, note, print_fields, print_page, show

app = typer.Typer(
    no_args_is_help=True, help="Where events are posted, how that goes, and posting them again."
)
_COLUMNS = ("id", "status", "url", "events", "pending", "failures", "last_success_at", "last_error")
_ATTEMPT_COLUMNS = ("at", "type", "attempt", "status", "outcome", "latency_ms", "webhook_id", "error")
Id = Annotated[UUID, typer.Argument(parser=option_types.uuid, metavar="ID", help="A webhook.")]
Events = Annotated[
    list[str], typer.Option("--events", help="Event types, * for any characters; more than once for more.")
]


@app.command()
def add(
    url: str,
    events: Events,
    secret: Annotated[str | None, typer.Option(help="whsec_…; one is made without it.")] = None,
    description: Annotated[str, typer.Option(help="For people.")] = "",
    max_concurrent: Annotated[int, typer.Option(min=1, max=100, help="Requests at once.")] = 4,
    json: Json = False,
) -> None:
    """Posts events to a URL from now on; prints the secret, this once."""
    wanted = [pattern.strip() for text in events for pattern in text.split(",")]
    endpoint = run_async(
        _add(url=url, events=wanted, secret=secret, description=description, max_concurrent=max_concurrent)
    )
    show(endpoint, json, lambda: print(f"id      {endpoint.id}\nsecret  {endpoint.secret}"))


async def _add(**fields: Any) -> Any:
    from opilio.contracts.webhooks import EndpointCreate

    async with open_opilio_for_cli() as opilio:
        endpoint = await opilio.webhooks.create(EndpointCreate(**fields))
        await audit.record(opilio.database, actor(), "webhook.create", str(endpoint.id))
        return endpoint


@app.command("list")
def list_(limit: Limit = 50, cursor: Cursor = None, json: Json = False) -> None:
    """Lists webhooks, the newest first."""
    page = run_async(_ask("page", limit=limit, cursor=cursor))
    show(page, json, lambda: print_page(page, _COLUMNS, "no webhooks"))


@app.command("show")
def show_(id_: Id, json: Json = False) -> None:
    """Shows one webhook and how it is doing."""
    endpoint = run_async(_ask("get", id_))
    show(endpoint, json, lambda: print_fields(endpoint))


@app.command()
def attempts(id_: Id, limit: Limit = 50, cursor: Cursor = None, json: Json = False) -> None:
    """Lists what was sent to a webhook and what came back, the newest first."""
    page = run_async(_ask("attempts", id_, limit=limit, cursor=cursor))
    show(page, json, lambda: print_page(page, _ATTEMPT_COLUMNS, "nothing was sent yet"))


@app.command("test")
def send_test(id_: Id, json: Json = False) -> None:
    """Posts a webhook.test event now; fails when it is not taken."""
    answer = run_async(_ask("test", id_))
    show(answer, json, lambda: print_fields(answer))
    if not answer.delivered:
        note(f"not delivered: {answer.error}")
        raise typer.Exit(1)


@app.command()
def replay(
    id_: Id,
    since: Since = None,
    until: Until = None,
    event: Annotated[
        list[str] | None, typer.Option(help="One event by its id; more than once for more.")
    ] = None,
    json: Json = False,
) -> None:
    """Posts events again, under the ids that they had."""
    ids = [option_types.uuid(text) for text in event] if event else None
    if (ids is None) == (since is None):
        raise typer.BadParameter("give either --since or --event")
    answer = run_async(_replay(id_, ids=ids, since=since, until=until))
    show(answer, json, lambda: print(f"{answer.replayed} queued"))


async def _replay(id_: UUID, **span: Any) -> Any:
    from opilio.contracts.webhooks import ReplayRequest

    async with open_opilio_for_cli() as opilio:
        answer = await opilio.webhooks.replay(id_, ReplayRequest(**span))
        await audit.record(opilio.database, actor(), "webhook.replay", str(id_))
        return answer


@app.command()
def enable(id_: Id, json: Json = False) -> None:
    """Ends a pause or switches on again; what a pause held back is sent."""
    endpoint = run_async(_switch(id_, True))
    show(endpoint, json, lambda: print(endpoint.status))


@app.command()
def disable(id_: Id, json: Json = False) -> None:
    """Sends nothing more until it is enabled."""
    endpoint = run_async(_switch(id_, False))
    show(endpoint, json, lambda: print(endpoint.status))


async def _switch(id_: UUID, on: bool) -> Any:
    from opilio.contracts.webhooks import EndpointPatch

    async with open_opilio_for_cli() as opilio:
        endpoint = await opilio.webhooks.patch(id_, EndpointPatch(enabled=on))
        await audit.record(opilio.database, actor(), "webhook.enable" if on else "webhook.disable", str(id_))
        return endpoint


@app.command()
def rotate(
    id_: Id,
    overlap_hours: Annotated[float, typer.Option(min=0, max=720, help="How long both secrets sign.")] = 24,
    json: Json = False,
) -> None:
    """Makes a new secret and prints it; the old one goes on signing beside it for a while."""
    endpoint = run_async(_rotate(id_, overlap_hours))
    show(endpoint, json, lambda: print(endpoint.secret))


async def _rotate(id_: UUID, overlap_hours: float) -> Any:
    from opilio.contracts.webhooks import SecretRotation

    async with open_opilio_for_cli() as opilio:
        endpoint = await opilio.webhooks.rotate_secret(id_, SecretRotation(overlap_hours=overlap_hours))
        await audit.record(opilio.database, actor(), "webhook.rotate", str(id_))
        return endpoint


@app.command()
def delete(id_: Id, json: Json = False) -> None:
    """Removes a webhook and what waits for it."""
    run_async(_delete(id_))
    show({"id": str(id_), "deleted": True}, json, lambda: print("deleted"))


async def _delete(id_: UUID) -> None:
    async with open_opilio_for_cli() as opilio:
        await opilio.webhooks.delete(id_)
        await audit.record(opilio.database, actor(), "webhook.delete", str(id_))


async def _ask(question: str, *args: Any, **named: Any) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await getattr(opilio.webhooks, question)(*args, **named)
