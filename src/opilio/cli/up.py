"""`opilio up`: starts every role with an embedded database."""

from typing import TYPE_CHECKING, Annotated

import typer

from opilio.cli.context import run_async, settings
from opilio.cli.output import Json, print_json

if TYPE_CHECKING:
    from opilio.runtime.up import Ready

app = typer.Typer(add_completion=False)


@app.command()
def up(
    host: Annotated[str | None, typer.Option(help="Address to listen on; default 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to listen on; default 8000.")
    ] = None,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo/--no-demo", help="Start a demo shop and a bot that crawls it (on a new data directory)."
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Starts every role in one process tree with an embedded database, until Ctrl-C."""
    from dataclasses import asdict

    from opilio.runtime.logging import configure_logging
    from opilio.runtime.up import up as run

    wanted = settings(host=host, port=port)
    configure_logging(wanted)

    def announce(ready: "Ready") -> None:
        if json:
            print_json(asdict(ready))
        else:
            print(_start_message(ready), flush=True)

    run_async(run(wanted, demo=demo, announce=announce))


def _start_message(ready: "Ready") -> str:
    address = ready.login_url or ready.url
    lines = ["", "Opilio is up.", "", f"  Dashboard  {address}"]
    if ready.login_url:
        lines.append("             this login link works once, within 30 minutes; you choose a password")
    if ready.bot_token:
        lines += [f"  Bot token  {ready.bot_token}", f"             for the bot {ready.bot_id}"]
    else:
        lines.append("  Bot token  run opilio bots token BOT_ID")
    return "\n".join([*lines, f"  Data       {ready.data_dir}", "", "Ctrl-C stops it.", ""])
