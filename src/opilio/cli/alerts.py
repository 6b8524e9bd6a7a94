"""`opilio alerts`: be told when a value crosses a limit or changes."""

from datetime import timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer

from opilio.cli import option_types
from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.output import Cursor, Json, Limit, print_page, show

app = typer.Typer(no_args_is_help=True, help="Alerts on prices, stock and other values.")
_COLUMNS = ("id", "name", "scope", "field", "when", "value", "currency", "enabled", "last_fired_at")


class When(StrEnum):
    BELOW = "below"
    ABOVE = "above"
    CHANGED = "changed"
    CHANGED_PERCENT = "changed_percent"
    BACK_IN_STOCK = "back_in_stock"


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise typer.BadParameter(f"{text!r} is not a number") from None


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="What the alert is called in events and lists.")],
    when: Annotated[When, typer.Option(help="The condition.")],
    field: Annotated[str, typer.Option(help="price, in_stock, title or data.<path>.")] = "price",
    value: Annotated[
        Decimal | None,
        typer.Option(
            parser=_number, metavar="NUMBER", help="The limit, or the percentage of changed_percent."
        ),
    ] = None,
    currency: Annotated[str | None, typer.Option(help="Only prices in this currency, such as USD.")] = None,
    policy: Annotated[
        UUID | None, typer.Option(parser=option_types.uuid, metavar="ID", help="Scope: one policy.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Scope: the policies of a host.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Scope: policies with this label, key=value. Repeatable.")
    ] = None,
    every_policy: Annotated[bool, typer.Option("--all", help="Scope: every policy.")] = False,
    cooldown: Annotated[
        timedelta,
        typer.Option(parser=option_types.duration, metavar="DURATION", help="Before it may fire again."),
    ] = "24h",  # type: ignore[assignment] # the parser makes it a timedelta
    disabled: Annotated[bool, typer.Option("--disabled", help="Kept, but not checked.")] = False,
    json: Json = False,
) -> None:
    """Adds a value alert and prints its id."""
    from msgspec import UNSET

    from opilio.contracts.alerts import AlertInput, AlertScope

    wanted = AlertInput(
        name=name,
        scope=AlertScope(
            policy_id=policy or UNSET,
            host=host or UNSET,
            labels=dict(option_types.label(text) for text in label) if label else UNSET,
            all=True if every_policy else UNSET,
        ),
        field=field,
        when=when.value,
        value=value,
        currency=currency,
        cooldown_hours=option_types.hours(cooldown),
        enabled=not disabled,
    )
    alert = run_async(_add(wanted))
    show(alert, json, lambda: print(alert.id))


async def _add(wanted: Any) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.alerts.create(wanted, actor())


@app.command("list")
def list_(limit: Limit = 50, cursor: Cursor = None, json: Json = False) -> None:
    """Lists value alerts, newest first."""
    page = run_async(_list(limit, cursor))
    show(page, json, lambda: print_page(page, _COLUMNS, "no alerts"))


async def _list(limit: int, cursor: str | None) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.alerts.page(limit=limit, cursor=cursor)


@app.command()
def remove(
    alert_id: Annotated[UUID, typer.Argument(parser=option_types.uuid, metavar="ID")], json: Json = False
) -> None:
    """Deletes a value alert."""
    run_async(_remove(alert_id))
    show({"id": str(alert_id), "status": "deleted"}, json, lambda: print(f"deleted {alert_id}"))


async def _remove(alert_id: UUID) -> None:
    async with open_opilio_for_cli() as opilio:
        await opilio.alerts.delete(alert_id, actor())
