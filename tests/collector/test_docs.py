"""The pages say what the code does."""

import re
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from opilio.collector.formats import Envelope, read
from opilio.collector.result import RETRYABLE_CODES
from opilio.collector.task import Effect
from opilio.contracts.consistency import DESCRIPTIONS
from opilio.crawler.conformance import RULES
from opilio.crawler.task_output import TaskOutput
from tests.crawler.recording_link import a_task

DOCS = Path(__file__).parents[2] / "docs"
MESSAGES = (DOCS / "reference/messages.md").read_text()
CRAWLER = (DOCS / "how-to/write-a-crawler.md").read_text()
LIFECYCLE = (DOCS / "explanation/project-lifecycle.md").read_text()
SAMPLES = re.findall(r"<!-- message: (\S+) -->\n```json\n(.*?)```", MESSAGES, re.DOTALL)


@pytest.mark.parametrize(("name", "sample"), SAMPLES)
def test_every_sample_is_a_message(name, sample):
    module, _, kind = name.rpartition(".")
    struct = getattr(import_module(module), kind)
    read = msgspec.json.decode(sample, type=struct)
    again = msgspec.json.decode(msgspec.json.encode(read))
    assert {*msgspec.json.decode(sample)} <= {*again}, "the sample has a field that the message does not"


def test_the_sample_result_keeps_its_own_contract():
    """Read as the collector reads it: no rule is broken, and the kit would not complain either."""
    [sample] = [body for name, body in SAMPLES if name.endswith("CrawlerResult")]
    result = read(sample.encode(), Envelope("crawler.tiktok.result"))
    assert (result.violations, result.successful, result.failed) == ((), 2, 1)


def test_there_is_a_sample_of_every_message():
    assert len(SAMPLES) == 10


def table(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", text, re.MULTILINE))


def test_the_rules_are_the_code_s():
    assert table(MESSAGES) == dict(DESCRIPTIONS)
    assert table(CRAWLER) == {name: text for name, text in RULES.items() if name not in DESCRIPTIONS}


def test_the_effects_and_the_codes_are_the_code_s():
    told = re.findall(r"^\| (\w+) \| .+ \| .+ \|$", LIFECYCLE, re.MULTILINE)
    assert set(told) == {effect.value for effect in Effect}
    for code in ("SEARCH_FAILED", "RATE_LIMITED", "TIMEOUT"):
        assert code in RETRYABLE_CODES
        assert f"`{code}`" in LIFECYCLE
    for code in ("RATE_LIMITED_PERMANENT", "AUTH_FAILED", "INVALID_KEYWORD", "BLOCKED"):
        assert code not in RETRYABLE_CODES
        assert f"`{code}`" in LIFECYCLE


async def test_the_example_crawler_works():
    source = re.search(r"<!-- run: crawler -->\n```python\n(.*?)```", CRAWLER, re.DOTALL).group(1)
    names: dict = {}
    exec(source, names)
    output = TaskOutput(a_task(), version="v", applied_limit=50)
    async for yielded in names["search"](a_task()):
        output.add(yielded)
    result = output.result()
    assert (result.stats.successful, result.stats.failed) == (1, 1)
