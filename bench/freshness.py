"""Weighted freshness of the adaptive schedule beside other rules, from a cold start and with the same crawl slots.

Synthetic worlds (seeds 2 to 4, days 60 to 90) at three budgets, then harder conditions, then a trace file if one is given:
`OPILIO_BENCH_TRACE=trace.jsonl.gz python -m bench freshness`. Each run is printed as it ends; the whole takes about 40
minutes of processor time, and some 15 more for a trace of 10,000 pages and two years. `OPILIO_BENCH_PROCESSES=1` leaves
the other processors alone.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import TypeVar

from bench import worlds
from bench.report import Table, progress
from opilio.crawl.adaptive import phase
from opilio.crawl.adaptive.change_rate import Rate
from opilio.crawl.adaptive.habit import Evidence
from opilio.crawl.adaptive.rule import Learnt, Terms, Visit, learn, plan
from opilio.crawl.adaptive.simulation.adaptive import Adaptive
from opilio.crawl.adaptive.simulation.compare import RULES as COMPARED
from opilio.crawl.adaptive.simulation.peers import Nutch, Oracle, Priority, StormCrawler, Uniform
from opilio.crawl.adaptive.simulation.replay import Conditions, replay
from opilio.crawl.adaptive.simulation.score import Score
from opilio.crawl.adaptive.simulation.trace import Trace, read

SEEDS, BUDGETS, WARM_UP = (2, 3, 4), (0.1, 0.3, 1.0), 60.0
GOALS = {0.1: (0.955, 0.975), 0.3: (0.98, 1.0), 1.0: (0.99, 1.0)}
TRACE_GOALS = {0.02: 0.72, 0.1: 0.66}
RULES = ("uniform", "priority", "stormcrawler", "nutch", "adaptive v1", "adaptive v2", "oracle")
ALONE = "adaptive, siblings apart"
One, Found = TypeVar("One"), TypeVar("Found")
Run = tuple[str, int, float, str]  # rule, seed, budget, scenario
Replay = tuple[str, str, float]  # trace, rule, budget


@lru_cache(maxsize=2)
def _world(seed: int, scenario: str) -> worlds.World:
    return worlds.make(
        seed, zipf=0.0 if scenario == "equal weights" else 0.8, drift=0.3 if scenario == "drift" else 0.0
    )


def freshness(run: Run) -> float:
    rule, seed, budget, scenario = run
    world = _world(seed, scenario)
    trace, limits = world.trace, world.host_limits(budget)
    conditions = Conditions(
        failures=0.05 if scenario == "failures" else 0.0,
        noisy=frozenset(range(0, len(trace.urls), 20)) if scenario == "hash noise" else frozenset(),
        host_limits=limits,
        fill_idle=False,
        seed=seed,
    )
    made = {
        "uniform": lambda: Uniform(trace, budget),
        "priority": lambda: Priority(trace, budget),
        "stormcrawler": lambda: StormCrawler(trace, budget),
        "nutch": lambda: Nutch(trace, budget),
        "adaptive v1": lambda: Adaptive(trace, budget, limits=limits),
        "adaptive v2": lambda: Adaptive(trace, budget, limits=limits, daily_phase=True),
        "oracle": lambda: Oracle(trace, budget, world.rates, limits=limits, redrawn=world.redrawn),
    }
    start = 50.0 if scenario == "drift" else WARM_UP
    return replay(trace, made[rule](), budget=budget, warm_up=start, conditions=conditions).freshness


def runs() -> Iterator[Run]:
    for seed in SEEDS:
        for budget in BUDGETS:
            yield from ((rule, seed, budget, "base") for rule in RULES)
        for scenario in ("failures", "hash noise"):
            yield from ((rule, seed, 0.3, scenario) for rule in ("adaptive v1", "adaptive v2"))
        yield from ((rule, seed, 0.3, "drift") for rule in ("adaptive v1", "adaptive v2", "oracle"))
        peers = ("uniform", "stormcrawler", "nutch")
        for budget in BUDGETS:
            yield from (
                (rule, seed, budget, "equal weights") for rule in (*peers, "adaptive v1", "adaptive v2")
            )


async def main() -> Table:
    found = every(freshness, list(runs()), "{:.5f}".format)
    table = table_of(found)
    for name, hours in (("v1", None), ("v2", phase.UNKNOWN)):
        table.goal(f"one result, {name}, µs", microseconds(hours), at_most=50)
    if path := os.environ.get("OPILIO_BENCH_TRACE"):
        rules = (*COMPARED, ALONE)
        todo = [(path, rule, budget) for budget in TRACE_GOALS for rule in rules]
        add_trace(table, every(replayed, todo, lambda score: f"staleness {score.staleness:.4f}"))
    return table


def every(
    work: Callable[[One], Found],
    todo: Sequence[One],
    shown: Callable[[Found], str],
    processes: int | None = None,
) -> dict[One, Found]:
    """What `work` finds for each, told as it is found; with one process, in this one."""
    found: dict[One, Found] = {}

    def tell(one: One, result: Found) -> None:
        found[one] = result
        progress(f"{len(found)}/{len(todo)} {one}: {shown(result)}")

    processes = processes or int(os.environ.get("OPILIO_BENCH_PROCESSES", "0")) or os.cpu_count()
    if processes == 1:
        for one in todo:
            tell(one, work(one))
        return found
    with ProcessPoolExecutor(processes) as pool:
        futures = {pool.submit(work, one): one for one in todo}
        for future in as_completed(futures):
            tell(futures[future], future.result())
    return found


def table_of(found: dict[Run, float]) -> Table:
    """The figures and their goals."""

    def ratio(
        rule: str, against: str, budget: float, scenario: str = "base", base: str | None = None
    ) -> float:
        """The mean of the ratios within each world."""
        return mean(
            found[rule, seed, budget, scenario] / found[against, seed, budget, base or scenario]
            for seed in SEEDS
        )

    table = Table(
        f"Weighted freshness, mean of {len(SEEDS)} worlds of {worlds.PAGES:,} pages, days 60 to 90",
        ("rule", *(f"{budget:g}/page/day" for budget in BUDGETS), *(f"of oracle at {b:g}" for b in BUDGETS)),
    )
    for rule in RULES:
        values = [mean(found[rule, seed, budget, "base"] for seed in SEEDS) for budget in BUDGETS]
        shares = [ratio(rule, "oracle", budget) for budget in BUDGETS]
        table.add(rule, *(f"{value:.4f}" for value in (*values, *shares)))
    for budget in BUDGETS:
        for rule, least in zip(("adaptive v1", "adaptive v2"), GOALS[budget], strict=True):
            table.goal(f"{rule} of the oracle at {budget:g}", ratio(rule, "oracle", budget), at_least=least)
            table.goal(
                f"{rule} of StormCrawler at {budget:g}", ratio(rule, "stormcrawler", budget), at_least=1.10
            )
            for peer in ("uniform", "stormcrawler", "nutch"):
                share = ratio(rule, peer, budget, "equal weights")
                table.goal(f"{rule} of {peer} at {budget:g}, equal weights", share, at_least=1.0)
    for rule in ("adaptive v1", "adaptive v2"):
        table.goal(
            f"{rule}, 5 % failures, of none", ratio(rule, rule, 0.3, "failures", "base"), at_least=0.99
        )
        table.goal(
            f"{rule}, 5 % hash noise, of none", ratio(rule, rule, 0.3, "hash noise", "base"), at_least=0.98
        )
        table.goal(f"{rule}, 30 % drift, of the oracle", ratio(rule, "oracle", 0.3, "drift"), at_least=0.96)
    return table


def microseconds(hours: Evidence | None, rounds: int = 20_000) -> float:
    """What learning from a result and planning the next visit costs."""
    prior, terms, learnt = Rate(0.3, 1.0), Terms(1.0, 0.2, 0.01, 30.0), Learnt(hours=hours)
    began = time.process_time()
    for step in range(rounds):
        now = step * 0.7
        learnt = learn(learnt, prior, Visit(now - 0.7, now, step % 3 == 0))
        plan(learnt, prior, terms, now, (0.5, 0.5), changed=step % 3 == 0)
    return (time.process_time() - began) / rounds * 1e6


@lru_cache(maxsize=1)
def _read(path: str) -> Trace:
    return read(Path(path))


def replayed(run: Replay) -> Score:
    path, rule, budget = run
    trace = _read(path)
    made = (
        Adaptive(trace, budget, daily_phase=True, together=False)
        if rule == ALONE
        else COMPARED[rule](trace, budget)
    )
    return replay(trace, made, budget=budget, warm_up=min(120.0, 0.15 * trace.days))


def add_trace(table: Table, found: dict[Replay, Score]) -> None:
    """The goals of a trace: staleness beside a uniform schedule, and without what siblings tell."""
    for (path, rule, budget), score in found.items():
        table.notes.append(
            f"{Path(path).name} at {budget:g}: {rule} staleness {score.staleness:.4f}, delay {score.delay_days:.2f} d"
        )
        if rule != "adaptive":
            continue
        for against, most in (("uniform", TRACE_GOALS[budget]), (ALONE, 1.0)):
            table.goal(
                f"{Path(path).name} at {budget:g}: staleness of {against}",
                score.staleness / found[path, against, budget].staleness,
                at_most=most,
            )
