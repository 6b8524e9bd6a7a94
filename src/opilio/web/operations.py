"""The operations of the OpenAPI document as people read them: fields in words, an example, a curl command."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from opilio.web.openapi import document

_DEEPEST = 3
_NO_DEFAULT = object()
_EXAMPLES = {
    "uuid": "00000000-0000-0000-0000-000000000000",
    "date-time": "2030-01-01T00:00:00Z",
    "url": "https://shop.example/product",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One parameter, or one value of a body or an answer; values inside others have names with dots."""

    name: str
    kind: str
    required: bool
    about: str
    where: str = "body"
    choices: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    id: str
    method: str
    path: str
    tag: str
    summary: str
    needs: str
    """The scope of an API key, or `bot`."""
    parameters: Sequence[Field] = ()
    media_types: Sequence[str] = ()
    body: Sequence[Field] = ()
    example: str = ""
    answer: Sequence[Field] = ()
    errors: Mapping[str, str] = field(default_factory=dict)

    def curl(self, server: str) -> str:
        token = "$OPILIO_BOT_TOKEN" if self.needs == "bot" else "$OPILIO_KEY"
        parts = [f'curl -H "Authorization: Bearer {token}"']
        if self.method != "GET":
            parts.append(f"-X {self.method}")
        if self.example:
            parts += [f"-H 'Content-Type: {self.media_types[0]}'", f"-d {shlex.quote(self.example)}"]
        return " ".join([*parts, shlex.quote(server + self.path)])


@lru_cache(maxsize=1)
def operations() -> dict[str, Operation]:
    """By their ids, in the order of their paths."""
    made = (
        _operation(path, method, about)
        for path, methods in document()["paths"].items()
        for method, about in methods.items()
    )
    return {operation.id: operation for operation in made}


def _operation(path: str, method: str, about: dict[str, Any]) -> Operation:
    content = about.get("requestBody", {}).get("content", {})
    body = content.get("application/json", {}).get("schema")
    good = next(answer for status, answer in about["responses"].items() if status.startswith("2"))
    return Operation(
        id=about["operationId"],
        method=method.upper(),
        path=path,
        tag=about["tags"][0],
        summary=about["summary"],
        needs="bot" if "bot" in about["security"][0] else about["description"].split("`")[1],
        parameters=[_parameter(parameter) for parameter in about["parameters"]],
        media_types=list(content),
        body=list(_fields(body)) if body else [],
        example=_example_text(body) if body else "",
        answer=list(_fields(_data(good))),
        errors={s: e["description"].replace("`", "") for s, e in about["responses"].items() if s >= "400"},
    )


def _parameter(about: dict[str, Any]) -> Field:
    schema = about["schema"]
    choices = ("true", "false") if schema.get("type") == "boolean" else schema.get("enum", ())
    return Field(
        about["name"],
        kind_of(schema),
        about["required"],
        limits_of(schema),
        about["in"],
        list(map(str, choices)),
    )


def _data(answer: dict[str, Any]) -> dict[str, Any]:
    """What an answer carries inside its envelope."""
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    found: dict[str, Any] = schema.get("properties", {}).get("data", {})
    return found


# ── schemas in words ─────────────────────────────────────────────────────────────────────────────


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema behind a reference; of a value that may be null, the schema of the value."""
    if "$ref" in schema:
        return resolve(document()["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    return resolve(options[0]) if len(options) == 1 else schema


def _fields(schema: dict[str, Any], prefix: str = "", depth: int = 1) -> Iterator[Field]:
    shape = resolve(schema)
    for name, about in shape.get("properties", {}).items():
        required = name in shape.get("required", ())
        yield Field(prefix + name, kind_of(about), required, limits_of(about))
        inner = resolve(about)
        is_list = inner.get("type") == "array"
        if depth < _DEEPEST:
            yield from _fields(
                inner.get("items", {}) if is_list else inner,
                f"{prefix}{name}{'[]' if is_list else ''}.",
                depth + 1,
            )


def kind_of(schema: dict[str, Any]) -> str:
    """The type of a value: `text`, `list of numbers`, `"a" or "b"`."""
    if "anyOf" in schema or "oneOf" in schema:
        options = [kind_of(option) for option in schema.get("anyOf") or schema["oneOf"]]
        return " or ".join(dict.fromkeys(options))
    if "$ref" in schema:
        shape = resolve(schema)
        return kind_of(shape) if shape.get("type") != "object" else "object"
    if "const" in schema or "enum" in schema:
        return " or ".join(
            msgspec.json.encode(value).decode() for value in schema.get("enum", [schema.get("const")])
        )
    kind = schema.get("type", "any value")
    if isinstance(kind, list):
        return " or ".join(_word(name, schema) for name in kind)
    return _word(kind, schema)


def _word(kind: str, schema: dict[str, Any]) -> str:
    if kind == "array":
        return f"list of {kind_of(schema.get('items', {}))}"
    if kind == "string":
        return {"uuid": "UUID", "date-time": "time", "binary": "bytes"}.get(schema.get("format", ""), "text")
    return {"integer": "whole number", "boolean": "true or false"}.get(kind, kind)


def limits_of(schema: dict[str, Any]) -> str:
    """What a schema says about a value besides its type."""
    inner = schema if "$ref" in schema else resolve(schema)
    parts = [schema.get("description") or inner.get("description") or ""]
    low, high = inner.get("minimum"), inner.get("maximum")
    if low is not None and high is not None:
        parts.append(f"{low} to {high}.")
    elif low is not None:
        parts.append(f"At least {low}.")
    if "exclusiveMinimum" in inner:
        parts.append(f"Above {inner['exclusiveMinimum']}.")
    if inner.get("type") == "string" and "maxLength" in inner:
        parts.append(f"At most {inner['maxLength']:,} characters.")
    default = schema.get("default", inner.get("default", _NO_DEFAULT))
    if default is not _NO_DEFAULT and default is not None:
        parts.append(f"Default: {msgspec.json.encode(default).decode()}.")
    return " ".join(filter(None, parts))


def _example_text(schema: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(example(schema)), indent=2).decode()


def example(schema: dict[str, Any], name: str = "") -> Any:
    """The smallest value that the schema accepts, as far as that can be told; of objects, what is required."""
    shape = resolve(schema)
    if "oneOf" in shape or "anyOf" in shape:
        return example((shape.get("oneOf") or shape["anyOf"])[0], name)
    if "examples" in shape:
        return shape["examples"][0]
    if "enum" in shape or "const" in shape:
        return shape.get("const", shape.get("enum", [None])[0])
    kind = shape.get("type")
    if kind == "object":
        return {
            key: example(about, key)
            for key, about in shape.get("properties", {}).items()
            if key in shape.get("required", ())
        }
    if kind == "array":
        return [example(shape.get("items", {}), name)]
    if kind == "string":
        return _EXAMPLES.get(shape.get("format", name), _EXAMPLES.get(name, name or "text"))
    return {"integer": shape.get("minimum", 1), "number": shape.get("minimum", 1), "boolean": True}.get(
        str(kind)
    )
