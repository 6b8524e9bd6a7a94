"""The AsyncAPI 3 document of every exchange, queue, key, header and message, made from the contracts."""

from collections.abc import Sequence
from typing import Any

import msgspec

from opilio import __version__
from opilio.contracts.catalog import EVENT_TYPES, EventType
from opilio.contracts.collector import (
    AnalyzeResult,
    CrawlerResult,
    CrawlRequest,
    CrawlTask,
    DataCollected,
    FlatResult,
    LegacyMessage,
)
from opilio.contracts.events import CloudEvent
from opilio.contracts.items import CollectedItem, ItemComment
from opilio.contracts.projects import ProjectCreated
from opilio.contracts.topology import DEAD_LETTERS, DELAY_SECONDS, EVENTS, Binding, Queue, Topology, topology
from opilio.contracts.webhooks import WEBHOOK_TEST
from opilio.delivery.webhooks.samples import sample

Json = dict[str, Any]
_AMQP = "0.3.0"
_HEADERS: Json = {
    "x-schema-version": {"type": "integer", "const": 1, "description": "Version of the message's shape."},
    "x-trace-id": {
        "type": "string",
        "description": "The same through everything that one cause brings about.",
    },
}
_RETRY_HEADERS: Json = {
    "retry": {"type": "boolean", "description": "True when this is not the first time."},
    "x-retries": {"type": "integer", "minimum": 1, "description": "How often a consumer asked for it again."},
    "x-reason": {"type": "string", "description": "Why it was put off, or given up."},
}
_TASK_HEADERS: Json = {
    "x-job-id": {"type": "string"},
    "x-platform": {"type": "string"},
    "x-attempt": {"type": "integer", "minimum": 1},
}
_DEAD_HEADERS: Json = {
    "x-queue": {"type": "string", "description": "The queue that gave it up."},
    "x-dead-letter-queue": {"type": "string"},
    "x-dead-letter-id": {"type": "string", "format": "uuid"},
    "x-original-exchange": {"type": "string"},
    "x-original-routing-key": {"type": "string"},
}
# What is not an event: what it says, its shapes (told apart by their fields), its headers beside the usual ones.
_PLAIN: dict[str, tuple[str, tuple[type[msgspec.Struct], ...], Json]] = {
    "crawlRequest": ("A request to crawl.", (CrawlRequest,), {}),
    "projectCreated": ("A project with keywords was made.", (ProjectCreated,), {}),
    "task": ("One keyword on one platform, for a crawler.", (CrawlTask,), _TASK_HEADERS),
    "crawlResult": ("What a crawler found.", (CrawlerResult, FlatResult), _TASK_HEADERS),
    "analyzeResult": ("How a batch was analysed.", (AnalyzeResult,), {}),
    "dataCollected": (
        "A batch of items lies in object storage, or is one item itself.",
        (DataCollected, LegacyMessage, CollectedItem),
        {},
    ),
    "retried": ("A message put off for a while.", (), _RETRY_HEADERS),
    "deadLetter": ("A message given up.", (), {**_RETRY_HEADERS, **_DEAD_HEADERS}),
}


def document(wiring: Topology | None = None) -> Json:
    wiring = wiring or topology()
    published = [event for event in EVENT_TYPES if event.name != WEBHOOK_TEST]
    channels = {**_event_channels(published), **_bound_channels(wiring), **_queue_channels(wiring)}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Opilio",
            "version": __version__,
            "description": "What Opilio says and hears on the bus. Everything is persistent (delivery_mode 2), "
            "JSON in UTF-8, delivered at least once, in order for each subject.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "rabbitmq": {
                "host": "{host}",
                "protocol": "amqp",
                "protocolVersion": "0.9.1",
                "description": "OPILIO_AMQP_URL. Without it the same queues lie in PostgreSQL.",
                "variables": {"host": {"default": "localhost:5672"}},
            }
        },
        "channels": channels,
        "operations": _operations(published, wiring),
        "components": {"messages": _messages(published), "schemas": _schemas()},
    }


def _event_channels(events: list[EventType]) -> Json:
    return {
        event.name: {
            "address": event.name,
            "title": event.name,
            "description": event.description,
            "messages": {event.name: {"$ref": f"#/components/messages/{event.name}"}},
            "bindings": {"amqp": _routing_key(EVENTS)},
        }
        for event in events
    }


def _bound_channels(wiring: Topology) -> Json:
    """What is published to an exchange and ends in a queue of ours."""
    described = {exchange.name: exchange.description for exchange in wiring.exchanges}
    return {
        f"{binding.exchange}/{_address(binding.pattern)['address']}": {
            **_address(binding.pattern),
            "title": f"{binding.exchange}: {binding.pattern}",
            "description": f"{described.get(binding.exchange, '')} Goes to the queue {queue.name}.",
            "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in _message_names(binding)},
            "bindings": {"amqp": _routing_key(binding.exchange)},
        }
        for queue in wiring.queues
        for binding in queue.bindings
    }


def _address(pattern: str) -> Json:
    """A routing pattern with its wildcards as parameters, as AsyncAPI writes addresses."""
    meanings = {"*": "One word of the routing key.", "#": "Any number of words of the routing key."}
    parameters: Json = {}
    words = []
    for word in pattern.split("."):
        if word in meanings:
            name = f"word{len(parameters) + 1}" if word == "*" else "words"
            parameters[name] = {"description": meanings[word]}
            word = f"{{{name}}}"  # noqa: PLW2901
        words.append(word)
    return {"address": ".".join(words)} | ({"parameters": parameters} if parameters else {})


