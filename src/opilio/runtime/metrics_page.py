"""The page that Prometheus reads: counters of the process and gauges read from the database.

Where several processes serve one address, PROMETHEUS_MULTIPROC_DIR names a folder that they share, and any of them
answers for all.
"""

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

import asyncpg
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest, multiprocess
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

import opilio
from opilio.insights.crawl import CrawlInsights
from opilio.logs import get_logger
from opilio.metrics import NAMES, PREFIX, READ, Metric, with_prefix
from opilio.runtime.metrics_dir import SHARED_FOLDER

_log = get_logger(__name__)

_OLDEST_READING = 5.0


async def render(insights: CrawlInsights, *, bare_names: bool = True) -> bytes:
    """The page that Prometheus reads; the database is asked at most every few seconds, whoever asks here."""
    readings = await _READINGS.of(insights)
    pages = (_counters(), _Once(readings))
    return b"".join(generate_latest(_Named(page, bare_names=bare_names)) for page in pages)


class _Named(Collector):
    """Every metric of ours with its prefix, and without it too where older rules expect that."""

    def __init__(self, source: Collector, *, bare_names: bool) -> None:
        self._source = source
        self._bare_names = bare_names

    def collect(self) -> Iterator[Family]:
        for family in self._source.collect():
            prefixed = family.name.startswith(PREFIX)
            if prefixed or family.name not in NAMES or self._bare_names:
                yield family
            if family.name in NAMES and not prefixed:
                yield _with_prefix(family)


def _with_prefix(family: Family) -> Family:
    renamed = Family(with_prefix(family.name), family.documentation, family.type, family.unit)
    renamed.samples = [sample._replace(name=with_prefix(sample.name)) for sample in family.samples]
    return renamed


def _counters() -> CollectorRegistry:
    if SHARED_FOLDER not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


class _Once(Collector):
    """The readings as a Prometheus collector."""

    def __init__(self, families: Iterable[GaugeMetricFamily]) -> None:
        self._families = families

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._families


class _Readings:
    """The last readings of the database, and their time."""

    def __init__(self) -> None:
        self._at = float("-inf")
        self._source: CrawlInsights | None = None
        self._families: list[GaugeMetricFamily] = []

    async def of(self, insights: CrawlInsights) -> list[GaugeMetricFamily]:
        if insights is not self._source or time.monotonic() - self._at > _OLDEST_READING:
            self._families = await _read(insights)
            self._at, self._source = time.monotonic(), insights
        return self._families


_READINGS = _Readings()


async def _read(insights: CrawlInsights) -> list[GaugeMetricFamily]:
    """Each group on its own: one that fails is missing, the others and the counters are still there."""
    values: dict[str, Any] = {"database_up": 0, "opilio_build_info": {opilio.__version__: 1}}
    for read_group in (_overview, _active_jobs, _last_hour, _queue_depths, _budgets):
        try:
            values |= {**await read_group(insights), "database_up": 1}
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            _log.warning("metrics.group_failed", group=read_group.__name__.lstrip("_"), error=str(error))
    return [_family(metric, values[metric.name]) for metric in READ if metric.name in values]


async def _overview(insights: CrawlInsights) -> dict[str, Any]:
    row = await insights.overview()
    return {
        "oldest_due_job_seconds": max(0.0, row["oldest_due"], row["oldest_pending"]),
        "policies_due": row["due"],
        "policies_enabled": row["enabled"],
        "hosts_cooling": row["hosts_cooling"],
        "bots_alive": row["bots_alive"],
        "outbox_backlog": row["outbox"],
        "outbox_age_seconds": max(0.0, row["outbox_age"]),
        "webhook_backlog": row["webhooks"],
        "dead_letters": row["dead_letters"],
    }


async def _active_jobs(insights: CrawlInsights) -> dict[str, Any]:
    return {"jobs_active": await insights.active_jobs()}


async def _last_hour(insights: CrawlInsights) -> dict[str, Any]:
    hour = await insights.last_hour()
    return {"retry_rate": hour.retry_rate, "crawl_success_rate": hour.success_rate}


async def _queue_depths(insights: CrawlInsights) -> dict[str, Any]:
    return {"queue_depth": await insights.queue_depths()}


async def _budgets(insights: CrawlInsights) -> dict[str, Any]:
    pools = await insights.pools()
    columns = {
        "crawl_budget_per_day": "budget_per_day",
        "crawl_demand_per_day": "demand",
        "crawl_price": "price",
        "crawl_pool_jobs": "created",
        "adaptive_policies": "pages",
    }
    return {
        name: {pool["pool"]: pool[column] for pool in pools if pool[column] is not None}
        for name, column in columns.items()
    }


def _family(metric: Metric, value: Any) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    if isinstance(value, dict):
        for label, figure in value.items():
            family.add_metric([label], figure)
    elif value is not None:  # nothing ended in the last hour: no rate
        family.add_metric([], value)
    return family
