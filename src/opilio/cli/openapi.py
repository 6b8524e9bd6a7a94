"""`opilio openapi`: prints the OpenAPI document."""

import typer

from opilio.cli.output import Json

app = typer.Typer(add_completion=False)


@app.command()
def openapi(json: Json = False) -> None:
    """Prints the OpenAPI document."""
    import sys
    from importlib import import_module

    import msgspec

    del json  # the output is always JSON
    document = import_module("opilio.web.openapi").document()
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")
