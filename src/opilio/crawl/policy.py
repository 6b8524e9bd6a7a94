"""The bounds of a policy's fields."""

import math
from collections.abc import Mapping

from msgspec import UNSET, UnsetType

from opilio.bounded_json import check_json
from opilio.clock import check_moment
from opilio.contracts.policies import PolicyInput, PolicyPatch
from opilio.crawl.priority import QUEUES
from opilio.errors import Invalid

_LONGEST_HOURS = 24 * 366 * 10
_MOST_LABELS = 50


def check(policy: PolicyInput | PolicyPatch) -> None:
    """Checks what the types cannot, in the fields that are given; the first wrong one is named."""
    _duration("frequency_hours", policy.frequency_hours)
    _duration("retry_backoff_minutes", policy.retry_backoff_minutes)
    _duration("timeout_minutes", policy.timeout_minutes)
    if policy.queue not in (None, UNSET, *QUEUES):
        raise Invalid("queue", "must be one of %(queues)s", queues=", ".join(QUEUES))
    _duration("min_interval_hours", policy.min_interval_hours)
    _duration("max_interval_hours", policy.max_interval_hours)
    if (policy.min_interval_hours or 0) > (policy.max_interval_hours or math.inf):
        raise Invalid("min_interval_hours", "must not be greater than max_interval_hours")
    if policy.labels:
        _labels(policy.labels)
    if policy.next_run_at:
        check_moment("next_run_at", policy.next_run_at)
    if policy.crawl_config:
        check_json("crawl_config", policy.crawl_config)
    if policy.rule_set:
        check_json("rule_set", policy.rule_set)


def _duration(field: str, value: float | UnsetType | None) -> None:
    if value is UNSET or value is None:
        return
    if not math.isfinite(value) or value <= 0:
        raise Invalid(field, "must be greater than 0")
    hours = value if field.endswith("hours") else value / 60
    if hours > _LONGEST_HOURS:
        raise Invalid(field, "must be at most ten years")


def _labels(labels: Mapping[str, str]) -> None:
    if len(labels) > _MOST_LABELS:
        raise Invalid(
            "labels",
            "has %(count)s entries; at most %(most)s are allowed",
            count=len(labels),
            most=_MOST_LABELS,
        )
    for key, value in labels.items():
        if not key or len(key) > 100 or len(value) > 500:
            raise Invalid("labels", "keys have 1 to 100 characters, values at most 500")
    if any("\x00" in key or "\x00" in value for key, value in labels.items()):
        raise Invalid("labels", "contains the character U+0000")
