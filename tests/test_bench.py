"""Benches keep up with the code: each can be started, and those that are quick run in miniature."""

import importlib
from pathlib import Path

import pytest
from bench import freshness, raw, worlds
from bench.__main__ import BENCHES
from bench.databases import STATES, fill, run


@pytest.mark.parametrize("name", BENCHES)
def test_each_can_be_started(name: str) -> None:
    assert callable(importlib.import_module(f"bench.{name}").main)


@pytest.mark.parametrize("batch", [1, 10])
async def test_the_raw_statements_are_those_of_a_pull_and_a_submit(
    database_url: str, tmp_path: Path, batch: int
) -> None:
    await fill(database_url, 3_000, hosts=10, jobs=True)
    await run(database_url, STATES)
    assert raw.jobs_per_second(database_url, tmp_path, batch=batch, clients=1, seconds=1) > 0
    done = await run(database_url, "select count(*) from job_archive where status = $1", "done")
    assert done > 0


def test_freshness_in_a_small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    small = worlds.make(2, pages=400, days=70.0)
    monkeypatch.setattr(freshness, "_world", lambda *_: small)
    found = {
        rule: freshness.freshness((rule, 2, 0.3, "base")) for rule in ("uniform", "adaptive v2", "oracle")
    }
    assert found["uniform"] < found["adaptive v2"] * 0.95
    assert found["adaptive v2"] > found["oracle"] * 0.93
