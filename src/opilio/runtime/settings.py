"""Settings from the environment (`OPILIO_…`), then `opilio.toml`, then defaults; all errors are reported at once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from opilio.collector.config import Config as Collecting
from opilio.collector.result import RETRYABLE_CODES
from opilio.contracts.topology import INBOUND, LIFECYCLE, RESULTS, Topology, topology
from opilio.crawl.adaptive.budget import Budgets
from opilio.crawl.politeness import Limits
from opilio.crawl.priority import Rules
from opilio.crawl.retention import Keep
from opilio.errors import OpilioError
from opilio.net.allowed_addresses import AllowList, parse_allow
from opilio.runtime import setting_forms as form
from opilio.runtime.setting_values import declarations, read_values, setting
from opilio.runtime.settings_checks import (
    backoff_by_platform,
    read_settings_file,
    unknown_names,
    wrong_backoffs,
)

_PREFIX = "OPILIO_"


def default_data_dir() -> Path:
    return Path.home() / ".local" / "share" / "opilio"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting; docs/reference/settings.md is generated from this class."""

    data_dir: Path = setting(
        default_data_dir, "The folder of the embedded instance: database, objects, logs."
    )
    database_url: str | None = setting(
        None, "URL of PostgreSQL; without it an embedded PostgreSQL is started.", check=form.database_url
    )
    database_direct_url: str | None = setting(
        None,
        "URL of PostgreSQL itself where `OPILIO_DATABASE_URL` leads to PgBouncer in transaction mode: for "
        "LISTEN, locks, migrations and the hot path.",
    )
    database_pool_size: int = setting(
        8, "Connections to PostgreSQL that one process opens at most for most of its work.", least=2
    )
    database_hot_pool_size: int = setting(
        4, "Further connections of one process for pull, submit and heartbeat.", least=1
    )
    amqp_url: str | None = setting(
        None, "URL of RabbitMQ; without it messages go through PostgreSQL.", check=form.amqp_url
    )
    redis_url: str | None = setting(
        None, "URL of Redis for project state; without it PostgreSQL is used.", check=form.redis_url
    )
    blobs_url: str | None = setting(
        None,
        "Object storage: `s3://bucket?endpoint=…` or `file:///…`; without it a folder of the data directory.",
        check=form.blobs_url,
    )

    host_max_concurrent: int | None = setting(
        None, "Default for all hosts: how many jobs of one host may be locked at once.", above=0
    )
    host_min_delay_seconds: float | None = setting(
        None, "Default for all hosts: seconds between two pulled jobs of one host.", least=0
    )
    bot_max_locked: int = setting(1_000, "How many jobs one bot may have locked at once.", least=1)
    schedule_jitter: float = setting(
        0.1,
        "Share of the frequency that is added at random to the next run; 0 switches it off.",
        least=0,
        most=1,
    )
    crawl_budget_per_day: float | None = setting(
        None,
        "Crawls a day of all adaptive policies together; without it, what their frequencies would cost.",
        above=0,
    )
    crawl_budgets: dict[str, float] = setting(
        {}, "Budgets of pools, as JSON; the pool of an adaptive policy is its label `pool`."
    )
    crawl_fill_idle: bool = setting(
        False, "Idle bots take adaptive pages before they are due, within the budget."
    )
    change_tolerance_percent: dict[str, float] = setting(
        {}, 'Moves that do not count as a change, by field, as JSON: `{"price": 0.5, "data.rating": 2}`.'
    )
    crawl_allow_private: str = setting(
        "", "Private addresses that policies may contain: `true` or CIDRs.", check=form.addresses
    )
    webhook_allow_private: str = setting(
        "", "Private addresses that webhooks may reach: `true` or CIDRs.", check=form.addresses
    )

    scheduler_interval_seconds: float = setting(
        1.0, "Seconds between two rounds of creating due jobs and expiring locks.", above=0
    )
    keep_jobs_days: int = setting(
        30,
        "Days to keep finished jobs and their timelines; if fewer than 30, the events that they carry are written again.",
        least=1,
    )
    keep_html_days: int = setting(7, "Days to keep raw HTML.", least=1)
    keep_results_days: int = setting(0, "Days to keep results; 0 keeps them forever.", least=0)
    keep_late_days: int = setting(30, "Days to keep late results.", least=1)
    keep_values_days: int = setting(
        365, "Days to keep the value history of policies; 0 keeps it forever.", least=0
    )
    keep_audit_days: int = setting(365, "Days to keep the audit log; 0 keeps it forever.", least=0)

    max_body_mb: int = setting(
        16, "Largest request body; an import or a batch of results may be 4 times as large.", least=1
    )
    login_attempts_per_minute: int = setting(
        10, "Wrong passwords per address and minute before 429.", least=1
    )
    host: str = setting(
        "127.0.0.1", "Address that the API listens on; the default is reachable from this machine only."
    )
    port: int = setting(8000, "Port that the API listens on.", least=1, most=65535)
    api_workers: int = setting(
        0,
        "Number of processes that serve the API; 0 takes one for every four processor cores, at least one.",
        least=0,
    )
    max_connections: int = setting(
        16_000, "Open connections that one API process accepts; further ones are answered 503.", least=64
    )
    live_streams_per_session: int = setting(
        20, "Live pages that one login may have open at once on one API process.", least=1
    )
    idle_connection_seconds: float = setting(
        75, "A connection without a request is closed after this; longer than your proxy's.", least=1
    )
    body_timeout_seconds: float = setting(
        30,
        "A request body that stops arriving is refused after this, a slow one after ten times this.",
        least=1,
    )
    shutdown_grace_seconds: float = setting(10, "How long open requests may go on after SIGTERM.", least=0)
    public_url: str | None = setting(
        None,
        "Address of the dashboard as users open it, if it differs from host and port; may have a path.",
        check=form.web_address,
    )
    trusted_proxies: str = setting(
        "",
        "Addresses of reverse proxies whose X-Forwarded-* headers are believed: CIDRs.",
        check=form.addresses,
    )
    metrics_port: int = setting(9090, "Where `opilio run` serves metrics; 0 is off.", least=0, most=65535)
    metrics_bare_names: bool = setting(
        True, "Metrics without the prefix `opilio_` too, as older dashboards expect them."
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "Least severe level that is logged."
    )
    log_format: Literal["auto", "json", "text"] = setting(
        "auto", "`auto` logs text on a terminal and JSON otherwise."
    )

    platforms: tuple[str, ...] = setting(("tiktok", "youtube"), "Platforms of a project that names none.")
    time_zone: str = setting(
        "UTC", "Zone of the days in analytics, for projects that name none (IANA name).", check=form.time_zone
    )
    limit_per_keyword: int = setting(50, "Items to collect for each keyword on each platform.", least=1)
    max_attempts: int = setting(3, "Attempts of a project's task, the first included.", least=1)
    retry_backoff_seconds: float = setting(
        30,
        "Wait before the first retry of a task; doubles with each retry. `…__TIKTOK` sets it for one platform.",
        above=0,
    )
    task_timeout_seconds: float = setting(
        1800, "A task without a result after this time has failed.", above=0
    )
    tasks_in_flight: int = setting(
        1000, "Tasks of one platform that are sent and not finished, at most.", least=1
    )
    analyze_timeout_seconds: float = setting(
        1800, "An analysis that stands still for this long is reported as stalled.", above=0
    )
    retryable_error_codes: tuple[str, ...] = setting(
        tuple(sorted(RETRYABLE_CODES)), "Error codes after which a task is tried again."
    )
    retry_backoff_seconds_by_platform: dict[str, float] = setting(
        {},
        "Wait before a first retry by platform; in the environment `OPILIO_RETRY_BACKOFF_SECONDS__TIKTOK`.",
    )
    exchange_inbound: str = setting(INBOUND, "The exchange of crawl requests.", check=form.not_empty)
    exchange_results: str = setting(RESULTS, "The exchange of results.", check=form.not_empty)
    exchange_lifecycle: str = setting(
        LIFECYCLE, "The exchange of project.created and data.collected.", check=form.not_empty
    )
    strict_contracts: bool = setting(False, "Whether results with inconsistent counts are dead-lettered.")
    progress_webhook_url: str | None = setting(None, "Webhook for the progress of projects that name none.")
    new_mode_enabled: bool = setting(
        True, "Whether analytics consumes event messages; if not, they stay in their queue."
    )
    legacy_mode_enabled: bool = setting(
        True, "Whether analytics consumes legacy messages; if not, they stay in their queue."
    )
    analytics_stages: dict[str, str] = setting(
        {}, "Your own stages: `sentiment = package.module:Class`, or the URL of a model (in opilio.toml)."
    )
    analytics_workers: int = setting(
        0, "Number of processes that run the analytics stages; 0 runs them in a thread.", least=0, most=64
    )
    analytics_retry_seconds: float = setting(
        5, "Wait before a missing or unreadable batch is retried; doubles with each retry.", above=0
    )
    keep_posts_days: int = setting(
        0, "Days to keep analysed posts, dropped by month; 0 keeps them forever.", least=0
    )
    keep_errors_days: int | None = setting(
        None, "Days to keep errors of single posts, by month; without it as long as posts.", least=0
    )

    rules: dict[str, dict[str, list[float]]] = setting(
        {}, "Bands of the priority rules (in opilio.toml).", check=form.rule_table
    )

    given: frozenset[str] = frozenset()  # names of the settings that somebody gave

    def with_values(self, **values: Any) -> "Settings":
        """The same settings but for these."""
        return replace(self, **values)

    @property
    def api_processes(self) -> int:
        # Bots and PostgreSQL need cores too; and the fewer processes, the larger the batches that requests are gathered in.
        return self.api_workers or max(1, (os.cpu_count() or 1) // 4)

    @property
    def embedded(self) -> bool:
        return self.database_url is None

    @property
    def fleet_limits(self) -> Limits:
        return Limits(self.host_max_concurrent, self.host_min_delay_seconds)

    @property
    def budgets(self) -> Budgets:
        return Budgets(self.crawl_budget_per_day, self.crawl_budgets)

    @property
    def rule_table(self) -> Rules:
        return form.parse_rules(self.rules)

    @property
    def retention(self) -> Keep:
        return Keep(
            jobs=self.keep_jobs_days,
            html=self.keep_html_days,
            results=self.keep_results_days,
            late=self.keep_late_days,
            values=self.keep_values_days,
        )

    @property
    def crawl_allow(self) -> AllowList:
        return parse_allow(self.crawl_allow_private)

    @property
    def webhook_allow(self) -> AllowList:
        return parse_allow(self.webhook_allow_private)

    @property
    def trusted_proxy_list(self) -> AllowList | None:
        return parse_allow(self.trusted_proxies) if self.trusted_proxies else None

    @property
    def topology(self) -> Topology:
        return topology(
            self.platforms,
            inbound=self.exchange_inbound,
            results=self.exchange_results,
            lifecycle=self.exchange_lifecycle,
        )

    @property
    def collector(self) -> Collecting:
        return Collecting(
            platforms=self.platforms,
            limit_per_keyword=self.limit_per_keyword,
            max_attempts=self.max_attempts,
            backoff=timedelta(seconds=self.retry_backoff_seconds),
            backoff_by_platform={
                platform: timedelta(seconds=seconds)
                for platform, seconds in (
                    self.retry_backoff_seconds_by_platform | backoff_by_platform(os.environ)
                ).items()
            },
            tasks_in_flight=self.tasks_in_flight,
            analyze_timeout=timedelta(seconds=self.analyze_timeout_seconds),
            retryable_codes=frozenset(self.retryable_error_codes),
            results_exchange=self.exchange_results,
            task_timeout=timedelta(seconds=self.task_timeout_seconds),
            strict_contracts=self.strict_contracts,
            progress_webhook_url=self.progress_webhook_url,
        )

    @property
    def blobs(self) -> str:
        return self.blobs_url or f"file://{(self.data_dir / 'blobs').absolute()}"


SETTINGS = declarations(Settings.__dataclass_fields__)


def load_settings(**overrides: Any) -> Settings:
    """The settings; raises one error that lists everything that is wrong."""
    file = read_settings_file()
    faults = [*unknown_names(os.environ, file, list(SETTINGS)), *wrong_backoffs(os.environ)]
    values, wrong = read_values(Settings, SETTINGS, _given(overrides, os.environ, file))
    if faults or wrong:
        said = "; ".join([*faults, *wrong])
        raise OpilioError(f"The settings are wrong: {said}{'' if said.endswith('?') else '.'}")
    return Settings(**values, given=frozenset(values))


def _given(
    overrides: Mapping[str, Any], environment: Mapping[str, str], file: Mapping[str, Any]
) -> dict[str, Any]:
    """Each setting that was given anywhere, from the first place that has it."""
    variables = {name.upper(): value for name, value in environment.items()}
    in_environment = {
        name: variables[_PREFIX + name.upper()] for name in SETTINGS if _PREFIX + name.upper() in variables
    }
    in_file = {name: file[name] for name in SETTINGS if name in file}
    given = {name: value for name, value in overrides.items() if value is not None}
    return in_file | in_environment | given
