"""Benches keep up with the code: each can be started, and those that are quick run in miniature."""

import importlib
import re
import shutil
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from bench import adaptive_days, freshness, peers, raw, report, upgrade, worlds
from bench.__main__ import BENCHES
from bench.databases import fill, run


@pytest.mark.parametrize("name", BENCHES)
def test_each_can_be_started(name: str) -> None:
    assert callable(importlib.import_module(f"bench.{name}").main)


@pytest.mark.parametrize("batch", [1, 10])
async def test_the_raw_statements_are_those_of_a_pull_and_a_submit(
    database_url: str, tmp_path: Path, batch: int
) -> None:
    await fill(database_url, 20_000, hosts=10, jobs=True, crawled=True)  # more than one second does
    assert raw.jobs_per_second(database_url, tmp_path, batch=batch, clients=1, seconds=1) > 0
    done = await run(
        database_url, "select count(*) from job_archive where status = $1 and changed is null", "done"
    )
    assert done > 0
    assert await run(database_url, "select count(*) from value_change where $1", True) == 0


def test_freshness_in_a_small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    small = worlds.make(2, pages=400, days=70.0)
    monkeypatch.setattr(freshness, "_world", lambda *_: small)
    found = {
        rule: freshness.freshness((rule, 2, 0.3, "base")) for rule in ("uniform", "adaptive v2", "oracle")
    }
    assert found["uniform"] < found["adaptive v2"] * 0.95
    assert found["adaptive v2"] > found["oracle"] * 0.93


def test_the_table_of_freshness_holds_every_goal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = worlds.make(2, pages=25, days=62.0)
    monkeypatch.setattr(freshness, "SEEDS", (2,))
    monkeypatch.setattr(freshness, "_world", lambda *_: small)
    table = freshness.table_of(freshness.every(freshness.freshness, list(freshness.runs()), str, processes=1))
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        "".join(
            f'{{"url": "https://a.example/{page % 3}/{page}", "importance": {1 + page}, "changes":'
            f" [{page * 9_000}, {900_000 + page * 5_000}, 5000000]}}\n"
            for page in range(30)
        )
    )
    todo = [
        (str(trace), rule, budget)
        for budget in freshness.TRACE_GOALS
        for rule in ("uniform", "adaptive", freshness.ALONE)
    ]
    freshness.add_trace(table, freshness.every(freshness.replayed, todo, str, processes=1))
    wanted = {goal.what: goal.at_least or goal.at_most for goal in table.goals}
    for budget, least in ((0.1, (0.955, 0.975)), (0.3, (0.98, 1.0)), (1.0, (0.99, 1.0))):
        for rule, share in zip(("adaptive v1", "adaptive v2"), least, strict=True):
            assert wanted[f"{rule} of the oracle at {budget:g}"] == share
            assert wanted[f"{rule} of StormCrawler at {budget:g}"] == 1.10
            assert wanted[f"{rule} of nutch at {budget:g}, equal weights"] == 1.0
    assert wanted["adaptive v2, 5 % failures, of none"] == 0.99
    assert wanted["adaptive v2, 5 % hash noise, of none"] == 0.98
    assert wanted["adaptive v2, 30 % drift, of the oracle"] == 0.96
    assert wanted["trace.jsonl at 0.02: staleness of uniform"] == 0.72
    assert wanted["trace.jsonl at 0.1: staleness of uniform"] == 0.66
    assert wanted[f"trace.jsonl at 0.1: staleness of {freshness.ALONE}"] == 1.0
    assert len(table.rows) == len(freshness.RULES)


def test_the_processes_of_freshness_are_bounded_by_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPILIO_BENCH_PROCESSES", "1")
    here = []
    assert freshness.every(lambda one: here.append(one) or one, [1, 2], str) == {1: 1, 2: 2}
    assert here == [1, 2]  # in this process


async def test_adaptive_days_in_miniature(database_url: str) -> None:
    table = await adaptive_days.days_on(database_url, policies=30, days=1, settled_after=0)
    assert len(table.rows) == 1
    goals = {goal.what: goal.met for goal in table.goals}
    assert goals["accepted results that are not stored once"]
    assert goals["longest gap between visits, days"]


