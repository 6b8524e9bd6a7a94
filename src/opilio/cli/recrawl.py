"""`opilio recrawl`: the adaptive schedule: what it does, would do, and would have done."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opilio.cli.context import open_opilio_for_cli, run_async
from opilio.cli.output import Json, note, print_json, print_table, show

if TYPE_CHECKING:
    from opilio.crawl.adaptive.forecast import Forecast, PageForecast
    from opilio.insights.recrawl import Pool

app = typer.Typer(
    no_args_is_help=True, help="The adaptive schedule: what it does, would do, and would have done."
)


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


@app.command()
def plan(
    host: Annotated[str | None, typer.Option(help="Only policies of this host.")] = None,
    budget: Annotated[
        float | None, typer.Option(min=0.001, help="Crawls a day; default: what the frequencies cost today.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what switching fixed policies to adaptive would change, from their own history; nothing is changed."""

    async def work() -> "Forecast | None":
        async with open_opilio_for_cli() as opilio:
            return await opilio.recrawl.plan(host=host, budget=budget)

    found = run_async(work())
    if found is None and not as_json:
        note("no fixed policy was visited twice yet; there is nothing to learn from")
        return
    show(found, as_json, lambda: _print_plan(found))


def _print_plan(found: "Forecast | None") -> None:
    assert found is not None
    print(f"{found.pages:,} policies, {found.crawls_per_day:,.1f} crawls a day")
    _print_gain(found)
    _print_pages("crawled less", found.less)
    _print_pages("crawled more", found.more)


def _print_gain(found: "Forecast") -> None:
    print(
        f"expected freshness {found.freshness_fixed:.1%} fixed, {found.freshness_adaptive:.1%} adaptive; "
        f"a fixed schedule needs {found.crawls_saved_per_day:,.0f} more crawls a day for that"
    )


def _print_pages(title: str, pages: "list[PageForecast]") -> None:
    if pages:
        print_table(
            (title, "every … days", "adaptive", "why"),
            [(page.url, f"{page.base_days:.3g}", f"{page.adaptive_days:.3g}", page.why) for page in pages],
        )


@app.command()
def status(as_json: Json = False) -> None:
    """Show the budgets of adaptive policies: use, price, expected freshness, crawls saved."""

    async def work() -> "list[Pool]":
        async with open_opilio_for_cli() as opilio:
            return await opilio.recrawl.pools()

    pools = run_async(work())
    show(pools, as_json, lambda: _print_pools(pools))


def _print_pools(pools: "list[Pool]") -> None:
    print_table(
        ("pool", "policies", "budget a day", "demand a day", "price", "not worth it"),
        [
            (
                pool.pool or "(fleet)",
                pool.pages,
                "-" if pool.budget_per_day is None else f"{pool.budget_per_day:,.1f}",
                f"{pool.demand_per_day:,.1f}",
                "-" if pool.price is None else f"{pool.price:.4g}",
                pool.not_worth_it,
            )
            for pool in pools
        ],
        "no adaptive policies",
    )
    for pool in pools:
        if pool.forecast:
            _print_gain(pool.forecast)
