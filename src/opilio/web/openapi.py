"""The OpenAPI document, made from the endpoints and the contracts; nothing in it is written twice."""

import re
import typing
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import msgspec

import opilio
from opilio.contracts.envelope import STATUS_OF, Failure
from opilio.web.routes import Endpoint, NoQuery
from opilio.web.schema_fixes import complete

_REF = "#/components/schemas/{name}"
_PARAM = re.compile(r"\{(\w+):\w+\}")
_UUIDS = {"id"}
_BYTES = "application/octet-stream"


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """OpenAPI 3.1, as served at /schema."""
    from opilio.web.app import endpoints  # noqa: PLC0415 - the app imports this module

    every = endpoints()
    types = _types(every)
    _, components = msgspec.json.schema_components(types, ref_template=_REF)
    bodies = [
        body for endpoint in every if (body := endpoint.documented_body or endpoint.body) not in (None, bytes)
    ]
    components = complete(components, [t for t in types if t not in bodies], bodies)
    paths: dict[str, Any] = {}
    for endpoint in every:
        path = paths.setdefault(_PARAM.sub(r"{\1}", endpoint.path), {})
        path[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Opilio",
            "version": opilio.__version__,
            "description": "A crawl control plane. Bots pull jobs and submit results; programs manage policies, jobs, "
            "hosts and bots. Every answer is `{success, data}` or `{success, error: {code, message, details?}}`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The server that serves this document."}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "bot": {"type": "http", "scheme": "bearer", "description": "A bot token."},
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key: read, write or admin.",
                },
            },
        },
    }


def _types(every: list[Endpoint]) -> list[Any]:
    types: list[Any] = [Failure]
    for endpoint in every:
        types += [
            t
            for t in (*_items(endpoint.answer), endpoint.documented_body or endpoint.body)
            if t not in (None, bytes)
        ]
    return list(dict.fromkeys(types))


def _items(answer: Any) -> tuple[Any, ...]:
    """The types of an answer: of a list its items, of a choice each of them."""
    if isinstance(answer, tuple):
        return answer
    return (typing.get_args(answer)[0] if typing.get_origin(answer) is list else answer,)


def _schema(*kinds: Any) -> dict[str, Any]:
    schemas, _ = msgspec.json.schema_components(kinds, ref_template=_REF)
    return schemas[0] if len(schemas) == 1 else {"oneOf": list(schemas)}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": endpoint.handler.__name__,
        "tags": [endpoint.tag],
        "security": [{"bot": []} if endpoint.need == "bot" else {"key": []}],
        "parameters": [*_path_params(endpoint), *_query_params(endpoint)],
        "responses": _responses(endpoint),
    }
    if endpoint.need != "bot":
        operation["description"] = f"Needs the scope `{endpoint.need}`."
    if endpoint.body is not None:
        operation["requestBody"] = {"required": not endpoint.optional_body, "content": _content(endpoint)}
    return operation


def _content(endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.media_types:
        return {
            kind: {"schema": {"type": "string", "format": "binary"} if kind == _BYTES else {"type": "string"}}
            for kind in endpoint.media_types
        }
    return {"application/json": {"schema": _schema(endpoint.documented_body or endpoint.body)}}


def _path_params(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "format": "uuid"}
            if name in _UUIDS
            else {"type": "string", "minLength": 1},
        }
        for name in _PARAM.findall(endpoint.path)
    ]


def _query_params(endpoint: Endpoint) -> list[dict[str, Any]]:
    if endpoint.query is NoQuery:
        return []
    schema = msgspec.json.schema(endpoint.query)
    shape = schema["$defs"][endpoint.query.__name__]
    required = shape.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(about)}
        for name, about in shape["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query parameter is there or not; it cannot be null."""
    if "anyOf" not in schema:
        return {key: value for key, value in schema.items() if key != "default" or value is not None}
    options = [option for option in schema["anyOf"] if option != {"type": "null"}]
    return options[0] if len(options) == 1 else {"anyOf": options}


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    responses: dict[str, Any] = {str(endpoint.status): _good(endpoint)}
    codes = ["unauthorized", "forbidden", "validation_error", *endpoint.errors]
    if endpoint.body is not None:
        codes.append("payload_too_large")
    for code in codes:
        status = STATUS_OF[code]
        known = responses.setdefault(str(status), {"description": "", "content": _failure()})
        known["description"] = ", ".join(filter(None, [known["description"], f"`{code}`"]))
    return responses


def _failure() -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name="Failure")}}}


def _good(endpoint: Endpoint) -> dict[str, Any]:
    description = HTTPStatus(endpoint.status).phrase
    if endpoint.raw_answers:
        content = {kind: {"schema": {"type": "string"}} for kind in endpoint.raw_answers}
        return {"description": description, "content": content}
    data: dict[str, Any] = {}
    if endpoint.answer is not None:
        data = _schema(*_items(endpoint.answer))
        if typing.get_origin(endpoint.answer) is list:
            data = {
                "type": "object",
                "required": ["items", "next_cursor"],
                "properties": {
                    "items": {"type": "array", "items": data},
                    "next_cursor": {"type": ["string", "null"]},
                },
            }
    schema = {
        "type": "object",
        "required": ["success", "data"],
        "properties": {"success": {"const": True}, "data": data},
    }
    return {"description": description, "content": {"application/json": {"schema": schema}}}
