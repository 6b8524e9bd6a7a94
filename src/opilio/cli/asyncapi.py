"""`opilio asyncapi`: the document of the messages."""

import typer

from opilio.cli.output import Json

app = typer.Typer()


@app.command()
def asyncapi(json: Json = False) -> None:
    """Prints the AsyncAPI document."""
    import sys

    import msgspec

    from opilio.cli.context import settings
    from opilio.delivery.asyncapi import document

    del json  # it is JSON either way
    sys.stdout.write(
        msgspec.json.format(msgspec.json.encode(document(settings().topology)), indent=2).decode() + "\n"
    )
