"""Metrics: the specification's names, one definition each, figures from the database."""

import os
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from opilio import metrics
from opilio.contracts.policies import PolicyInput
from opilio.runtime import metrics_page

OTHERS = ("python_", "process_", "stamina_")  # what libraries count about themselves


def samples(page: bytes) -> dict[tuple, float]:
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


async def test_figures_come_from_the_database(opilio):
    await opilio.policies.create(PolicyInput(url="https://a.example/"))
    await opilio.policies.create(PolicyInput(url="https://b.example/", queue="js"))
    await opilio.scheduler.create_due()
    found = samples(await metrics_page.render(opilio.insights))
    assert found["queue_depth", "http"] == 1
    assert found["queue_depth", "js"] == 1
    assert found["jobs_active", "pending"] == 2
    assert found["policies_enabled",] == 2
    assert found["database_up",] == 1
    assert found["oldest_due_job_seconds",] >= 0


async def test_every_metric_is_exposed_with_its_meaning_and_no_other_is_ours(opilio):
    page = (await metrics_page.render(opilio.insights)).decode()
    for metric in (*metrics.COUNTED, *metrics.READ):
        assert f"# HELP {metric.exposed} {metric.meaning}" in page, metric.name
    assert "_created{" not in page
    assert "_created " not in page


async def test_every_metric_has_a_prefixed_name_and_the_bare_one_can_be_left_out(opilio):
    both = samples(await metrics_page.render(opilio.insights))
    assert both["opilio_policies_enabled",] == both["policies_enabled",]
    assert ("opilio_jobs_done_total",) in both
    prefixed = samples(await metrics_page.render(opilio.insights, bare_names=False))
    assert ("opilio_policies_enabled",) in prefixed
    assert {name for name, *_ in prefixed if not name.startswith(("opilio_", *OTHERS))} == set()


def test_the_names_of_the_specification():
    names = {metric.name for metric in metrics.ALL}
    assert names >= {
        "jobs_created", "jobs_done", "jobs_failed", "jobs_expired", "jobs_retried", "bot_pulls",
        "crawl_duration_seconds", "queue_depth", "oldest_due_job_seconds", "outbox_backlog", "retry_rate",
    }  # fmt: skip


async def test_the_database_is_asked_only_now_and_then(opilio, monkeypatch):
    await metrics_page.render(opilio.insights)
    await opilio.policies.create(PolicyInput(url="https://a.example/"))
    assert samples(await metrics_page.render(opilio.insights))["policies_enabled",] == 0
    monkeypatch.setattr(metrics_page, "_OLDEST_READING", -1)
    assert samples(await metrics_page.render(opilio.insights))["policies_enabled",] == 1


async def test_without_the_database_the_counters_still_come(opilio):
    await opilio.database.close()
    found = samples(await metrics_page.render(opilio.insights))
    assert found["database_up",] == 0
    assert ("jobs_done_total",) in found
    assert ("queue_depth", "http") not in found


@pytest.mark.parametrize(
    ("broken", "missing", "left"),
    [
        ("crawl_pool", "adaptive_policies", "jobs_active"),
        ("job_archive", "retry_rate", "adaptive_policies"),
    ],
)
async def test_a_group_that_fails_leaves_the_others(opilio, broken, missing, left):
    await opilio.policies.create(
        PolicyInput(url="https://a.example/", schedule="adaptive", labels={"pool": "x"})
    )
    await opilio.budgets.refit()
    await opilio.scheduler.create_due()
    async with opilio.database.session() as session:
        await session.connection.execute(f"alter table {broken} rename to gone")
    page = (await metrics_page.render(opilio.insights)).decode()
    exposed = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    assert missing not in exposed
    assert {left, "queue_depth", "database_up", "jobs_done_total"} <= exposed


@pytest.mark.parametrize("processes", [2])
def test_processes_that_share_a_folder_count_together(tmp_path, processes):
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    count = "from opilio import metrics; metrics.JOBS_DONE.inc(3)"
    for _ in range(processes):
        subprocess.run([sys.executable, "-c", count], env=env, check=True, timeout=60)
    tell = (
        "from opilio.runtime import metrics_page; from prometheus_client import generate_latest;"
        "print(generate_latest(metrics_page._counters()).decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", tell], env=env, check=True, timeout=60, capture_output=True, text=True
    )
    assert f"jobs_done_total {3.0 * processes}" in done.stdout


async def test_budgets_of_adaptive_policies(opilio):
    await opilio.policies.create(
        PolicyInput(url="https://a.example/", schedule="adaptive", labels={"pool": "x"})
    )
    await opilio.budgets.refit()
    found = samples(await metrics_page.render(opilio.insights))
    assert found["crawl_budget_per_day", "x"] == 1
    assert found["adaptive_policies", "x"] == 1
    assert found["crawl_price", "x"] > 0


def test_a_batch_is_observed_as_its_amounts_are() -> None:
    buckets = (0.1, 1.0, 10.0)
    one_by_one, at_once = (metrics.BatchHistogram(name, "x", registry=None, buckets=buckets) for name in "ab")
    amounts = [0.0, 0.1, 0.100001, 1.0, 9.9, 86_400.0]
    for amount in amounts:
        one_by_one.observe(amount)
    at_once.observe_all(amounts[:2])
    at_once.observe_all(amounts[2:])
    at_once.observe_all([])
    found, expected = (
        [(sample.name[1:], sample.labels, sample.value) for sample in next(iter(metric.collect())).samples]
        for metric in (at_once, one_by_one)
    )
    assert found == expected
    assert expected[-1][2] == sum(amounts)
