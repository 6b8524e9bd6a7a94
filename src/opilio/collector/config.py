"""How a deployment wants its projects crawled."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType

from opilio.backoff import doubling
from opilio.collector.platforms import PLATFORMS, Strategy
from opilio.contracts.topology import RESULTS, RETRY_STEPS

_LONGEST_BACKOFF = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of the collector, with the defaults of a deployment that sets none."""

    strategies: Mapping[str, Strategy] = field(default_factory=lambda: PLATFORMS)
    platforms: tuple[str, ...] = ("tiktok", "youtube")
    limit_per_keyword: int = 50
    max_attempts: int = 3
    backoff: timedelta = timedelta(seconds=30)
    backoff_by_platform: Mapping[str, timedelta] = field(default_factory=lambda: MappingProxyType({}))
    task_timeout: timedelta = timedelta(seconds=1800)
    strict_contracts: bool = False
    progress_webhook_url: str | None = None
    results_exchange: str = RESULTS
    retry_steps: int = RETRY_STEPS

    def __post_init__(self) -> None:
        unknown = [platform for platform in self.platforms if platform not in self.strategies]
        if unknown:
            raise ValueError(f"no strategy for the platforms {unknown}; known are {sorted(self.strategies)}")

    def wait_before(self, platform: str, attempt: int) -> timedelta:
        """How long a retry waits before it goes out as `attempt` (2 is the first retry)."""
        base = self.backoff_by_platform.get(platform, self.backoff)
        return doubling(base, attempt - 1, _LONGEST_BACKOFF)
