"""`opilio doctor`: what is wrong, and what to do about it."""

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from opilio.cli.context import run_async
from opilio.cli.output import Json, show

if TYPE_CHECKING:
    from opilio.runtime.finding import Finding

app = typer.Typer(add_completion=False)
_MARK = {"ok": "ok  ", "warning": "note", "fault": "BAD "}


@app.command()
def doctor(json: Json = False) -> None:
    """Says in plain words what is wrong and what to do; exits 1 on a fault."""
    from opilio.runtime.doctor import examine

    # The finding says it, with what to do. The level holds for the loggers below it, too.
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    found = run_async(examine())
    well = all(finding.verdict != "fault" for finding in found)
    show({"ok": well, "findings": [asdict(finding) for finding in found]}, json, lambda: _print(found))
    if not well:
        raise typer.Exit(1)


def _print(found: "list[Finding]") -> None:
    for finding in found:
        print(f"{_MARK[finding.verdict]}  {finding.subject}: {finding.said}")
        if finding.remedy:
            print(f"      → {finding.remedy}")
