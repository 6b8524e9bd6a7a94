"""The pieces of extraction: money, availability, rules; and that nothing crashes them."""

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.bot.errors import CrawlError
from opilio.bot.extract import compile_rules, extract, parse_availability, parse_money
from opilio.bot.extract.transforms import SIMPLE, WITH_ARGUMENT

URL = "https://shop.example/p/1"


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("1.234.000 ₫", "1234000", "VND"),
        ("1.234.000₫", "1234000", "VND"),
        ("₫1.234.000", "1234000", "VND"),
        ("đ 350.000", "350000", "VND"),
        ("89.000đ", "89000", "VND"),
        ("89.000 Đ", "89000", "VND"),
        ("1.290.000 VNĐ", "1290000", "VND"),
        ("1,290,000 VND", "1290000", "VND"),
        ("Giá từ 1.290.000 đồng", "1290000", "VND"),
        ("1,2 triệu", "1200000", "VND"),
        ("1.2 triệu", "1200000", "VND"),
        ("12.5tr", "12500000", "VND"),
        ("1tr2", "1200000", "VND"),
        ("1tr290", "1290000", "VND"),
        ("1 triệu 290 nghìn", "1290000", "VND"),
        ("1.290 triệu", "1290000000", "VND"),
        ("1 tỷ 250 triệu", "1250000000", "VND"),
        ("350 ngàn", "350000", "VND"),
        ("999k", "999000", "VND"),
        ("999K", "999000", "VND"),
        ("99,5k", "99500", "VND"),
        ("Từ 500k đến 1tr", "500000", "VND"),
        ("Tivi 4K 55 inch 12.990.000đ", "12990000", "VND"),
        ("50.000 - 99.000 ₫", "50000", "VND"),
        ("1.234.000 ₫ -20%", "1234000", "VND"),
        ("$1,299.00", "1299.00", None),
        ("US$ 1,234", "1234", "USD"),
        ("1.299,00 €", "1299.00", "EUR"),
        ("1 299,00 €", "1299.00", "EUR"),
        ("1\u202f299,00\u00a0€", "1299.00", "EUR"),
        ("29€95", "29.95", "EUR"),
        ("19 \u2013 29 €", "19", "EUR"),
        ("0,99 €", "0.99", "EUR"),
        ("KWD 1.250", "1.250", "KWD"),
        ("0.125 USD", "0.125", "USD"),
        ("1234567", "1234567", None),
        ("kr 1 299", "1299", None),
        ("¥12,800", "12800", None),
        ("１２８００円", "12800", "JPY"),
        ("$1.5k", "1500", None),
        ("US$1.5k", "1500", "USD"),
        ("1.5k USD", "1500", "USD"),
        ("€2k", "2000", "EUR"),
        ("2k €", "2000", "EUR"),
        ("$1k-$2k", "1000", None),
        ("$1.2M", "1200000", None),
        ("US$ 2bn", "2000000000", "USD"),
        ("£1.5 million", "1500000", "GBP"),
        ("4K TV $500", "500", None),
        ("4K TV 500 USD", "500", "USD"),
        ("4K TV $1.5k", "1500", None),
        ("TV 4K giá 12 triệu", "12000000", "VND"),
        ("Màn hình 2K 3,5 triệu", "3500000", "VND"),
        ("1 triệu 290 nghìn đồng", "1290000", "VND"),
        ("5 ft cable, $20", "20", None),
        ("giá 4k", "4000", "VND"),
    ],
)
def test_money(text, amount, currency):
    assert parse_money(text) == (Decimal(amount), currency)


@pytest.mark.parametrize("text", ["", "Liên hệ", "call us", "—", "-5 €", "9" * 40, "4K UHD", "2K monitor"])
def test_no_money(text):
    assert parse_money(text) is None


def test_a_region_settles_what_a_sign_leaves_open():
    assert parse_money("$5", regions=["AU"]).currency == "AUD"
    assert parse_money("5 kr", regions=["NO"]).currency == "NOK"
    assert parse_money("$5", regions=["VN"]).currency is None
    assert parse_money("€5", regions=["US"]).currency == "EUR"


def test_free_is_a_price():
    assert parse_money("Miễn phí", "VND") == (0, "VND")


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ("https://schema.org/InStock", True),
        ("http://schema.org/OutOfStock", False),
        ("schema.org/PreOrder/", False),
        ("LimitedAvailability", True),
        ("In stock, 3 left", True),
        ("Not in stock", False),
        ("currently unavailable", False),
        ("Còn hàng", True),
        ("Hết hàng", False),
        ("Chưa có hàng", False),
        ("true", True),
        (0, False),
        (7, True),
        (True, True),
        ("ships in two weeks", None),
        ("", None),
        (None, None),
        ([], None),
    ],
)
def test_availability(value, verdict):
    assert parse_availability(value) is verdict


