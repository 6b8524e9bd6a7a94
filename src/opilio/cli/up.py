"""`opilio up`: everything at once, for a person who begins."""

from typing import TYPE_CHECKING, Annotated

import typer

from opilio.cli.context import run_async, settings
from opilio.cli.output import Json, print_json

if TYPE_CHECKING:
    from opilio.runtime.up import Ready

app = typer.Typer(add_completion=False)


@app.command()
def up(
    host: Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1 without it.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="8000 without it.")] = None,
    demo: Annotated[
        bool, typer.Option("--demo/--no-demo", help="A demo shop and a bot that watches it.")
    ] = True,
    json: Json = False,
) -> None:
    """Starts everything in one process tree, with a database of its own, until Ctrl-C."""
    from dataclasses import asdict

    from opilio.runtime.logging import configure_logging
    from opilio.runtime.up import up as run

    wanted = settings(host=host, port=port)
    configure_logging(wanted)

    def announce(ready: "Ready") -> None:
        if json:
            print_json(asdict(ready))
        else:
            print(_block(ready), flush=True)

    run_async(run(wanted, demo=demo, announce=announce))


def _block(ready: "Ready") -> str:
    door = ready.login_url or ready.url
    lines = ["", "Opilio is up.", "", f"  Dashboard  {door}"]
    if ready.login_url:
        lines.append("             works once, within 30 minutes, and lets you choose a password")
    if ready.bot_token:
        lines += [f"  Bot token  {ready.bot_token}", f"             for the bot {ready.bot_id}"]
    else:
        lines.append("  Bot token  opilio bots token BOT_ID makes one")
    return "\n".join([*lines, f"  Data       {ready.data_dir}", "", "Ctrl-C stops it.", ""])
