"""`opilio webhooks`: manage webhook endpoints."""

from typing import Annotated, Any
from uuid import UUID

import typer

from opilio.cli import option_types
from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.option_types import Since, Until
from opilio.cli.output import Cursor, Json, Limit, note, print_fields, print_page, show

app = typer.Typer(no_args_is_help=True, help="Manage webhook endpoints.")
_COLUMNS = ("id", "status", "url", "events", "pending", "failures", "last_success_at", "last_error")
_ATTEMPT_COLUMNS = ("at", "type", "attempt", "status", "outcome", "latency_ms", "webhook_id", "error")
Id = Annotated[UUID, typer.Argument(parser=option_types.uuid, metavar="ID", help="The webhook's id.")]
Events = Annotated[
    list[str], typer.Option("--events", help="Event types; * matches any characters. Repeatable.")
]


@app.command()
def add(
    url: str,
    events: Events,
    secret: Annotated[str | None, typer.Option(help="whsec_…; generated when omitted.")] = None,
    description: Annotated[str, typer.Option(help="Free text.")] = "",
    max_concurrent: Annotated[int, typer.Option(min=1, max=100, help="Concurrent requests.")] = 4,
    json: Json = False,
) -> None:
    """Creates a webhook and prints its secret, which is not shown again."""
    wanted = [pattern.strip() for text in events for pattern in text.split(",")]
    endpoint = run_async(
        _add(url=url, events=wanted, secret=secret, description=description, max_concurrent=max_concurrent)
    )
    show(endpoint, json, lambda: print(f"id      {endpoint.id}\nsecret  {endpoint.secret}"))


async def _add(**fields: Any) -> Any:
    from opilio.contracts.webhooks import EndpointCreate

    async with open_opilio_for_cli() as opilio:
        return await opilio.webhooks.create(EndpointCreate(**fields), actor=actor())


@app.command("list")
def list_(limit: Limit = 50, cursor: Cursor = None, json: Json = False) -> None:
    """Lists webhooks, newest first."""
    page = run_async(_ask("page", limit=limit, cursor=cursor))
    show(page, json, lambda: print_page(page, _COLUMNS, "no webhooks"))


@app.command("show")
def show_(id_: Id, json: Json = False) -> None:
    """Shows one webhook and its health."""
    endpoint = run_async(_ask("get", id_))
    show(endpoint, json, lambda: print_fields(endpoint))


@app.command()
def attempts(id_: Id, limit: Limit = 50, cursor: Cursor = None, json: Json = False) -> None:
    """Lists the attempts of a webhook, newest first."""
    page = run_async(_ask("attempts", id_, limit=limit, cursor=cursor))
    show(page, json, lambda: print_page(page, _ATTEMPT_COLUMNS, "no attempts yet"))


@app.command("test")
def send_test(id_: Id, json: Json = False) -> None:
    """Sends a webhook.test event now; exits with 1 when it is not delivered."""
    answer = run_async(_ask("test", id_, actor=actor()))
    show(answer, json, lambda: print_fields(answer))
    if not answer.delivered:
        note(f"not delivered: {answer.error}")
        raise typer.Exit(1)


@app.command()
def replay(
    id_: Id,
    since: Since = None,
    until: Until = None,
    event: Annotated[list[str] | None, typer.Option(help="Id of one event. Repeatable.")] = None,
    json: Json = False,
) -> None:
    """Sends events again; they keep their ids."""
    ids = [option_types.uuid(text) for text in event] if event else None
    if (ids is None) == (since is None):
        raise typer.BadParameter("give either --since or --event")
    answer = run_async(_replay(id_, ids=ids, since=since, until=until))
    show(answer, json, lambda: print(f"{answer.replayed} queued"))


async def _replay(id_: UUID, **span: Any) -> Any:
    from opilio.contracts.webhooks import ReplayRequest

    async with open_opilio_for_cli() as opilio:
        return await opilio.webhooks.replay(id_, ReplayRequest(**span), actor=actor())


@app.command()
def enable(id_: Id, json: Json = False) -> None:
    """Enables a webhook; events that it missed while paused are sent."""
    endpoint = run_async(_switch(id_, True))
    show(endpoint, json, lambda: print(endpoint.status))


@app.command()
def disable(id_: Id, json: Json = False) -> None:
    """Disables a webhook until it is enabled again."""
    endpoint = run_async(_switch(id_, False))
    show(endpoint, json, lambda: print(endpoint.status))


async def _switch(id_: UUID, on: bool) -> Any:
    from opilio.contracts.webhooks import EndpointPatch

    async with open_opilio_for_cli() as opilio:
        return await opilio.webhooks.change(id_, EndpointPatch(enabled=on), actor=actor())


@app.command()
def rotate(
    id_: Id,
    overlap_hours: Annotated[
        float, typer.Option(min=0, max=720, help="How long the old secret signs too.")
    ] = 24,
    json: Json = False,
) -> None:
    """Creates a new secret and prints it; the old one stays valid for a while."""
    endpoint = run_async(_rotate(id_, overlap_hours))
    show(endpoint, json, lambda: print(endpoint.secret))


async def _rotate(id_: UUID, overlap_hours: float) -> Any:
    from opilio.contracts.webhooks import SecretRotation

    async with open_opilio_for_cli() as opilio:
        rotation = SecretRotation(overlap_hours=overlap_hours)
        return await opilio.webhooks.rotate_secret(id_, rotation, actor=actor())


@app.command()
def delete(id_: Id, json: Json = False) -> None:
    """Deletes a webhook and its pending deliveries."""
    run_async(_delete(id_))
    show({"id": str(id_), "deleted": True}, json, lambda: print("deleted"))


async def _delete(id_: UUID) -> None:
    async with open_opilio_for_cli() as opilio:
        await opilio.webhooks.delete(id_, actor=actor())


async def _ask(question: str, *args: Any, **named: Any) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await getattr(opilio.webhooks, question)(*args, **named)
