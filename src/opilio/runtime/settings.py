"""Settings: environment `OPILIO_…`, then `opilio.toml`, then defaults; all faults are told at once."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from opilio.contracts.topology import Topology, topology
from opilio.crawl.politeness import Limits
from opilio.crawl.priority import Bands, Rules
from opilio.crawl.retention import Keep
from opilio.errors import OpilioError
from opilio.netguard import AllowList, parse_allow


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
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="How much is logged.")
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="`auto` is text on a terminal, else JSON."
    )

    rules: dict[str, dict[str, list[float]]] = Field(
        default_factory=dict, description="Bands of the rule engine (opilio.toml)."
    )

    @field_validator("crawl_allow_private", "webhook_allow_private")
    @classmethod
    def _is_allow_list(cls, value: str) -> str:
        parse_allow(value)
        return value

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
        return topology()

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


def load_settings(**overrides: Any) -> Settings:
    try:
        return Settings(**{key: value for key, value in overrides.items() if value is not None})
    except ValidationError as error:
        faults = "; ".join(
            f"OPILIO_{'_'.join(str(part) for part in fault['loc']).upper()}: {fault['msg']}"
            for fault in error.errors()
        )
        raise OpilioError(f"The settings are not right: {faults}") from None
