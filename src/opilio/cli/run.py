"""`opilio run`: runs one or more roles."""

import gc
import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from opilio.cli.context import settings
from opilio.errors import OpilioError

if TYPE_CHECKING:
    from opilio.runtime.settings import Settings

app = typer.Typer(add_completion=False)


class Role(StrEnum):
    API = "api"
    SCHEDULER = "scheduler"
    DELIVERY = "delivery"
    COLLECTOR = "collector"
    ANALYTICS = "analytics"


@app.command()
def run(
    roles: Annotated[
        list[Role],
        typer.Argument(
            metavar="ROLE...", help="Roles to run: api, scheduler, delivery, collector, analytics."
        ),
    ],
    host: Annotated[str | None, typer.Option(help="Address that the API listens on (OPILIO_HOST).")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port that the API listens on (OPILIO_PORT).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Log JSON lines to stdout.")] = False,
) -> None:
    """Runs roles in this process until Ctrl-C or SIGTERM; OPILIO_METRICS_PORT serves metrics and health."""
    import tempfile
    from pathlib import Path

    from opilio.runtime.logging import configure_logging
    from opilio.runtime.metrics_dir import SHARED_FOLDER, share_counters
    from opilio.runtime.processes import SHARED_PORT, require_free_port

    wanted = settings(host=host, port=port, log_format="json" if json else None)
    configure_logging(wanted, sys.stdout if json else sys.stderr)
    names = list(dict.fromkeys(role.value for role in roles))
    if "api" in names and SHARED_PORT not in os.environ:
        require_free_port(wanted.host, wanted.port)
    if "api" in names and wanted.api_processes > 1 and SHARED_FOLDER not in os.environ:
        with tempfile.TemporaryDirectory(prefix="opilio-metrics-") as folder:
            share_counters(Path(folder))  # before anything imports the metrics
            _run(wanted, names)
    else:
        _run(wanted, names)


def _run(wanted: "Settings", names: list[str]) -> None:
    import uvloop

    from opilio.runtime.processes import database_from_parent
    from opilio.runtime.roles import available
    from opilio.runtime.run_roles import load_roles, run_roles

    missing = [name for name in names if name not in available()]
    if missing:
        raise OpilioError(
            f"this installation has no role {', '.join(missing)}; it has {', '.join(available())}"
        )
    gc.disable()  # what is loaded stays: to look for garbage in it, again and again, took a tenth of the start
    try:
        load_roles(wanted, names)
    finally:
        gc.freeze()
        gc.enable()
    uvloop.run(run_roles(wanted.with_values(**database_from_parent()), names))
