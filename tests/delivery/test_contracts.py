"""The contracts as documents: AsyncAPI, golden samples, and the reference page that lists them."""

import json
import re
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest

from opilio.contracts.catalog import EVENT_TYPES
from opilio.contracts.topology import topology
from opilio.delivery.asyncapi import document
from opilio.delivery.webhooks.samples import sample

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "events"


@pytest.mark.parametrize("event", EVENT_TYPES, ids=lambda event: event.name)
def test_events_look_as_they_always_did(event):
    """A golden file changes only together with the version of its event, or by adding a field."""
    golden = (GOLDEN / f"{event.name}.v{event.version}.json").read_text(encoding="utf-8")
    assert json.loads(sample(event)) == json.loads(golden)
    decoded = msgspec.json.decode(msgspec.json.encode(json.loads(golden)["data"]), type=event.data)
    assert decoded == event.sample


def test_every_golden_file_belongs_to_an_event():
    expected = {f"{event.name}.v{event.version}.json" for event in EVENT_TYPES}
    assert {path.name for path in GOLDEN.iterdir()} == expected


def _references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def _resolve(root, reference):
    node = root
    for part in reference.removeprefix("#/").split("/"):
        node = node[part.replace("~1", "/").replace("~0", "~")]
    return node


def test_every_reference_of_the_asyncapi_document_leads_somewhere():
    found = document()
    references = list(_references(found))
    assert len(references) > 50
    for reference in references:
        assert isinstance(_resolve(found, reference), dict), reference


def test_the_asyncapi_document_has_the_shape_of_version_3():
    found = document()
    assert found["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= found["info"].keys()
    for server in found["servers"].values():
        assert {"host", "protocol"} <= server.keys()
    for channel in found["channels"].values():
        assert channel.keys() <= {"address", "parameters", "title", "description", "messages", "bindings"}
        assert channel["messages"]
        assert channel["bindings"]["amqp"]["is"] in ("queue", "routingKey")
    for operation in found["operations"].values():
        assert operation["action"] in ("send", "receive")
        assert operation.keys() == {"action", "channel", "bindings"}
    for message in found["components"]["messages"].values():
        assert message["headers"]["required"] == ["x-schema-version", "x-trace-id"]
        assert "payload" in message


MESSAGES = (ROOT / "docs" / "reference" / "messages.md").read_text(encoding="utf-8")
SAMPLES = re.findall(r"<!-- message: \S+\.(\w+) -->\n```json\n(.*?)```", MESSAGES, re.DOTALL)
NAMES = {
    "CrawlRequest": "crawlRequest",
    "ProjectCreated": "projectCreated",
    "CrawlTask": "task",
    "DataCollected": "dataCollected",
    "LegacyMessage": "dataCollected",
    "CollectedItem": "dataCollected",
    "CrawlerResult": "crawlResult",
    "FlatResult": "crawlResult",
    "AnalyzeResult": "analyzeResult",
}


def test_every_message_of_the_reference_is_described_with_its_fields():
    found = document()
    schemas = found["components"]["schemas"]
    samples = {kind: json.loads(text) for kind, text in SAMPLES if kind in NAMES}
    assert samples.keys() == NAMES.keys()
    for kind, sample_ in samples.items():
        payload = found["components"]["messages"][NAMES[kind]]["payload"]
        jsonschema_rs.validate(payload | {"components": found["components"]}, sample_)
        assert sample_.keys() <= schemas[kind]["properties"].keys()
        broken = sample_ | dict.fromkeys(schemas[kind]["required"], 7.5)
        with pytest.raises(jsonschema_rs.ValidationError):
            jsonschema_rs.validate(payload | {"components": found["components"]}, broken)


def test_every_exchange_queue_and_event_is_in_the_asyncapi_document():
    found = document()
    bindings = [channel["bindings"]["amqp"] for channel in found["channels"].values()]
    queues = {binding["queue"]["name"] for binding in bindings if binding["is"] == "queue"}
    exchanges = {binding["exchange"]["name"] for binding in bindings if binding["is"] == "routingKey"}
    wiring = topology()
    declared = {name for q in wiring.queues for name in (q.name, f"{q.base}.retry.{{seconds}}")}
    declared |= {q.parking_queue(name) for q in wiring.queues for name in q.parking}
    declared |= {q.dead_letter_queue for q in wiring.queues if q.dead_letters}
    assert queues == declared
    assert exchanges == {exchange.name for exchange in wiring.exchanges}
    assert {event.name for event in EVENT_TYPES} - found["channels"].keys() == {"webhook.test"}


def test_the_reference_page_lists_every_event_and_its_fields():
    page = (ROOT / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
    for event in EVENT_TYPES:
        assert f"`{event.name}`" in page
        for field in msgspec.structs.fields(event.data):
            assert f"`{field.name}`" in page, f"{event.name}: {field.name}"
