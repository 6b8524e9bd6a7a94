"""`opilio keys`: API keys for programs that call the management API."""

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer

from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.output import Json, print_table, show

app = typer.Typer(no_args_is_help=True, help="API keys for programs that call the management API.")


class Scope(StrEnum):
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


@app.command()
def create(
    name: Annotated[str, typer.Option(help="Who or what uses the key.")],
    scope: Annotated[Scope, typer.Option(help="What the key may do.")] = Scope.READ,
    json: Json = False,
) -> None:
    """Creates an API key and prints it; it is never shown again."""
    key_id, secret = run_async(_create(name, scope))
    show({"id": key_id, "name": name, "scope": scope, "key": secret}, json, lambda: print(secret))


async def _create(name: str, scope: str) -> tuple[UUID, str]:
    async with open_opilio_for_cli() as opilio:
        return await opilio.credentials.new_key(name, scope, by=actor())


@app.command("list")
def list_(json: Json = False) -> None:
    """Lists API keys without their secrets."""
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
def revoke(
    key: Annotated[str, typer.Argument(help="The id or the name of the key.")], json: Json = False
) -> None:
    """Revokes an API key at once."""
    count = run_async(_revoke(key))
    show({"key": key, "revoked": count}, json, lambda: print(f"{count} revoked"))


async def _revoke(key: str) -> int:
    async with open_opilio_for_cli() as opilio:
        return await opilio.credentials.revoke_key(key, by=actor())