def _queue_channels(wiring: Topology) -> Json:
    channels: Json = {}
    for queue in wiring.queues:
        channels[f"queue/{queue.name}"] = _queue_channel(queue.name, queue.description, _queue_message(queue))
        channels[f"queue/{queue.base}.retry"] = _delay_channel(queue)
        for name in queue.parking:
            parking = queue.parking_queue(name)
            text = f"Messages of the format {name} wait here while it is switched off."
            channels[f"queue/{parking}"] = _queue_channel(parking, text, _queue_message(queue))
        if queue.dead_letters:
            text = f"What {queue.name} gave up: the body untouched, the reason in x-reason."
            channels[f"queue/{queue.dead_letter_queue}"] = _queue_channel(
                queue.dead_letter_queue, text, "deadLetter"
            )
    return channels


def _delay_channel(queue: Queue) -> Json:
    """The delay queues of a queue, one for each length of wait."""
    channel = _queue_channel(
        f"{queue.base}.retry.{{seconds}}",
        f"Retries of {queue.name} whose wait is at most so many seconds; after its own TTL a message goes back.",
        "retried",
    )
    steps = [f"{step:g}" for step in DELAY_SECONDS]
    return channel | {"parameters": {"seconds": {"enum": steps, "description": "The longest wait."}}}


def _queue_channel(name: str, description: str, message: str) -> Json:
    return {
        "address": name,
        "title": name,
        "description": description,
        "messages": {message: {"$ref": f"#/components/messages/{message}"}},
        "bindings": {
            "amqp": {
                "is": "queue",
                "queue": {"name": name, "durable": True, "exclusive": False, "autoDelete": False},
                "bindingVersion": _AMQP,
            }
        },
    }


def _routing_key(exchange: str) -> Json:
    return {
        "is": "routingKey",
        "exchange": {"name": exchange, "type": "topic", "durable": True, "autoDelete": False},
        "bindingVersion": _AMQP,
    }


def _message_names(binding: Binding) -> list[str]:
    if binding.exchange == DEAD_LETTERS:
        return ["deadLetter"]
    return {
        "crawler.#": ["crawlRequest"],
        "project.created": ["projectCreated"],
        "crawler.*.result": ["crawlResult"],
        "analytics.result": ["analyzeResult"],
        "data.collected": ["dataCollected"],
    }.get(binding.pattern, ["retried"])


def _queue_message(queue: Queue) -> str:
    names = [name for binding in queue.bindings for name in _message_names(binding)]
    return names[0] if names else "task"


def _operations(events: list[EventType], wiring: Topology) -> Json:
    operations = {f"send-{event.name}": _operation("send", event.name) for event in events}
    for queue in wiring.queues:
        consumed_here = bool(queue.bindings)
        action = "receive" if consumed_here else "send"
        operations[f"{action}-{queue.name}"] = _operation(action, f"queue/{queue.name}")
    return operations


def _operation(action: str, channel: str) -> Json:
    amqp: Json = {"ack": True} if action == "receive" else {"deliveryMode": 2, "mandatory": True}
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel.replace('~', '~0').replace('/', '~1')}"},
        "bindings": {"amqp": {**amqp, "bindingVersion": _AMQP}},
    }


def _messages(events: list[EventType]) -> Json:
    messages: Json = {event.name: _event_message(event) for event in events}
    for name, (summary, shapes, headers) in _PLAIN.items():
        messages[name] = _message(name, summary, _one_of(shapes), headers)
    return messages


def _one_of(shapes: Sequence[type[msgspec.Struct]]) -> Json:
    """A message that was put off or given up may be any; a dead letter need not even be JSON."""
    references = [{"$ref": f"#/components/schemas/{shape.__name__}"} for shape in shapes]
    return references[0] if len(references) == 1 else {"anyOf": references} if references else {}


def _event_message(event: EventType) -> Json:
    payload = {
        "allOf": [
            {"$ref": "#/components/schemas/CloudEvent"},
            {
                "type": "object",
                "properties": {
                    "type": {"const": event.name},
                    "subject": {"type": "string", "description": f"Is {event.subject}."},
                    "data": {"$ref": f"#/components/schemas/{event.data.__name__}"},
                },
            },
        ]
    }
    message = _message(event.name, event.description, payload, {})
    return {**message, "examples": [{"name": "sample", "payload": msgspec.json.decode(sample(event))}]}


def _message(name: str, summary: str, payload: Json, headers: Json) -> Json:
    return {
        "name": name,
        "summary": summary,
        "contentType": "application/json",
        "headers": {
            "type": "object",
            "properties": {**_HEADERS, **headers},
            "required": ["x-schema-version", "x-trace-id"],
        },
        "payload": payload,
    }


def _schemas() -> Json:
    plain = [shape for _, shapes, _ in _PLAIN.values() for shape in shapes]
    structs = [CloudEvent, *(event.data for event in EVENT_TYPES), *plain, ItemComment]
    _, schemas = msgspec.json.schema_components(
        dict.fromkeys(structs), ref_template="#/components/schemas/{name}"
    )
    comments = schemas[CollectedItem.__name__]["properties"]["comments"]
    comments["items"] = {"$ref": f"#/components/schemas/{ItemComment.__name__}"}  # read one by one
    return _numbers(schemas)  # type: ignore[no-any-return]


def _numbers(node: Any) -> Any:
    """Decimals are JSON numbers here, with all their digits."""
    if isinstance(node, dict):
        if node.get("format") == "decimal":
            return {"type": "number"}
        return {key: _numbers(value) for key, value in node.items()}
    return [_numbers(item) for item in node] if isinstance(node, list) else node
