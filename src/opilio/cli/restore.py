"""`opilio restore`: an empty database and object storage from a backup."""

from pathlib import Path
from typing import Annotated

import typer

from opilio.cli.backup import show_manifest
from opilio.cli.context import actor, run_async, settings
from opilio.cli.output import Json

app = typer.Typer()


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(help="The folder that `opilio backup` wrote.")], json: Json = False
) -> None:
    """Restores a backup into an empty database, and checks that every row and object arrived."""
    from opilio.runtime.backup import restore as work

    show_manifest(run_async(work(settings(), folder, by=actor())), json, "is restored and checked")
