"""What a policy may say: its fields, their bounds and their defaults."""

import math
from collections.abc import Mapping

from opilio.contracts.policies import PolicyInput
from opilio.crawl.priority import QUEUES
from opilio.crawl.storable import check_storable
from opilio.errors import Invalid

_LONGEST_HOURS = 24 * 366 * 10
_MOST_LABELS = 50


def check(policy: PolicyInput) -> None:
    """Refuses what the types let through; the first fault is named."""
    for field in ("frequency_hours", "retry_backoff_minutes", "timeout_minutes"):
        _duration(field, getattr(policy, field))
    if policy.queue is not None and policy.queue not in QUEUES:
        raise Invalid("queue", f"must be one of {', '.join(QUEUES)}")
    _labels(policy.labels)
    check_storable("crawl_config", policy.crawl_config)
    check_storable("rule_set", policy.rule_set)


def _duration(field: str, value: float) -> None:
    if not math.isfinite(value) or value <= 0:
        raise Invalid(field, "must be greater than 0")
    hours = value if field.endswith("hours") else value / 60
    if hours > _LONGEST_HOURS:
        raise Invalid(field, "must be at most ten years")


def _labels(labels: Mapping[str, str]) -> None:
    if len(labels) > _MOST_LABELS:
        raise Invalid("labels", f"has {len(labels)} entries; at most {_MOST_LABELS} are allowed")
    for key, value in labels.items():
        if not key or len(key) > 100 or len(value) > 500:
            raise Invalid("labels", "keys have 1 to 100 characters, values at most 500")
    check_storable("labels", labels)
