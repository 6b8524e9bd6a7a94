"""`opilio recrawl` as a person runs it."""

import asyncio
import gzip
import json
from pathlib import Path
from random import Random

import asyncpg
import pytest

from opilio.crawl.adaptive.simulation import replay as replaying
from opilio.crawl.adaptive.simulation.compare import RULES
from opilio.crawl.adaptive.simulation.peers import Uniform
from opilio.crawl.adaptive.simulation.trace import Line, from_lines, read
from tests.cli.conftest import Command


def write_trace(path: Path, pages: int = 300, days: int = 60) -> Path:
    """A third each of pages that change daily, monthly and never; the first change is that of a page of its own."""
    random = Random(4)
    lines = [{"url": "https://a.example/first", "importance": 1, "changes": [0, days * 86400]}]
    for page in range(pages):
        rate = (1.0, 1 / 30, 0.0)[page % 3]
        changes, now = [], 0.0
        while rate and (now := now + random.expovariate(rate)) < days:
            changes.append(int(now * 86400))
        lines.append(
            {"url": f"https://a.example/{page}", "importance": 1 + 20 * (page % 7 == 0), "changes": changes}
        )
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(body) if path.suffix == ".gz" else body)
    return path


def test_it_works(opilio_process: Command, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.jsonl.gz")
    done = opilio_process("recrawl", "simulate", str(trace), "--budget", "0.3", "--warm-up", "15", "--json")
    assert done.code == 0, done.err
    found = done.json
    assert list(found) == ["pages", "changes", "days", "budget", "warm_up_days", "policies"]
    assert (found["pages"], found["days"], found["budget"], found["warm_up_days"]) == (301, 60.0, 0.3, 15.0)
    assert list(found["policies"]) == ["uniform", "priority", "stormcrawler", "nutch", "adaptive", "oracle"]
    for score in found["policies"].values():
        assert list(score) == ["freshness", "staleness", "delay_days", "crawls"]
        assert score["freshness"] + score["staleness"] == pytest.approx(1)
    assert len({score["crawls"] for score in found["policies"].values()}) == 1
    by_freshness = sorted(found["policies"], key=lambda name: -found["policies"][name]["freshness"])
    assert by_freshness[:2] == ["oracle", "adaptive"]


def test_a_person_reads_a_table(opilio_process: Command, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.jsonl", pages=60)
    done = opilio_process("recrawl", "simulate", str(trace), "--budget", "0.5")
    assert done.code == 0, done.err
    assert "stormcrawler" in done.out
    assert "0.5 crawls per page and day" in done.out


@pytest.mark.parametrize(("name", "starts"), [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
def test_a_plot(opilio_process: Command, tmp_path: Path, name: str, starts: bytes) -> None:
    trace = write_trace(tmp_path / "trace.jsonl", pages=60)
    done = opilio_process(
        "recrawl", "simulate", str(trace), "--budget", "0.5", "--plot", str(tmp_path / name)
    )
    assert done.code == 0, done.err
    assert (tmp_path / name).read_bytes().startswith(starts)


@pytest.mark.parametrize(
    ("body", "words", "says"),
    [
        ('{"url": "https://a.example/", "changes": "x"}', (), "line 1 is no page of a trace"),
        (
            '{"url": "https://a.example/", "changes": [5], "importance": 0}',
            (),
            "importance must be greater than 0",
        ),
        ('{"url": "https://a.example/", "changes": [5]}', (), "at least two changes"),
        (
            '{"url": "https://a.example/", "changes": [5, 864005]}',
            ("--budget", "500"),
            "crawls per page and day",
        ),
        (
            '{"url": "https://a.example/", "changes": [5, 864005]}',
            ("--warm-up", "11"),
            "leaves nothing",
        ),
        (
            '{"url": "https://a.example/", "changes": [5, 864005]}',
            ("--plot", "x.pdf"),
            "written as .png or .svg",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    opilio_process: Command, tmp_path: Path, body: str, words: tuple[str, ...], says: str
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(body)
    done = opilio_process("recrawl", "simulate", str(trace), "--budget", "0.5", *words)
    assert done.code == 1
    assert says in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_trace_that_was_cut_off(opilio_process: Command, tmp_path: Path) -> None:
    whole = write_trace(tmp_path / "trace.jsonl.gz")
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole.read_bytes()[:-200])
    done = opilio_process("recrawl", "simulate", str(cut), "--budget", "0.5")
    assert done.code == 1
    assert "cut.jsonl.gz is damaged" in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_compressed_trace_is_known_by_its_content(tmp_path: Path) -> None:
    named = tmp_path / "trace"
    named.write_bytes(write_trace(tmp_path / "trace.jsonl.gz").read_bytes())
    assert read(named).urls == read(tmp_path / "trace.jsonl.gz").urls


def visited(database_url: str, visits: int = 12) -> None:
    """A visit every hour: the first policy has changed at each, the second never."""

    async def work() -> None:
        connection = await asyncpg.connect(database_url)
        await connection.execute(
            "insert into result (result_id, job_id, policy_id, bot_id, crawled_at)"
            " select opilio_uuid7(), opilio_uuid7(), policy_id, 'b', now() - n * interval '1 hour'"
            f" from policy, generate_series(1, {visits}) n"
        )
        await connection.execute(
            "insert into value_change (policy_id, job_id, field, old, new, at)"
            " select r.policy_id, r.job_id, 'price', '1', '2', r.crawled_at from stored_result r"
            " join policy p using (policy_id) where p.url like '%lively'"
        )
        await connection.close()

    asyncio.run(work())


def test_a_plan_says_what_would_change_and_why(opilio_command: Command, database_url: str) -> None:
    for name in ("lively", "still"):
        assert opilio_command("policies", "add", f"https://a.example/{name}", "--every", "1h").code == 0
    assert "nothing to learn from" in opilio_command("recrawl", "plan").err
    visited(database_url)
    read = opilio_command("recrawl", "plan")
    assert read.code == 0, read.err
    assert "2 policies, 48.0 crawls a day" in read.out
    assert "a fixed schedule needs" in read.out
    assert "https://a.example/still" in read.out.partition("crawled less")[2].partition("crawled more")[0]
    found = opilio_command("recrawl", "plan", "--budget", "10", "--json").json
    assert found["crawls_per_day"] == pytest.approx(10, rel=0.05)
    assert {page["url"] for page in found["less"]} >= {"https://a.example/still"}
    assert opilio_command("recrawl", "plan", "--host", "b.example", "--json").json is None


def test_the_status_of_the_budgets(opilio_command: Command) -> None:
    assert "no adaptive policies" in opilio_command("recrawl", "status").err
    opilio_command("policies", "add", "https://a.example/", "--every", "6h", "--schedule", "adaptive")
    (pool,) = opilio_command("recrawl", "status", "--json").json
    assert (pool["pool"], pool["budget_per_day"], pool["costly"]) == ("", None, [])
    read = opilio_command("recrawl", "status")
    assert read.code == 0, read.err
    assert "(fleet)" in read.out


def brought_forward(database_url: str) -> None:
    async def work() -> None:
        connection = await asyncpg.connect(database_url)
        await connection.execute("update crawl_pool set budget_per_day = 4, price = 1")
        await connection.execute("update policy_due set pool = '', due_at = now()")
        await connection.execute(
            "update policy_state set last_success_at = now() - interval '1 day', interval_days = 5,"
            " next_run_at = now(), brought_forward_at = now()"
        )
        await connection.close()

    asyncio.run(work())


def test_why_says_that_a_page_was_brought_forward(opilio_command: Command, database_url: str) -> None:
    added = opilio_command("policies", "add", "https://a.example/", "--schedule", "adaptive", "--json").json
    brought_forward(database_url)
    said = opilio_command("policies", "why", added["id"])
    assert "brought forward because other pages of its folder changed" in " ".join(said.out.split()), said.out


def test_a_missing_file(opilio_process: Command) -> None:
    done = opilio_process("recrawl", "simulate", "nowhere.jsonl", "--budget", "0.5")
    assert done.code == 1
    assert "nowhere.jsonl cannot be read" in done.err


def test_freshness_and_delay_are_exact() -> None:
    """One page, one crawl a day at noon, one change at 18:00 on day 3: stale for 18 hours of ten days."""
    trace = from_lines(
        [
            Line("https://a.example/", [0.0, 3.75 * 86400]),
            Line("https://b.example/", [10 * 86400.0], importance=1e-9),
        ]
    )
    scored = replaying.replay(trace, RULES["uniform"](trace, 1.0), budget=1.0)
    visits = []

    class Watched(Uniform):
        def visited(self, page, now, gap, changed):
            if page == 0:
                visits.append(now)
            return super().visited(page, now, gap, changed)

    replaying.replay(trace, Watched(trace, 1.0), budget=1.0)
    seen = next(now for now in visits if now >= 3.75)
    assert scored.delay_days == pytest.approx(seen - 3.75, abs=1e-6)
    assert scored.staleness == pytest.approx((visits[0] + seen - 3.75) / 10, abs=1e-6)
