"""Saved pages of many layouts, currencies and degrees of malice: the right values, or a coded error."""

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from opilio.bot.errors import CrawlError
from opilio.bot.extract import MAX_BYTES, extract
from opilio.contracts.codes import ErrorCode

pytestmark = pytest.mark.filterwarnings("ignore:Input data is too big")

PAGES = Path(__file__).parent / "pages"
EXPECTED = json.loads((PAGES / "expected.json").read_text())


def extracted(name: str):
    wanted = EXPECTED[name]
    body = (PAGES / name).read_bytes()
    return extract(body, wanted["url"], wanted.get("content_type"), wanted.get("rule_set"))


def test_there_are_enough_pages():
    assert len(EXPECTED) >= 60
    assert {path.name for path in PAGES.iterdir()} == {*EXPECTED, "expected.json"}


@pytest.mark.parametrize("name", [name for name, wanted in EXPECTED.items() if "error" not in wanted])
def test_values(name):
    wanted, result = EXPECTED[name], extracted(name)
    price = None if wanted["price"] is None else Decimal(wanted["price"])
    assert (result.price, result.currency) == (price, wanted["currency"])
    assert str(result.price) == str(price)
    if wanted["title"] is not None:
        assert result.title == wanted["title"]
    assert result.in_stock is wanted["in_stock"]
    assert (wanted.get("data") or {}).items() <= (result.data or {}).items()
    assert len(result.html_hash) == 64


@pytest.mark.parametrize("name", [name for name, wanted in EXPECTED.items() if "error" in wanted])
def test_errors(name):
    with pytest.raises(CrawlError) as raised:
        extracted(name)
    assert raised.value.code == EXPECTED[name]["error"]


LARGE = """
import resource, sys, time
from opilio.bot.errors import CrawlError
from opilio.bot.extract import extract

block = b'<div itemscope itemtype="http://schema.org/Product"><b itemprop=name>x</b><i class="p">5 EUR</i></div>'
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
body = block * (int(sys.argv[1]) // len(block))
start = time.process_time()
try:
    print(extract(body, "https://shop.example/", None, {"price": ".p"}).price)
except CrawlError as error:
    print(error.code)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
print(time.process_time() - start)
"""


def read_large(size: int) -> tuple[str, float, float]:
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(size)], capture_output=True, text=True, check=True
    )
    verdict, kilobytes, seconds = done.stdout.split()
    scale = 1 if sys.platform != "darwin" else 1 / 1024
    return verdict, int(kilobytes) * scale / 1024, float(seconds)


def test_a_page_of_30_mb_is_refused_before_it_is_read_into_memory():
    verdict, megabytes, _ = read_large(30 * 1024 * 1024)
    assert verdict == ErrorCode.MEDIA_TOO_LARGE
    assert megabytes < 60


def test_the_largest_page_that_is_read_is_bounded_in_memory_and_time():
    verdict, megabytes, seconds = read_large(MAX_BYTES - 1024)
    assert verdict == "5"
    assert megabytes < 500
    assert seconds < 30


def test_the_hash_is_of_what_a_reader_sees():
    def hashed(html: str) -> str:
        return extract(html.encode(), rule_set={"data": {"h": "h1"}}).html_hash

    page = "<html><head><script>var t = 1</script></head><body><h1>A</h1>  <p>b c</p></body></html>"
    same = (
        "<html><head><script>var t = 2</script></head><body><!-- x --><h1>A</h1>\n<p>b\n c</p></body></html>"
    )
    other = page.replace("b c", "b d")
    assert hashed(page) == hashed(same)
    assert hashed(page) != hashed(other)
