"""Every metric of Opilio, by name; docs/reference/metrics.md is made from here.

Counters live in the process; `opilio.runtime.metrics_page` reads the gauges from the database and renders both.
"""

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

_CRAWL_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

PREFIX = "opilio_"
disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: the name that the specification gives it, its kind and what it means."""

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def exposed(self) -> str:
        """Prometheus' own ending for counters."""
        return f"{self.name}_total" if self.kind == "counter" else self.name

    @property
    def prefixed(self) -> str:
        """The name that dashboards and alerts use: no other program's metric has it."""
        return with_prefix(self.exposed)


def with_prefix(name: str) -> str:
    return name if name.startswith(PREFIX) else f"{PREFIX}{name}"


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, "counter", meaning, labels)


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, "gauge", meaning, labels)


COUNTED = (
    _counter("jobs_created", "Jobs that the scheduler made because their policy was due."),
    _counter("jobs_done", "Jobs that ended with a result."),
    _counter("jobs_failed", "Jobs that ended without a result."),
    _counter("jobs_expired", "Locks whose TTL passed before a result came."),
    _counter("jobs_retried", "Crawls that failed or expired and will be tried again."),
    _counter("bot_pulls", "Pulls by bots, with or without jobs."),
    Metric("crawl_duration_seconds", "histogram", "How long crawls took, as bots report it."),
    _counter("loop_runs", "Rounds of background work.", "loop"),
    _counter("loop_errors", "Rounds of background work that failed and are tried again.", "loop"),
    _gauge("loop_last_success_timestamp_seconds", "When background work last succeeded.", "loop"),
    _gauge("opilio_role_up", "1 while a process runs this role.", "role"),
)
# Counted by `opilio.analytics.metrics`; listed here, so that one table has all.
ANALYSED = (
    _counter("events_received", "Batches that analytics took in.", "platform"),
    _counter("items_processed", "Items of batches that were analysed, error items included.", "platform"),
    _counter(
        "errors_by_code", "Error items, by code and category.", "platform", "error_code", "error_category"
    ),
    _gauge("success_rate", "Share of the items that were analysed.", "platform"),
    _gauge("error_rate", "Share of the items that were errors.", "platform"),
    Metric(
        "event_processing_duration",
        "histogram",
        "Seconds from a batch's message to its commit.",
        ("platform",),
    ),
    Metric("batch_fetch_duration", "histogram", "Seconds that fetching a batch took.", ("platform",)),
)
# Counted by `opilio.collector.metrics`.
COLLECTED = (
    _counter("collector_results", "Results processed, by effect.", "platform", "format", "effect"),
    _counter("collector_analyses", "Analysed batches processed.", "outcome"),
    _counter("contract_violations", "Results that break a consistency rule.", "rule"),
    _counter("collector_dead_letters", "Messages sent to the dead letters.", "queue"),
    _counter("collector_tasks_sent", "Tasks sent to crawlers.", "platform", "retry"),
    _counter("opilio_collector_projects_stalled", "Projects whose analysis stood still for too long."),
    _counter("collector_tasks_timed_out", "Tasks that timed out.", "platform"),
    Metric(
        "collector_result_delay_seconds",
        "histogram",
        "Seconds from emitted_at of a result until it was recorded.",
        ("platform",),
    ),
    Metric(
        "collector_task_delay_seconds",
        "histogram",
        "Seconds from emitted_at of a request until its task was sent.",
        ("platform",),
    ),
)
READ = (
    _gauge("queue_depth", "Jobs that a bot could get now.", "queue"),
    _gauge("jobs_active", "Jobs that wait (pending) or run (locked), counted up to 200,000.", "status"),
    _gauge("oldest_due_job_seconds", "For how long the oldest due policy or waiting job has been waiting."),
    _gauge("policies_due", "Policies that are due and have no job yet."),
    _gauge("policies_enabled", "Policies that are enabled."),
    _gauge("retry_rate", "Retries per job that ended in the last hour."),
    _gauge("crawl_success_rate", "Share of the jobs of the last hour that ended with a result."),
    _gauge("hosts_cooling", "Hosts that asked to be left alone for a while."),
    _gauge("bots_alive", "Bots that pulled within the last two minutes."),
    _gauge("outbox_backlog", "Events that wait to be delivered."),
    _gauge("outbox_age_seconds", "For how long the oldest event has been waiting."),
    _gauge("webhook_backlog", "Deliveries to webhooks that wait, retries included."),
    _gauge("dead_letters", "Messages and deliveries that were given up and wait for a person."),
    _gauge("crawl_budget_per_day", "Crawls a day that a pool of adaptive policies may make.", "pool"),
    _gauge("crawl_demand_per_day", "Crawls a day that the plans of a pool ask for at today's price.", "pool"),
    _gauge("crawl_price", "What a crawl of a pool must be worth, in weighted days of freshness.", "pool"),
    _gauge("crawl_pool_jobs", "Jobs made within the budget of a pool so far.", "pool"),
    _gauge("adaptive_policies", "Enabled adaptive policies of a pool.", "pool"),
    _gauge("database_up", "1 while PostgreSQL answers, else 0."),
    _gauge("opilio_build_info", "Always 1; its label is the version.", "version"),
)
ALL = (*COUNTED, *COLLECTED, *ANALYSED, *READ)
NAMES = frozenset(metric.name for metric in ALL)
_BY_NAME = {metric.name: metric for metric in ALL}


class BatchHistogram(Histogram):
    """Also takes many amounts at once: each `observe` costs two locks and a search."""

    def observe_all(self, amounts: Sequence[float]) -> None:
        self._sum.inc(sum(amounts))
        for bucket, count in Tally(bisect_left(self._upper_bounds, amount) for amount in amounts).items():
            self._buckets[bucket].inc(count)


def make(name: str, buckets: Sequence[float] = _CRAWL_SECONDS) -> Any:
    """The counter, histogram or gauge of this process that bears a name of the tables above."""
    metric = _BY_NAME[name]
    match metric.kind:
        case "counter":
            return Counter(name, metric.meaning, metric.labels)
        case "histogram":
            return BatchHistogram(name, metric.meaning, metric.labels, buckets=buckets)
        case _:
            return Gauge(name, metric.meaning, metric.labels, multiprocess_mode="mostrecent")


JOBS_CREATED: Counter = make("jobs_created")
JOBS_DONE: Counter = make("jobs_done")
JOBS_FAILED: Counter = make("jobs_failed")
JOBS_EXPIRED: Counter = make("jobs_expired")
JOBS_RETRIED: Counter = make("jobs_retried")
BOT_PULLS: Counter = make("bot_pulls")
CRAWL_DURATION: BatchHistogram = make("crawl_duration_seconds")
LOOP_RUNS: Counter = make("loop_runs")
LOOP_ERRORS: Counter = make("loop_errors")
ROLE_UP: Gauge = make("opilio_role_up")
LOOP_LAST_SUCCESS: Gauge = make("loop_last_success_timestamp_seconds")
