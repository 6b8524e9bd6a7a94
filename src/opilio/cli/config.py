"""`opilio config`: the settings in effect."""

import typer

from opilio.cli.context import settings
from opilio.cli.output import Json, print_table
from opilio.cli.output import show as show_value

app = typer.Typer(no_args_is_help=True, help="Show the settings in effect.")


@app.callback()
def config() -> None:
    """Makes Typer keep `show` as a subcommand although it is the only one."""


@app.command()
def show(json: Json = False) -> None:
    """Shows every setting, its value with secrets masked, and where it was set."""
    from dataclasses import asdict

    from opilio.runtime.setting_sources import origins

    found = origins(settings())
    show_value(
        {"settings": [asdict(origin) for origin in found]},
        json,
        lambda: print_table(("setting", "value", "from"), ([o.name, o.value, o.source] for o in found)),
    )
