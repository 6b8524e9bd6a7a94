"""The pages say what the code does."""

import re
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from opilio.collector.result import _FINAL, _RETRYABLE
from opilio.collector.task import Effect
from opilio.contracts.consistency import DESCRIPTIONS
from opilio.crawler.conformance import RULES
from opilio.crawler.task_output import Gathering
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
    for code in _RETRYABLE | _FINAL:
        assert f"`{code}`" in LIFECYCLE


async def test_the_example_crawler_works():
    source = re.search(r"<!-- run: crawler -->\n```python\n(.*?)```", CRAWLER, re.DOTALL).group(1)
    names: dict = {}
    exec(source, names)
    gathering = Gathering(a_task(), version="v", applied_limit=50)
    async for yielded in names["search"](a_task()):
        gathering.add(yielded)
    result = gathering.result()
    assert (result.stats.successful, result.stats.failed) == (1, 1)