def find(html: str, rule: object) -> object:
    """What a rule finds, seen through `data`; None when it finds nothing."""
    rules = {"data": {"x": rule, "always": {"value": 1}}, "auto": False}
    return extract(html.encode(), URL, rule_set=rules).data.get("x")


PAGE = '<p class="a"> One <b>two</b> </p><p class="a">Three</p><a href="/x?y=1">link</a><i></i>'


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (".a", "One two"),
        ({"css": ".a::text"}, " One "),
        ({"css": ".a", "all": True}, ["One two", "Three"]),
        ({"css": "a", "attr": "href"}, "/x?y=1"),
        ({"css": "a::attr(href)", "transform": ["absolute_url"]}, "https://shop.example/x?y=1"),
        ({"xpath": "//p[2]"}, "Three"),
        ({"xpath": "count(//p)"}, "2.0"),
        ({"css": ".a", "regex": "(T.*)"}, "Three"),
        ({"regex": "href=.(?P<value>[^\"']+)"}, "/x?y=1"),
        ({"value": 7}, 7),
        ([".missing", "i", "a"], "link"),
        ({"css": ".missing", "default": "none"}, "none"),
        (".missing", None),
        ({"css": "a", "transform": ["upper", {"suffix": "!"}, {"prefix": "> "}]}, "> LINK!"),
        ({"css": ".a", "transform": [{"split": [" ", -1]}, {"replace": ["two", "2"]}, "integer"]}, 2),
    ],
)
def test_rules(rule, value):
    assert find(PAGE, rule) == value


@pytest.mark.parametrize(
    ("rule_set", "message"),
    [
        ([], "object"),
        ({"colour": ".c"}, "'colour' is not a field"),
        ({"price": {}}, "has no selector"),
        ({"price": []}, "no rule"),
        ({"price": {"css": ".a", "xpath": "//a"}}, "not several"),
        ({"price": {"css": "a["}}, "price"),
        ({"price": {"xpath": "//["}}, "price"),
        ({"price": {"regex": "("}}, "price"),
        ({"price": {"json": "$["}}, "price"),
        ({"price": {"css": ".a", "colour": 1}}, "colour"),
        ({"price": {"css": 5}}, "css"),
        ({"price": {"css": ".a", "transform": ["nope"]}}, "no transform 'nope'"),
        ({"price": {"css": ".a", "transform": [{"nope": 1}]}}, "no transform 'nope'"),
        ({"price": {"css": ".a", "transform": [{"multiply": "2"}]}}, "multiply takes a number"),
        ({"price": {"css": ".a", "transform": [{"map": []}]}}, "map takes an object"),
        ({"data": []}, "data must be an object"),
        ({"auto": 1}, "auto must be"),
    ],
)
def test_a_wrong_rule_set_is_named(rule_set, message):
    with pytest.raises(CrawlError, match="rule_set") as raised:
        compile_rules(rule_set or [None])
    assert raised.value.code == "PARSE_ERROR"
    assert message in raised.value.message


def test_json_numbers_stay_exact():
    page = json.dumps({"p": "x"}).replace('"x"', "19.990")
    result = extract(page.encode(), URL, rule_set={"price": {"json": "$.p"}, "currency": {"value": "EUR"}})
    assert str(result.price) == "19.990"


def test_every_transform_is_documented():
    from pathlib import Path

    reference = Path(__file__).parents[2] / "docs" / "reference" / "rule-set.md"
    text = reference.read_text()
    assert [name for name in (*SIMPLE, *WITH_ARGUMENT) if f"`{name}`" not in text] == []


def code_or_price(body: bytes):
    try:
        return extract(body, URL).price
    except CrawlError as error:
        return error.code


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_bytes_of_any_kind_are_read_or_refused(body):
    assert code_or_price(body) == "PARSE_ERROR"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["@type", "@graph", "offers", "price", "priceCurrency", "name", "url", "priceSpecification"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(json_values)
def test_json_ld_of_any_shape_is_read_or_refused(value):
    block = json.dumps([{"@type": "Product", "offers": value}, value])
    page = f'<script type="application/ld+json">{block}</script>'
    read = code_or_price(page.encode("utf-8", "replace"))
    assert read == "PARSE_ERROR" or read >= 0


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_text_of_any_kind_is_money_or_not(text):
    money = parse_money(text)
    assert money is None or money.amount >= 0


@given(st.integers(min_value=1000, max_value=10**12))
def test_vietnamese_grouping_is_never_taken_for_decimals(amount):
    text = f"{amount:,}".replace(",", ".") + " ₫"
    assert parse_money(text) == (amount, "VND")
