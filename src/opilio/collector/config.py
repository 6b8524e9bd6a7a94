"""Settings of the collector."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType

from opilio.backoff import doubling
from opilio.collector.platforms import PLATFORMS, Strategy
from opilio.collector.result import RETRYABLE_CODES
from opilio.contracts.topology import RESULTS

_LONGEST_BACKOFF = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of the collector with their defaults."""

    strategies: Mapping[str, Strategy] = field(default_factory=lambda: PLATFORMS)
    platforms: tuple[str, ...] = ("tiktok", "youtube")
    limit_per_keyword: int = 50
    max_attempts: int = 3
    backoff: timedelta = timedelta(seconds=30)
    backoff_by_platform: Mapping[str, timedelta] = field(default_factory=lambda: MappingProxyType({}))
    task_timeout: timedelta = timedelta(seconds=1800)
    tasks_in_flight: int = 1_000
    analyze_timeout: timedelta = timedelta(seconds=1800)
    # How long nothing may come before undecided batches are counted: soon where they fit exactly.
    quiet_if_exact: timedelta = timedelta(seconds=10)
    quiet: timedelta = timedelta(seconds=30)
    retryable_codes: frozenset[str] = RETRYABLE_CODES
    strict_contracts: bool = False
    progress_webhook_url: str | None = None
    results_exchange: str = RESULTS

    def __post_init__(self) -> None:
        unknown = [platform for platform in self.platforms if platform not in self.strategies]
        if unknown:
            raise ValueError(f"unknown platforms {unknown}; known are {sorted(self.strategies)}")

    def wait_before(self, platform: str, attempt: int) -> timedelta:
        """The delay before a retry goes out as `attempt` (2 is the first retry)."""
        base = self.backoff_by_platform.get(platform, self.backoff)
        return doubling(base, attempt - 1, _LONGEST_BACKOFF)
