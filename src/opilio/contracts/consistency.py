"""The consistency rules of results, each with the name it has in warnings, metrics and the conformance kit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from opilio.contracts.collector import LimitInfo, Stats

COUNT_CONSISTENCY = "count_consistency"
# Crawlers round: the contract's own example writes 0.93 for 28 of 30.
_ROUNDING = 0.01
Meta: TypeAlias = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Claims:
    """What a result of version 2 says about itself."""

    success: bool
    limit: LimitInfo
    stats: Stats
    metas: Sequence[Meta]


def _stats_add_up(c: Claims) -> bool:
    """Successful + failed + skipped is what was tried: what was found, up to the limit. A failed task stopped early."""
    tried = c.stats.successful + c.stats.failed + c.stats.skipped
    return not c.success or tried == min(c.limit.total_found, c.limit.applied_limit)


def _limited_is_right(c: Claims) -> bool:
    """platform_limited says that the platform has less than was asked for; a failed search does not know."""
    return not c.success or c.limit.platform_limited == (c.limit.total_found < c.limit.requested_limit)


def _rate_is_right(c: Claims) -> bool:
    expected = c.stats.successful / c.limit.total_found if c.limit.total_found else 0.0
    return abs(c.stats.completion_rate - expected) <= _ROUNDING


def _payload_is_whole(c: Claims) -> bool:
    return len(c.metas) == c.stats.successful


def _metas_are_whole(c: Claims) -> bool:
    return all(all(meta) for meta in c.metas)


RULES: Mapping[str, Callable[[Claims], bool]] = MappingProxyType(
    {
        "stats_consistency": _stats_add_up,
        "platform_limited": _limited_is_right,
        "completion_rate": _rate_is_right,
        "payload_length": _payload_is_whole,
        "required_meta": _metas_are_whole,
    }
)
DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "stats_consistency": "successful + failed + skipped is not the number of items tried",
        "platform_limited": "platform_limited is not total_found < requested_limit",
        "completion_rate": "completion_rate is not successful / total_found",
        "payload_length": "the payload does not hold as many items as stats.successful says",
        "required_meta": "an item lacks meta.job_id, meta.platform or meta.task_type",
        COUNT_CONSISTENCY: "success_count + error_count is not batch_size",
    }
)


def of_result(success: bool, limit: LimitInfo, stats: Stats, metas: Sequence[Meta]) -> tuple[str, ...]:
    """The names of the rules that a result breaks."""
    claims = Claims(success, limit, stats, metas)
    return tuple(name for name, holds in RULES.items() if not holds(claims))


def of_analysis(batch_size: int, success_count: int, error_count: int) -> tuple[str, ...]:
    return () if success_count + error_count == batch_size else (COUNT_CONSISTENCY,)
