"""What a policy may say beyond its types."""

import math
from typing import Any

import pytest

from opilio.contracts.policies import PolicyInput, PolicyPatch
from opilio.crawl.policy import check
from opilio.errors import Invalid


def test_the_defaults_are_right() -> None:
    policy = PolicyInput(url="https://a.example/")
    check(policy)
    assert (
        policy.frequency_hours,
        policy.max_retries,
        policy.retry_backoff_minutes,
        policy.timeout_minutes,
    ) == (24, 3, 5, 10)


@pytest.mark.parametrize("field", ["frequency_hours", "retry_backoff_minutes", "timeout_minutes"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, 1e300])
def test_durations_are_above_0_and_below_ten_years(field: str, value: float) -> None:
    with pytest.raises(Invalid) as refusal:
        check(PolicyInput(url="https://a.example/", **{field: value}))
    assert refusal.value.field == field


@pytest.mark.parametrize("value", [0.001, 0.5, 6, 24, 168])
def test_hours_may_be_fractions(value: float) -> None:
    check(PolicyInput(url="https://a.example/", frequency_hours=value))


@pytest.mark.parametrize(
    "labels", [{"": "x"}, {"k" * 101: "x"}, {"k": "x" * 501}, {"k": "\x00"}, {str(n): "x" for n in range(51)}]
)
def test_labels_are_few_and_short(labels: dict[str, str]) -> None:
    with pytest.raises(Invalid) as refusal:
        check(PolicyInput(url="https://a.example/", labels=labels))
    assert refusal.value.field == "labels"


@pytest.mark.parametrize("field", ["crawl_config", "rule_set"])
def test_nul_is_refused_at_any_depth(field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        check(PolicyInput(url="https://a.example/", **{field: {"headers": [{"a": "\x00"}]}}))
    assert refusal.value.field == field


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"frequency_hours": math.inf},
        {"timeout_minutes": 1e300},
        {"queue": "gpu"},
        {"queue": None},
        {"min_interval_hours": None, "max_interval_hours": 2},
        {"min_interval_hours": 3, "max_interval_hours": 2},
        {"labels": {"": "x"}},
        {"labels": {"k\x00": "x"}},
        {"rule_set": {"a": "\x00"}},
        {"crawl_config": {}, "rule_set": {}, "labels": {}},
    ],
)
def test_a_patch_is_held_to_the_same_rules(fields: dict[str, Any]) -> None:
    def refusal(policy: PolicyInput | PolicyPatch) -> str | None:
        try:
            check(policy)
        except Invalid as error:
            return f"{error.field}: {error.message}"
        return None

    assert refusal(PolicyPatch(**fields)) == refusal(PolicyInput(url="https://a.example/", **fields))
