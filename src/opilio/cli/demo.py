"""`opilio demo`: the demo shop of `opilio up`."""

import typer

from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.output import Json, note, show

app = typer.Typer(no_args_is_help=True, help="The demo shop that `opilio up` starts.")


@app.callback()
def demo() -> None:
    """Makes Typer keep `remove` as a subcommand although it is the only one."""


@app.command()
def remove(json: Json = False) -> None:
    """Removes everything that the demo brought: policies, jobs, results, its project with its posts, its bot."""
    removed = run_async(_remove())
    show(
        {"removed": removed},
        json,
        lambda: note(f"{removed} policies of the demo were deleted; the demo will not start again"),
    )


async def _remove() -> int:
    from opilio.runtime.demo import remove_demo

    async with open_opilio_for_cli() as opilio:
        return await remove_demo(opilio, by=actor())
