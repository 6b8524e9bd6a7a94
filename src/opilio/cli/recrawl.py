"""`opilio recrawl`: the adaptive schedule tried on a history of changes."""

from pathlib import Path
from typing import Annotated

import typer

from opilio.cli.output import Json, note, print_json, print_table

app = typer.Typer(no_args_is_help=True, help="The adaptive schedule: replay a history before you rely on it.")


@app.callback()
def _group() -> None:
    """Keeps `simulate` a command of its own while it is the only one."""


@app.command()
def simulate(
    trace: Annotated[
        Path, typer.Argument(help="JSON lines {url, importance, changes: [unix seconds]}; .gz is read, too.")
    ],
    budget: Annotated[float, typer.Option(help="Crawls per page and day.")],
    warm_up: Annotated[
        float | None,
        typer.Option(help="Days at the start that are not scored; default: 15 % of the history."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Writes freshness over time to a .png or .svg file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Replay a history of page changes through the adaptive rule and others, with the same number of crawls."""
    from opilio.crawl.adaptive.simulation import plot as plotting
    from opilio.crawl.adaptive.simulation.compare import compare
    from opilio.crawl.adaptive.simulation.trace import read

    if plot:
        plotting.check(plot)
    found = compare(read(trace), budget, warm_up, progress=lambda name: note(f"replaying {name}"))
    if plot:
        plotting.write(found, plot)
        note(f"plot: {plot}")
    scores = {
        name: {field: getattr(score, field) for field in ("freshness", "staleness", "delay_days", "crawls")}
        for name, score in found.policies.items()
    }
    if as_json:
        fields = {
            name: getattr(found, name) for name in ("pages", "changes", "days", "budget", "warm_up_days")
        }
        print_json(fields | {"policies": scores})
        return
    print(
        f"{found.pages:,} pages, {found.changes:,} changes in {found.days:.0f} days; "
        f"{found.budget:g} crawls per page and day, scored after {found.warm_up_days:.0f} days"
    )
    print_table(
        ("rule", "freshness", "staleness", "of uniform", "mean delay, days", "crawls"),
        [
            (
                name,
                f"{score['freshness']:.4f}",
                f"{score['staleness']:.4f}",
                f"{score['staleness'] / scores['uniform']['staleness']:.2f}"
                if scores["uniform"]["staleness"]
                else "-",
                f"{score['delay_days']:.2f}",
                score["crawls"],
            )
            for name, score in scores.items()
        ],
    )
