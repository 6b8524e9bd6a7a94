"""The examples of docs/reference/rule-set.md do what the page says."""

import json
import re
from pathlib import Path

import pytest

from opilio.bot.extract import compile_rules, extract

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "rule-set.md").read_text()
EXAMPLES = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)]
PAGE = """<html lang="vi"><h1>Lamp</h1><b class="price">1.234.000</b><i class="stock">Còn hàng</i>
<p data-sku="A1" id="reviews">1.204 reviews</p><div class="gallery"><img src="/a.jpg"><img src="/b.jpg"></div>
<table><tr><th>Price</th><td>18.00 EUR</td></tr></table><u class="lamp green"></u><u class="tag">new</u>
<script type="application/json" id="state">{"product": {"price": 1999, "currency": "EUR"}}</script></html>"""


def read(rule_set):
    return extract(PAGE.encode(), "https://shop.example/p/1", rule_set=rule_set)


@pytest.mark.parametrize("rule_set", EXAMPLES)
def test_every_example_is_a_rule_set(rule_set):
    assert compile_rules(rule_set)


def test_what_the_examples_find():
    first, table, script, lamp, data = EXAMPLES
    full = read(first)
    assert (full.price, full.currency, full.title, full.in_stock) == (1234000, "VND", "Lamp", True)
    assert full.data["images"] == ["https://shop.example/a.jpg", "https://shop.example/b.jpg"]
    assert (read(table).price, read(table).currency) == (18, "EUR")
    assert (str(read(script).price), read(script).currency) == ("19.99", "EUR")
    assert read({**table, **lamp}).in_stock is True
    assert read(data).data == {"reviews": 1204, "tags": ["new"]}
