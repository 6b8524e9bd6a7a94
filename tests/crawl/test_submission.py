"""What a bot may submit, before the job it speaks of is looked at."""

from decimal import Decimal
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.bounded_json import DEEPEST, exact_number
from opilio.contracts.bot_api import Outcome, SubmitRequest
from opilio.crawl.submission import Submission, parse
from opilio.errors import Invalid

JOB = uuid4()


def body(fields: str) -> bytes:
    return f'{{"job_id": "{JOB}", {fields}}}'.encode()


def read(fields: str) -> Submission:
    """Through the decoder that the server uses."""
    return parse("bot-1", msgspec.json.Decoder(Outcome, float_hook=exact_number).decode(body(fields)))


def test_it_works() -> None:
    sent = read('"success": true, "price": 19.990, "currency": "usd", "title": "Lamp", "in_stock": true')
    assert sent.values.price == Decimal("19.990")
    assert str(sent.values.price) == "19.990", "a price keeps its digits"
    assert sent.values.currency == "USD"


def test_data_alone_is_a_result() -> None:
    assert read('"success": true, "data": {"rating": 4}').outcome.data == {"rating": 4}


@pytest.mark.parametrize(
    "fields", ['"success": true', '"success": true, "data": {}', '"success": true, "currency": "USD"']
)
def test_a_success_says_something(fields: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read(fields)
    assert refusal.value.field == "price"


def test_a_price_has_a_currency() -> None:
    with pytest.raises(Invalid) as refusal:
        read('"success": true, "price": 5')
    assert refusal.value.field == "currency"


def test_a_failure_needs_nothing() -> None:
    assert read('"success": false').outcome.success is False


@pytest.mark.parametrize("price", ["99.90", '"99.90"'])
def test_a_price_may_be_a_number_or_its_digits_as_a_text(price: str) -> None:
    assert str(read(f'"success": true, "currency": "USD", "price": {price}').values.price) == "99.90"


@pytest.mark.parametrize(
    "price", ['""', '"5 USD"', '"1e3"', '" 5"', "true", "{}", "[5]", '"NaN"', "-1", "-0.01", "-1e5"]
)
def test_what_is_no_price(price: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read(f'"success": true, "currency": "USD", "price": {price}')
    assert refusal.value.field == "price"


@pytest.mark.parametrize(
    "price", ["1e18", "1e400", "0e9999999999999999999", "1e-400", "0.1234567", "1" * 19, "9" * 5000]
)
def test_a_price_that_no_shop_has(price: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read(f'"success": true, "currency": "USD", "price": {price}')
    assert refusal.value.field == "price"


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("0.000001", "0.000001"),
        ("999999999999999999", "999999999999999999"),
        ("1e3", "1000"),
    ],
)
def test_prices_are_exact(text: str, price: str) -> None:
    found = read(f'"success": true, "currency": "USD", "price": {text}').values.price
    assert found == Decimal(price)
    assert found is not None
    assert not found.is_signed()


@pytest.mark.parametrize("price", ["NaN", "Infinity", "-Infinity", "1_000", "0x10", "+5", "01", ".5", "5."])
def test_what_is_not_even_json(price: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        read(f'"success": true, "currency": "USD", "price": {price}')


@pytest.mark.parametrize("field", ["title", "error_msg", "error_code", "html_hash"])
@pytest.mark.parametrize("character", ["\\u0000", "\\u0007", "\\u001b", "\\u007f"])
def test_control_characters(field: str, character: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read(f'"success": false, "{field}": "a{character}b"')
    assert refusal.value.field == field


def test_lines_and_tabs_are_no_control_characters() -> None:
    assert read('"success": false, "error_msg": "a\\n\\tb\\r"').outcome.error_msg == "a\n\tb\r"


@pytest.mark.parametrize("data", ['{"a": "\\u0000"}', '{"\\u0000": 1}', '{"a": [{"b": "x\\u0000"}]}'])
def test_nul_at_any_depth(data: str) -> None:
    with pytest.raises(Invalid, match=r"U\+0000") as refusal:
        read(f'"success": true, "data": {data}')
    assert refusal.value.field == "data"


def test_nul_in_a_page_is_what_html_makes_of_it() -> None:
    assert read('"success": true, "data": {"a": 1}, "raw_html": "<p>\\u0000"').page == "<p>\ufffd"


@pytest.mark.parametrize("nest", ['{{"a": {}}}', "[{}]"])
def test_depth(nest: str) -> None:
    value = "1"
    for _ in range(DEEPEST - 1):
        value = nest.format(value)
    assert read(f'"success": true, "data": {{"a": {value}}}').outcome.data
    value = nest.format(value)
    with pytest.raises(Invalid, match="nested") as refusal:
        read(f'"success": true, "data": {{"a": {value}}}')
    assert refusal.value.field == "data"


@pytest.mark.parametrize(
    "fields",
    [
        '"success": 1', '"success": "true"', '"success": true, "title": 5', '"success": true, "in_stock": "yes"',
        '"success": true, "in_stock": 1', '"success": true, "data": []', '"success": true, "currency": "US"',
        '"success": true, "currency": "USDT"', '"success": true, "currency": "U$D"', '"success": true, "crawl_duration": -1',
        '"success": true, "crawl_duration": "1"', '"success": false, "retry_after": -1', '"success": true, "unknown": 1',
        '"success": true, "lock_token": "x"', '"success": true, "title": "' + "a" * 2001 + '"', '"success": null',
        '"success": true, "crawl_duration": 86401', '"success": false, "error_code": ""',
    ],
)  # fmt: skip
def test_wrong_types_are_refused_not_coerced(fields: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(fields)


@pytest.mark.parametrize("number", ["1e400", "-1e309", "1e-20000", "9" * 101, "0." + "7" * 101])
def test_numbers_that_no_double_holds(number: str) -> None:
    for data in (f'{{"a": {number}}}', f'{{"a": [{{"b": {number}}}]}}'):
        with pytest.raises(Invalid, match="out of range") as refusal:
            read(f'"success": true, "data": {data}')
        assert refusal.value.field == "data"


@pytest.mark.parametrize("number", ["1e308", "5e-324", "-0.0", "9" * 100, "0", "12.50"])
def test_numbers_that_are_stored(number: str) -> None:
    assert read(f'"success": true, "data": {{"a": {number}}}').outcome.data


def test_what_is_said_is_recognised_whatever_the_token() -> None:
    one, two = (read(f'"success": true, "data": {{"a": 1}}, "lock_token": "{uuid4()}"') for _ in range(2))
    assert one.claim.digest == two.claim.digest
    assert one.claim.digest != read('"success": true, "data": {"a": 2}').claim.digest


def test_a_batch_item_and_a_submit_say_the_same() -> None:
    request = msgspec.json.decode(
        body('"bot_id": "bot-1", "success": true, "data": {"a": 1}'), type=SubmitRequest
    )
    assert parse("bot-1", request).claim.digest == read('"success": true, "data": {"a": 1}').claim.digest


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(Outcome.__struct_fields__, JSON)))
def test_no_body_is_too_strange_to_be_answered(fields: dict[str, object]) -> None:
    raw = msgspec.json.encode({"job_id": str(JOB), "success": True} | fields)
    try:
        sent = parse("bot-1", msgspec.json.decode(raw, type=Outcome))
    except msgspec.ValidationError:
        return
    except Invalid as refusal:
        assert refusal.field in Outcome.__struct_fields__
        return
    assert not sent.outcome.success or sent.values.price is not None or sent.outcome.data
