"""`opilio backup`: the database and the stored pages into a folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opilio.cli.context import run_async, settings
from opilio.cli.output import Json, note, show

if TYPE_CHECKING:
    from opilio.runtime.backup import Manifest

app = typer.Typer()


@app.command()
def backup(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    blobs: Annotated[
        bool,
        typer.Option(
            help="Copy the objects of OPILIO_BLOBS_URL too; leave it out if the bucket has its own backup."
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Backs up the database and the stored pages into a folder; Opilio may go on running."""
    from opilio.runtime.backup import back_up

    show_manifest(run_async(back_up(settings(), folder, blobs=blobs)), json, f"is in {folder}")


def show_manifest(manifest: "Manifest", json: bool, done: str) -> None:
    objects = (
        "no objects" if manifest.blobs is None else f"{manifest.blobs} objects ({manifest.blob_bytes} bytes)"
    )
    said = (
        f"{sum(manifest.rows.values())} rows of {len(manifest.rows)} tables at revision {manifest.revision}"
    )
    show(manifest, json, lambda: note(f"{said} and {objects}: the backup {done}"))
