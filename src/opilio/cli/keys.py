"""`opilio keys`: what programs show to the management API."""

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer

from opilio import audit
from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.output import Json, print_table, show

app = typer.Typer(no_args_is_help=True, help="What programs show to the management API.")


class Scope(StrEnum):
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


@app.command()
def create(
    name: Annotated[str, typer.Option(help="For whom or what.")],
    scope: Annotated[Scope, typer.Option(help="What it may do.")] = Scope.READ,
    json: Json = False,
) -> None:
    """Makes an API key and prints it alone; it is never shown again."""
    key_id, secret = run_async(_create(name, scope))
    show({"id": key_id, "name": name, "scope": scope, "key": secret}, json, lambda: print(secret))


async def _create(name: str, scope: str) -> tuple[UUID, str]:
    async with open_opilio_for_cli() as opilio:
        made = await opilio.credentials.new_key(name, scope)
        await audit.record(opilio.database, actor(), "key.create", name, {"scope": scope})
        return made


@app.command("list")
def list_(json: Json = False) -> None:
    """Lists the keys, never their secrets."""
    rows = run_async(_list())
    columns = ("id", "name", "scope", "created_at", "revoked_at")
    show(
        {"items": rows, "next_cursor": None},
        json,
        lambda: print_table(columns, ([row[name] for name in columns] for row in rows), "no keys"),
    )


async def _list() -> list[dict[str, Any]]:
    async with open_opilio_for_cli() as opilio:
        return [
            {"id": row["key_id"], **{k: v for k, v in row.items() if k != "key_id"}}
            for row in await opilio.credentials.keys()
        ]


@app.command()
def revoke(key: Annotated[str, typer.Argument(help="Its id or its name.")], json: Json = False) -> None:
    """Makes a key worthless, at once."""
    count = run_async(_revoke(key))
    show({"key": key, "revoked": count}, json, lambda: print(f"{count} revoked"))


async def _revoke(key: str) -> int:
    async with open_opilio_for_cli() as opilio:
        count = await opilio.credentials.revoke_key(key)
        await audit.record(opilio.database, actor(), "key.revoke", key)
        return count
