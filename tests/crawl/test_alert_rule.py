"""When a value alert fires, as a pure rule."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.contracts.alerts import AlertInput, AlertScope
from opilio.crawl.alert import Alert, AlertState, check, judge
from opilio.crawl.history import Values
from opilio.errors import Invalid

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def alert(when: str, value: Any = None, field: str = "price", **fields: Any) -> Alert:
    limit = None if value is None else Decimal(str(value))
    return Alert(
        uuid4(), "x", field, when, limit, fields.get("currency"), fields.get("cooldown", timedelta(days=1))
    )


def price(amount: Any, currency: str = "USD") -> Values:
    return Values(price=Decimal(str(amount)), currency=currency)


def story(alert: Alert, *found: Values, hours: float = 1) -> list[int]:
    """The positions at which it fired, one crawl every few hours."""
    known, state, fired = Values(), AlertState(), []
    for position, values in enumerate(found):
        firing, state = judge(alert, known, values, state, NOW + timedelta(hours=hours * position))
        known = values
        if firing:
            fired.append(position)
    return fired


def test_below_fires_once_and_again_after_it_was_above() -> None:
    assert story(alert("below", 100), *map(price, (120, 90, 80, 110, 95))) == [1, 4]


def test_above_is_the_mirror() -> None:
    assert story(alert("above", 100), *map(price, (90, 120, 130, 100, 101))) == [1, 4]


def test_a_first_value_beyond_the_limit_fires() -> None:
    assert story(alert("below", 100), price(90)) == [0]


def test_a_lasting_condition_is_alerted_again_after_the_cooldown() -> None:
    assert story(alert("below", 100), *map(price, (90, 90, 90, 90)), hours=12) == [0, 2]


def test_changed_needs_an_earlier_value_and_keeps_the_cooldown() -> None:
    assert story(alert("changed"), *map(price, (10, 10, 11, 12)), hours=1) == [2]
    assert story(alert("changed", cooldown=timedelta(0)), *map(price, (10, 11, 12))) == [1, 2]


def test_changed_percent_goes_by_the_size_of_the_move_in_either_direction() -> None:
    free = timedelta(0)
    assert story(alert("changed_percent", 10, cooldown=free), *map(price, (100, 109, 98, 107.7, 120))) == [
        2,
        4,
    ]


def test_ten_and_ten_point_zero_are_the_same_price() -> None:
    assert story(alert("changed"), price("10"), price("10.00")) == []


def test_stock_that_returns_is_alerted_every_time() -> None:
    found = [Values(in_stock=value) for value in (True, False, True, False, True)]
    assert story(alert("back_in_stock", field="in_stock"), *found) == [2, 4]


def test_the_first_look_at_a_page_in_stock_is_no_return() -> None:
    assert story(alert("back_in_stock", field="in_stock"), Values(in_stock=True)) == []


def test_prices_of_another_currency_are_never_compared() -> None:
    assert story(alert("changed_percent", 5), price(100, "USD"), price(2_500_000, "VND")) == []
    assert story(alert("below", 100, currency="usd"), price(90, "EUR"), price(90, "USD")) == [1]


def test_a_crawl_that_does_not_report_the_field_changes_nothing() -> None:
    assert story(alert("below", 100), price(90), Values(title="x"), price(80)) == [0]


def test_values_of_data_by_key_and_by_path() -> None:
    flat = [Values(data={"rating": rating}) for rating in (4.5, 3.0)]
    nested = [Values(data={"seller": {"rating": rating}}) for rating in (4.5, 3.0)]
    assert story(alert("below", 4, field="data.rating"), *flat) == [1]
    assert story(alert("changed", field="data.seller.rating"), *nested) == [1]


def test_a_percentage_beyond_all_precision_is_still_an_answer() -> None:
    huge = [Values(data={"x": number}) for number in (1e-300, 1e300)]
    assert story(alert("changed_percent", 10, field="data.x"), *huge) == [1]


@given(st.lists(st.integers(1, 200), min_size=1, max_size=30), st.integers(1, 200))
def test_within_the_cooldown_below_fires_at_every_crossing_and_nowhere_else(
    prices: list[int], limit: int
) -> None:
    crossings = [
        position
        for position, amount in enumerate(prices)
        if amount < limit and (position == 0 or prices[position - 1] >= limit)
    ]
    assert story(alert("below", limit), *map(price, prices), hours=0.1) == crossings


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"scope": AlertScope()}, "scope"),
        ({"scope": AlertScope(all=True, host="a.example")}, "scope"),
        ({"when": "below"}, "value"),
        ({"when": "changed", "value": Decimal(1)}, "value"),
        ({"when": "below", "value": Decimal("Infinity")}, "value"),
        ({"when": "changed_percent", "value": Decimal(0)}, "value"),
        ({"when": "below", "value": Decimal(1), "field": "title"}, "when"),
        ({"when": "back_in_stock"}, "when"),
        ({"field": "title", "currency": "USD"}, "currency"),
    ],
)
def test_what_could_never_fire_is_refused(fields: dict[str, Any], field: str) -> None:
    wanted = AlertInput(name="x", scope=AlertScope(all=True), field="price", when="changed")
    with pytest.raises(Invalid) as refusal:
        check(msgspec.structs.replace(wanted, **fields))
    assert refusal.value.field == field
