"""The typed value history: which values changed, and what is remembered."""

from decimal import Decimal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from opilio.crawl.history import Change, Values, changes, remembered, tracked


def test_it_works() -> None:
    old = Values(Decimal("19.99"), "USD", "Lamp", True)
    new = Values(Decimal("17.50"), "USD", "Lamp", False)
    assert changes(old, new) == [
        Change("price", Decimal("19.99"), Decimal("17.50")),
        Change("in_stock", True, False),
    ]


def test_the_first_crawl_reports_every_value() -> None:
    found = changes(Values(), Values(Decimal(5), "EUR", "Lamp", True, {"rating": 4}))
    assert [(c.field, c.old) for c in found] == [
        ("price", None), ("currency", None), ("title", None), ("in_stock", None), ("data.rating", None),
    ]  # fmt: skip


def test_equal_amounts_are_equal() -> None:
    assert changes(Values(price=Decimal("10.0")), Values(price=Decimal("10.00"))) == []


def test_true_is_not_one() -> None:
    assert changes(Values(data={"a": 1}), Values(data={"a": True})) == [Change("data.a", 1, True)]


def test_what_a_crawl_did_not_report_did_not_change() -> None:
    old = Values(Decimal(5), "EUR", "Lamp", True, {"rating": 4})
    assert changes(old, Values(data={"colour": "red"})) == [Change("data.colour", None, "red")]
    assert remembered(old, Values(data={"colour": "red"})) == {"colour": "red", "rating": 4}
    assert remembered(old, Values(price=Decimal(6))) is None, "what is remembered stays as it is"


def test_nested_values_have_no_history() -> None:
    assert tracked({"a": {"b": 1}, "c": [1], "d": 2}) == {"d": 2}


def test_only_so_much_is_tracked() -> None:
    assert len(tracked({f"k{n}": n for n in range(500)})) == 50
    assert tracked({"a": "x" * 5000}) == {"a": "x" * 500}


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=600),
)  # fmt: skip
DATA = st.dictionaries(st.text(min_size=1, max_size=5), SCALARS, max_size=60)
VALUES = st.builds(
    Values,
    price=st.one_of(st.none(), st.decimals(0, 10**9, places=4)),
    currency=st.one_of(st.none(), st.sampled_from(["USD", "VND"])),
    title=st.one_of(st.none(), st.text(max_size=20)),
    in_stock=st.one_of(st.none(), st.booleans()),
    data=st.one_of(st.none(), DATA),
)


def merged(old: Values, new: Values) -> Values:
    """What the database knows after a crawl: it keeps the last known value of each field itself."""
    return Values(
        price=old.price if new.price is None else new.price,
        currency=old.currency if new.currency is None else new.currency,
        title=old.title if new.title is None else new.title,
        in_stock=old.in_stock if new.in_stock is None else new.in_stock,
        data=remembered(old, new) or old.data,
    )


def through_the_database(values: Values) -> Values:
    """What comes back is not what went in: numbers with a fraction are decimals then."""
    body = msgspec.json.Encoder(decimal_format="number").encode(values.data)
    return Values(
        values.price,
        values.currency,
        values.title,
        values.in_stock,
        msgspec.json.Decoder(float_hook=Decimal).decode(body),
    )


@given(VALUES, VALUES)
def test_the_same_crawl_twice_changes_nothing(old: Values, new: Values) -> None:
    assert changes(through_the_database(merged(old, new)), new) == []


@given(VALUES, VALUES)
def test_a_change_is_from_the_old_to_the_new(old: Values, new: Values) -> None:
    for change in changes(old, new):
        assert change.new is not None
        assert change.old != change.new or isinstance(change.old, bool) != isinstance(change.new, bool)
