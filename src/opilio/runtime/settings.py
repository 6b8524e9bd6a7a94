"""Settings from the environment (`OPILIO_…`), then `opilio.toml`, then defaults; all errors are reported at once."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from opilio.collector.config import Config as Collecting
from opilio.collector.result import RETRYABLE_CODES
from opilio.contracts.topology import INBOUND, LIFECYCLE, RESULTS, Topology, topology
from opilio.crawl.adaptive.budget import Budgets
from opilio.crawl.politeness import Limits
from opilio.crawl.priority import Rules
from opilio.crawl.retention import Keep
from opilio.errors import OpilioError
from opilio.net.allowed_addresses import AllowList, parse_allow
from opilio.net.mask_url import mask_url
from opilio.runtime.settings_checks import (
    SETTINGS_FILE,
    backoff_by_platform,
    read_settings_file,
    unknown_names,
)
from opilio.runtime.settings_types import (
    Addresses,
    AmqpUrl,
    BlobsUrl,
    DatabaseUrl,
    RedisUrl,
    RuleTable,
    TimeZone,
    WebAddress,
    Words,
    parse_rules,
)


def default_data_dir() -> Path:
    return Path.home() / ".local" / "share" / "opilio"


class Settings(BaseSettings):
    """Every setting; docs/reference/settings.md is generated from this class."""

    model_config = SettingsConfigDict(
        env_prefix="OPILIO_", toml_file=SETTINGS_FILE, extra="ignore", frozen=True
    )

    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="The folder of the embedded instance: database, objects, logs.",
    )
    database_url: DatabaseUrl | None = Field(
        None, description="URL of PostgreSQL; without it an embedded PostgreSQL is started."
    )
    database_direct_url: str | None = Field(
        None,
        description="URL of PostgreSQL itself where `OPILIO_DATABASE_URL` leads to PgBouncer in transaction mode: for "
        "LISTEN, locks, migrations and the hot path.",
    )
    database_pool_size: int = Field(
        8, ge=2, description="Connections to PostgreSQL that one process opens at most for most of its work."
    )
    database_hot_pool_size: int = Field(
        4, ge=1, description="Further connections of one process for pull, submit and heartbeat."
    )
    amqp_url: AmqpUrl | None = Field(
        None, description="URL of RabbitMQ; without it messages go through PostgreSQL."
    )
    redis_url: RedisUrl | None = Field(
        None, description="URL of Redis for project state; without it PostgreSQL is used."
    )
    blobs_url: BlobsUrl | None = Field(
        None,
        description="Object storage: `s3://bucket?endpoint=…` or `file:///…`; without it a folder of the data directory.",
    )

    host_max_concurrent: int | None = Field(
        None, gt=0, description="Default for all hosts: how many jobs of one host may be locked at once."
    )
    host_min_delay_seconds: float | None = Field(
        None, ge=0, description="Default for all hosts: seconds between two pulled jobs of one host."
    )
    bot_max_locked: int = Field(1_000, ge=1, description="How many jobs one bot may have locked at once.")
    schedule_jitter: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Share of the frequency that is added at random to the next run; 0 switches it off.",
    )
    crawl_budget_per_day: float | None = Field(
        None,
        gt=0,
        description="Crawls a day of all adaptive policies together; without it, what their frequencies would cost.",
    )
    crawl_budgets: dict[str, float] = Field(
        {},
        description="Budgets of pools, as JSON; the pool of an adaptive policy is its label `pool`.",
    )
    crawl_fill_idle: bool = Field(
        False, description="Idle bots take adaptive pages before they are due, within the budget."
    )
    change_tolerance_percent: dict[str, float] = Field(
        {},
        description='Moves that do not count as a change, by field, as JSON: `{"price": 0.5, "data.rating": 2}`.',
    )
    crawl_allow_private: Addresses = Field(
        "", description="Private addresses that policies may contain: `true` or CIDRs."
    )
    webhook_allow_private: Addresses = Field(
        "", description="Private addresses that webhooks may reach: `true` or CIDRs."
    )

    scheduler_interval_seconds: float = Field(
        1.0, gt=0, description="Seconds between two rounds of creating due jobs and expiring locks."
    )
    keep_jobs_days: int = Field(14, ge=1, description="Days to keep finished jobs and their timelines.")
    keep_html_days: int = Field(7, ge=1, description="Days to keep raw HTML.")
    keep_results_days: int = Field(0, ge=0, description="Days to keep results; 0 keeps them forever.")
    keep_late_days: int = Field(30, ge=1, description="Days to keep late results.")
    keep_values_days: int = Field(
        365, ge=0, description="Days to keep the value history of policies; 0 keeps it forever."
    )
    keep_audit_days: int = Field(365, ge=0, description="Days to keep the audit log; 0 keeps it forever.")

    max_body_mb: int = Field(
        16, ge=1, description="Largest request body; an import or a batch of results may be 4 times as large."
    )
    login_attempts_per_minute: int = Field(
        10, ge=1, description="Wrong passwords per address and minute before 429."
    )
    host: str = Field(
        "127.0.0.1",
        description="Address that the API listens on; the default is reachable from this machine only.",
    )
    port: int = Field(8000, ge=1, le=65535, description="Port that the API listens on.")
    api_workers: int = Field(
        1, ge=1, description="Number of processes that serve the API under `opilio run api`."
    )
    max_connections: int = Field(
        16_000, ge=64, description="Open connections that one API process accepts; further ones wait."
    )
    live_streams_per_session: int = Field(
        20, ge=1, description="Live pages that one login may have open at once on one API process."
    )
    idle_connection_seconds: float = Field(
        75, ge=1, description="A connection without a request is closed after this; longer than your proxy's."
    )
    body_timeout_seconds: float = Field(
        30,
        ge=1,
        description="A request body that stops arriving is refused after this, a slow one after ten times this.",
    )
    shutdown_grace_seconds: float = Field(
        10, ge=0, description="How long open requests may go on after SIGTERM."
    )
    public_url: WebAddress | None = Field(
        None,
        description="Address of the dashboard as users open it, if it differs from host and port; may have a path.",
    )
    trusted_proxies: Addresses = Field(
        "", description="Addresses of reverse proxies whose X-Forwarded-* headers are believed: CIDRs."
    )
    metrics_port: int = Field(
        9090, ge=0, le=65535, description="Where `opilio run` serves metrics; 0 is off."
    )
    metrics_bare_names: bool = Field(
        True, description="Metrics without the prefix `opilio_` too, as older dashboards expect them."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe level that is logged."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="`auto` logs text on a terminal and JSON otherwise."
    )

    platforms: Words = Field(("tiktok", "youtube"), description="Platforms of a project that names none.")
    time_zone: TimeZone = Field(
        "UTC", description="Zone of the days in analytics, for projects that name none (IANA name)."
    )
    limit_per_keyword: int = Field(
        50, ge=1, description="Items to collect for each keyword on each platform."
    )
    max_attempts: int = Field(3, ge=1, description="Attempts of a project's task, the first included.")
    retry_backoff_seconds: float = Field(
        30,
        gt=0,
        description="Wait before the first retry of a task; doubles with each retry. `…__TIKTOK` sets it for one platform.",
    )
    task_timeout_seconds: float = Field(
        1800, gt=0, description="A task without a result after this time has failed."
    )
    tasks_in_flight: int = Field(
        1000, ge=1, description="Tasks of one platform that are sent and not finished, at most."
    )
    analyze_timeout_seconds: float = Field(
        1800, gt=0, description="An analysis that stands still for this long is reported as stalled."
    )
    retryable_error_codes: Words = Field(
        tuple(sorted(RETRYABLE_CODES)), description="Error codes after which a task is tried again."
    )
    retry_backoff_seconds_by_platform: dict[str, float] = Field(
        default_factory=dict,
        description="Wait before a first retry by platform; in the environment `OPILIO_RETRY_BACKOFF_SECONDS__TIKTOK`.",
    )
    exchange_inbound: str = Field(INBOUND, min_length=1, description="The exchange of crawl requests.")
    exchange_results: str = Field(RESULTS, min_length=1, description="The exchange of results.")
    exchange_lifecycle: str = Field(
        LIFECYCLE, min_length=1, description="The exchange of project.created and data.collected."
    )
    strict_contracts: bool = Field(
        False, description="Whether results with inconsistent counts are dead-lettered."
    )
    progress_webhook_url: str | None = Field(
        None, description="Webhook for the progress of projects that name none."
    )
    new_mode_enabled: bool = Field(
        True, description="Whether analytics consumes event messages; if not, they stay in their queue."
    )
    legacy_mode_enabled: bool = Field(
        True, description="Whether analytics consumes legacy messages; if not, they stay in their queue."
    )
    analytics_stages: dict[str, str] = Field(
        default_factory=dict,
        description="Your own stages: `sentiment = package.module:Class`, or the URL of a model (in opilio.toml).",
    )
    analytics_workers: int = Field(
        0,
        ge=0,
        le=64,
        description="Number of processes that run the analytics stages; 0 runs them in a thread.",
    )
    analytics_retry_seconds: float = Field(
        5, gt=0, description="Wait before a missing or unreadable batch is retried; doubles with each retry."
    )
    keep_posts_days: int = Field(
        0, ge=0, description="Days to keep analysed posts, dropped by month; 0 keeps them forever."
    )
    keep_errors_days: int | None = Field(
        None, ge=0, description="Days to keep errors of single posts, by month; without it as long as posts."
    )

    rules: RuleTable = Field(
        default_factory=dict, description="Bands of the priority rules (in opilio.toml)."
    )

    @model_validator(mode="after")
    def _platform_backoffs_are_numbers(self) -> "Settings":
        backoff_by_platform(os.environ)
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

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
        return parse_rules(self.rules)

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


def load_settings(**overrides: Any) -> Settings:
    """The settings; raises one error that lists everything that is wrong."""
    faults = [*unknown_names(os.environ, read_settings_file(), list(Settings.model_fields))]
    try:
        settings = Settings(**{key: value for key, value in overrides.items() if value is not None})
    except ValidationError as error:
        faults += [
            f"OPILIO_{'_'.join(str(part) for part in fault['loc']).upper()} {_reason(fault)}"
            for fault in error.errors()
        ]
    except SettingsError as error:  # a value that must be JSON is not; pydantic stops at the first
        faults.append(mask_url(str(error)))
    if faults:
        raise OpilioError(f"The settings are wrong: {'; '.join(faults)}.")
    return settings


def _reason(fault: Any) -> str:
    text = str(fault["msg"]).removeprefix("Value error, ")
    return text[0].lower() + text[1:]
