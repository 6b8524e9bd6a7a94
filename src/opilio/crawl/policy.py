"""The bounds of a policy's fields."""

import math
from collections.abc import Mapping

from opilio.bounded_json import check_json
from opilio.clock import check_moment
from opilio.contracts.policies import PolicyInput
from opilio.crawl.priority import QUEUES
from opilio.errors import Invalid

_LONGEST_HOURS = 24 * 366 * 10
_MOST_LABELS = 50


def check(policy: PolicyInput) -> None:
    """Checks what the types cannot; the first wrong field is named."""
    for field in ("frequency_hours", "retry_backoff_minutes", "timeout_minutes"):
        _duration(field, getattr(policy, field))
    if policy.queue is not None and policy.queue not in QUEUES:
        raise Invalid("queue", "must be one of %(queues)s", queues=", ".join(QUEUES))
    for field in ("min_interval_hours", "max_interval_hours"):
        if getattr(policy, field) is not None:
            _duration(field, getattr(policy, field))
    if (policy.min_interval_hours or 0) > (policy.max_interval_hours or math.inf):
        raise Invalid("min_interval_hours", "must not be greater than max_interval_hours")
    _labels(policy.labels)
    if policy.next_run_at is not None:
        check_moment("next_run_at", policy.next_run_at)
    check_json("crawl_config", policy.crawl_config)
    check_json("rule_set", policy.rule_set)


def _duration(field: str, value: float) -> None:
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
    check_json("labels", labels)