def test_a_table_is_put_into_its_block_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Before.\n\n<!-- bench: cost -->\n<!-- end -->\n\n<!-- bench: peers -->\nold\n<!-- end -->\n"
    )
    table = report.Table("Jobs", ("who", "jobs/s"))
    table.add("Opilio", 4_700.0)
    table.goal("beside a peer", 1.6, at_least=1.5)
    for name in ("cost", "peers", "peers"):  # again: the block is replaced, not repeated
        report.write_block(page, name, report.markdown(table, when="2030-01-01"))
    block = (
        "Jobs (2030-01-01):\n\n| who | jobs/s |\n| --- | ---: |\n| Opilio | 4,700 |\n\n"
        "- beside a peer: 1.600 (wanted ≥ 1.5) ✓\n"
    )
    assert page.read_text() == (
        f"Before.\n\n<!-- bench: cost -->\n\n{block}\n<!-- end -->\n\n<!-- bench: peers -->\n\n{block}\n<!-- end -->\n"
    )
    with pytest.raises(SystemExit, match="no block `<!-- bench: startup -->`"):
        report.write_block(page, "startup", "text")


def test_the_page_of_performance_has_a_block_for_each_bench_that_it_names() -> None:
    page = (Path(__file__).parents[1] / "docs/explanation/performance.md").read_text()
    command = re.search(r"python -m bench --write docs/explanation/performance.md (.*)", page)
    assert command
    blocks = re.findall(r"<!-- bench: (\w+) -->\n[^<]+\n<!-- end -->", page)
    assert sorted(blocks) == sorted(command[1].split())
    assert set(blocks) <= set(BENCHES)


async def test_upgrade_in_miniature(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, small in {"PAGES": 20, "ROUNDS": 3, "CARRIED_ROUNDS": 2, "ALONE_SECONDS": 0.1}.items():
        monkeypatch.setattr(upgrade, name, small)
    figures = await upgrade.measure(database_url)
    table = upgrade.report(figures)
    assert [row[0].split()[0] for row in table.rows] == ["nothing", "upgrade", "downgrade,"]
    assert {goal.at_most for goal in table.goals} == {1.0}
    assert all(figure.waits.write and figure.waits.read for figure in figures.values())


def test_an_upgrade_that_loses_something_is_told() -> None:
    with pytest.raises(RuntimeError, match="the count of rows differs from before"):
        upgrade.same("the count of rows", (1, 2, 2), (2, 2, 2))


async def test_pgqueuer_in_miniature(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PGQUEUER_JOBS", 50)
    monkeypatch.setattr(peers, "create_database", AsyncMock(return_value=database_url))
    assert await peers._pgqueuer(database_url, 2) > 0
    assert await run(database_url, "select count(*) from pgqueuer where $1", True) == 0


@pytest.mark.skipif(not shutil.which("beanstalkd"), reason="needs Debian's package beanstalkd")
def test_beanstalkd_in_miniature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "BEANSTALKD_JOBS", 50)
    assert peers._beanstalkd() > 0


def test_peers_are_judged_by_the_rounds_in_which_they_ran() -> None:
    rates = {
        peers.IN_BATCHES: [3_000.0, 3_000.0, 6_000.0],
        peers.MANY_BATCHES: [4_000.0, 4_000.0, 4_000.0],
        peers.ONE_BY_ONE: [400.0, 600.0, 400.0],
        peers.PGQUEUER: [1_000.0, 2_000.0, 1_000.0],
        peers.MANY_PGQUEUER: [2_000.0, 4_000.0, 4_000.0],
        peers.BEANSTALKD: [1_000.0, 1_000.0, 1_000.0],
    }
    goals = {goal.what: goal for goal in peers.report(rates).goals}
    assert goals["in batches, beside pgqueuer"].value == 3
    assert goals["in batches, beside pgqueuer"].met
    assert goals["the same, 16 bots"].value == 1
    assert not goals["the same, 16 bots"].met
    assert goals["one by one, beside beanstalkd"].value == 0.4
    assert not goals["one by one, beside beanstalkd"].met
