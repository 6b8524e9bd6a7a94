"""`opilio login`: login links for operators."""

from typing import TYPE_CHECKING, Annotated

import typer

from opilio.cli.context import actor, open_opilio_for_cli, run_async, settings
from opilio.cli.output import Json, note, show

if TYPE_CHECKING:
    from opilio.runtime.bootstrap import Opilio

app = typer.Typer(add_completion=False)


@app.command()
def login(
    name: Annotated[str, typer.Option(help="The operator's name.")] = "admin",
    create: Annotated[bool, typer.Option("--create", help="Add the operator if there is none.")] = False,
    role: Annotated[
        str, typer.Option(help="With --create, the role of a new operator: viewer, operator or admin.")
    ] = "viewer",
    json: Json = False,
) -> None:
    """Prints a login link that works once, within 30 minutes, and lets the operator choose a password."""
    link = run_async(_link(name, role if create else None))
    show({"login_url": link}, json, lambda: print(link))


async def _link(name: str, role: str | None) -> str:
    from opilio.runtime.instance_file import find_instance, url_of

    wanted = settings()
    instance = find_instance(wanted.data_dir)
    if instance is None and wanted.embedded:
        note("Opilio is not running; start it with `opilio up`, then open the link")
    async with open_opilio_for_cli() as opilio:
        secret = await _secret(opilio, name, role)
    return f"{instance.url if instance else url_of(wanted)}/login/{secret}"


async def _secret(opilio: "Opilio", name: str, role: str | None) -> str:
    if role is not None:
        return await opilio.operators.invite(name, role, by=actor())
    return await opilio.operators.login_link(name, by=actor())
