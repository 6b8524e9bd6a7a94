"""What a policy may say: its fields, their bounds and their defaults."""

import math
from collections.abc import Mapping
from typing import Any

from opilio.contracts.policies import PolicyInput
from opilio.crawl.priority import QUEUES
from opilio.errors import Invalid

_LONGEST_HOURS = 24 * 366 * 10
_MOST_LABELS = 50
_DEEPEST = 64


def check(policy: PolicyInput) -> None:
    """Refuses what the types let through; the first fault is named."""
    for field in ("frequency_hours", "retry_backoff_minutes", "timeout_minutes"):
        _duration(field, getattr(policy, field))
    if policy.queue is not None and policy.queue not in QUEUES:
        raise Invalid("queue", f"must be one of {', '.join(QUEUES)}")
    _labels(policy.labels)
    _storable("crawl_config", policy.crawl_config)
    _storable("rule_set", policy.rule_set)


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
    _storable("labels", labels)


def _storable(field: str, value: Any, depth: int = 0) -> None:
    """PostgreSQL cannot store U+0000, at any depth; and nobody needs a depth that exhausts the stack."""
    if depth > _DEEPEST:
        raise Invalid(field, f"is nested more than {_DEEPEST} deep")
    if isinstance(value, str):
        if "\x00" in value:
            raise Invalid(field, "contains the character U+0000")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _storable(field, key, depth + 1)
            _storable(field, item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _storable(field, item, depth + 1)
