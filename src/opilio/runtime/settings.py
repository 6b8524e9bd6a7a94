"""Settings: environment `OPILIO_…`, then `opilio.toml`, then defaults; all faults are told at once."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from opilio.collector.config import Config as Collecting
from opilio.contracts.topology import Topology, topology
from opilio.crawl.politeness import Limits
from opilio.crawl.priority import Bands, Rules
from opilio.crawl.retention import Keep
from opilio.errors import OpilioError
from opilio.net.allowed_addresses import AllowList, parse_allow


def default_data_dir() -> Path:
    return Path.home() / ".local" / "share" / "opilio"


class Settings(BaseSettings):
    """Every setting of a deployment; docs/reference/settings.md is made from this class."""

    model_config = SettingsConfigDict(
        env_prefix="OPILIO_", toml_file="opilio.toml", extra="ignore", frozen=True
    )

    data_dir: Path = Field(
        default_factory=default_data_dir, description="Where the embedded instance keeps everything."
    )
    database_url: str | None = Field(
        None, description="An external PostgreSQL; the embedded one is used without it."
    )
    amqp_url: str | None = Field(None, description="RabbitMQ; the outbox is the bus without it.")
    redis_url: str | None = Field(None, description="Redis for project state; PostgreSQL is used without it.")
    blobs_url: str | None = Field(
        None, description="`s3://bucket?endpoint=…` or `file:///…`; the data directory without it."
    )

    host_max_concurrent: int | None = Field(
        None, gt=0, description="Fleet default: jobs of one host locked at once."
    )
    host_min_delay_seconds: float | None = Field(
        None, ge=0, description="Fleet default: seconds between hand-outs of one host."
    )
    schedule_jitter: float = Field(
        0.1, ge=0, le=1, description="Share of the frequency added at random; 0 is off."
    )
    crawl_allow_private: str = Field(
        "", description="Private addresses that policies may name: `true` or CIDRs."
    )
    webhook_allow_private: str = Field(
        "", description="Private addresses that webhooks may reach: `true` or CIDRs."
    )

    scheduler_interval_seconds: float = Field(
        1.0, gt=0, description="How often due jobs are created and expired locks swept."
    )
    keep_jobs_days: int = Field(
        14, ge=1, description="Finished jobs and their timelines are dropped after this."
    )
    keep_html_days: int = Field(7, ge=1, description="Raw HTML is dropped after this.")
    keep_results_days: int = Field(
        0, ge=0, description="Results are dropped after this; 0 keeps them for ever."
    )
    keep_late_days: int = Field(30, ge=1, description="Late results are dropped after this.")

    max_body_mb: int = Field(
        16, ge=1, description="Largest request body; an import may be 16 times as large."
    )
    login_attempts_per_minute: int = Field(
        10, ge=1, description="Wrong passwords per address and minute before 429."
    )
    host: str = Field(
        "127.0.0.1",
        description="The address that the API listens on; the machine alone can reach the default.",
    )
    port: int = Field(8000, ge=1, le=65535, description="The port that the API listens on.")
    api_workers: int = Field(1, ge=1, description="Processes that serve the API under `opilio run api`.")
    public_url: str | None = Field(
        None, description="How people reach the dashboard, if not by host and port."
    )
    metrics_port: int = Field(
        9090, ge=0, le=65535, description="Where `opilio run` serves metrics; 0 is off."
    )
    metrics_bare_names: bool = Field(
        True, description="Metrics without the prefix `opilio_` too, as older dashboards expect them."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="How much is logged.")
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="`auto` is text on a terminal, else JSON."
    )

    platforms: Annotated[tuple[str, ...], NoDecode] = Field(
        ("tiktok", "youtube"), description="Platforms that a project is crawled on unless it names its own."
    )
    limit_per_keyword: int = Field(50, ge=1, description="Items wanted for each keyword on each platform.")
    max_attempts: int = Field(3, ge=1, description="How often a task of a project is tried in all.")
    retry_backoff_seconds: float = Field(
        30,
        gt=0,
        description="Wait before a task's first retry, doubling; `…__TIKTOK` sets one platform's own.",
    )
    task_timeout_seconds: float = Field(
        1800, gt=0, description="A crawler that does not answer in this time has failed."
    )
    strict_contracts: bool = Field(
        False, description="Results that contradict themselves go to the dead letters."
    )
    progress_webhook_url: str | None = Field(
        None, description="Progress of projects that name no webhook of their own."
    )
    new_mode_enabled: bool = Field(
        True, description="Analytics takes event messages; off, they stay in their queue."
    )
    legacy_mode_enabled: bool = Field(
        True, description="Analytics takes legacy messages; off, they stay in their queue."
    )
    analytics_stages: dict[str, str] = Field(
        default_factory=dict,
        description="Stages of your own: `sentiment = package.module:Class`, or an HTTP endpoint (opilio.toml).",
    )
    analytics_workers: int = Field(
        0, ge=0, le=64, description="Processes that run the stages of the analytics role; 0 uses a thread."
    )
    analytics_retry_seconds: float = Field(
        5, gt=0, description="Wait before a batch that is missing or unreadable is tried again, doubling."
    )
    keep_posts_days: int = Field(
        0, ge=0, description="Analysed posts are dropped after this, by the month; 0 keeps them."
    )

    rules: dict[str, dict[str, list[float]]] = Field(
        default_factory=dict, description="Bands of the rule engine (opilio.toml)."
    )

    @field_validator("crawl_allow_private", "webhook_allow_private")
    @classmethod
    def _is_allow_list(cls, value: str) -> str:
        parse_allow(value)
        return value

    @field_validator("platforms", mode="before")
    @classmethod
    def _are_platforms(cls, value: object) -> object:
        """`tiktok,youtube` in the environment, a list in the file."""
        return (
            tuple(word.strip() for word in value.split(",") if word.strip())
            if isinstance(value, str)
            else value
        )

    @field_validator("rules")
    @classmethod
    def _are_rules(cls, value: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, list[float]]]:
        _rules(value)
        return value

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
    def rule_table(self) -> Rules:
        return _rules(self.rules)

    @property
    def retention(self) -> Keep:
        return Keep(self.keep_jobs_days, self.keep_html_days, self.keep_results_days, self.keep_late_days)

    @property
    def crawl_allow(self) -> AllowList:
        return parse_allow(self.crawl_allow_private)

    @property
    def webhook_allow(self) -> AllowList:
        return parse_allow(self.webhook_allow_private)

    @property
    def topology(self) -> Topology:
        return topology(self.platforms)

    @property
    def collector(self) -> Collecting:
        return Collecting(
            platforms=self.platforms,
            limit_per_keyword=self.limit_per_keyword,
            max_attempts=self.max_attempts,
            backoff=timedelta(seconds=self.retry_backoff_seconds),
            backoff_by_platform=_backoff_by_platform(os.environ),
            task_timeout=timedelta(seconds=self.task_timeout_seconds),
            strict_contracts=self.strict_contracts,
            progress_webhook_url=self.progress_webhook_url,
        )

    @property
    def blobs(self) -> str:
        return self.blobs_url or f"file://{(self.data_dir / 'blobs').absolute()}"


def _rules(table: dict[str, dict[str, list[float]]]) -> Rules:
    unknown = table.keys() - set(Rules.__dataclass_fields__)
    if unknown:
        raise ValueError(f"unknown rules {sorted(unknown)}; known are {sorted(Rules.__dataclass_fields__)}")
    given = {
        name: Bands(tuple(row.get("bands", ())), tuple(int(p) for p in row.get("points", ())))
        for name, row in table.items()
    }
    return Rules(**given)


def _backoff_by_platform(environment: Mapping[str, str]) -> dict[str, timedelta]:
    """`OPILIO_RETRY_BACKOFF_SECONDS__TIKTOK=60`."""
    prefix = "OPILIO_RETRY_BACKOFF_SECONDS__"
    return {
        name.removeprefix(prefix).lower(): timedelta(seconds=float(value))
        for name, value in environment.items()
        if name.startswith(prefix)
    }


def load_settings(**overrides: Any) -> Settings:
    try:
        return Settings(**{key: value for key, value in overrides.items() if value is not None})
    except ValidationError as error:
        faults = "; ".join(
            f"OPILIO_{'_'.join(str(part) for part in fault['loc']).upper()}: {fault['msg']}"
            for fault in error.errors()
        )
        raise OpilioError(f"The settings are not right: {faults}") from None
