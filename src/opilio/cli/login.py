"""`opilio login`: a way in, for whoever may run commands here."""

from typing import Annotated

import typer

from opilio import audit
from opilio.cli.context import actor, open_opilio_for_cli, run_async, settings
from opilio.cli.output import Json, note, show

app = typer.Typer(add_completion=False)


@app.command()
def login(name: Annotated[str, typer.Option(help="The operator.")] = "admin", json: Json = False) -> None:
    """Prints a link that logs in once, within 30 minutes, and lets a password be chosen."""
    link = run_async(_link(name))
    show({"login_url": link}, json, lambda: print(link))


async def _link(name: str) -> str:
    from opilio.runtime.instance_file import find_instance, url_of

    wanted = settings()
    running = find_instance(wanted.data_dir)
    if running is None and wanted.embedded:
        note("Opilio does not run; start it with `opilio up`, then open the link")
    async with open_opilio_for_cli() as opilio:
        secret = await opilio.credentials.login_link(name)
        await audit.record(opilio.database, actor(), "login.link", name)
    return f"{running.url if running else url_of(wanted)}/login/{secret}"
