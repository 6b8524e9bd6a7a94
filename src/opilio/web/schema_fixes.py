"""What msgspec's JSON schemas leave out and generated clients need: moments, decimals, and what is always sent."""

from collections.abc import Iterator
from typing import Any

from msgspec import NODEFAULT, inspect


def complete(components: dict[str, Any], answers: list[Any], bodies: list[Any]) -> dict[str, Any]:
    """The same schemas with formats; in those that are only ever answered, every field that is always sent is required."""
    received = {struct.cls.__name__ for struct in _structs(bodies)}
    for struct in _structs([*answers, *bodies]):
        schema = components.get(struct.cls.__name__)
        if schema is None or "properties" not in schema:
            continue
        for field in struct.fields:
            _mark(schema["properties"][field.encode_name], field.type)
        always = not struct.cls.__struct_config__.omit_defaults
        if always and struct.cls.__name__ not in received:
            schema["required"] = [field.encode_name for field in struct.fields if not _may_be_unset(field)]
    completed: dict[str, Any] = _simplified(components)
    return completed


def _may_be_unset(field: inspect.Field) -> bool:
    """Fields with the default UNSET are left out; msgspec tells no default for them."""
    return not field.required and field.default is NODEFAULT and field.default_factory is NODEFAULT


def _structs(types: list[Any]) -> list[inspect.StructType]:
    found: dict[Any, inspect.StructType] = {}
    waiting = list(inspect.multi_type_info(types)) if types else []
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, inspect.StructType):
            if kind.cls in found:
                continue
            found[kind.cls] = kind
        waiting += _parts(kind)
    return list(found.values())


def _parts(kind: Any) -> Iterator[Any]:
    """The types that a type is made of."""
    if isinstance(kind, inspect.StructType):
        yield from (field.type for field in kind.fields)
    elif isinstance(kind, inspect.UnionType):
        yield from kind.types
    elif isinstance(kind, inspect.Metadata):
        yield kind.type
    elif isinstance(kind, (inspect.ListType, inspect.VarTupleType, inspect.SetType)):
        yield kind.item_type
    elif isinstance(kind, inspect.DictType):
        yield kind.value_type


def _mark(schema: dict[str, Any], kind: Any) -> None:
    """Writes the format of moments, wherever the type has one."""
    if isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.DateTimeType) and schema.get("type") == "string":
        schema["format"] = "date-time"
    elif isinstance(kind, inspect.UnionType):
        for option in schema.get("anyOf", [schema]):
            if option == {"type": "string"} and any(isinstance(p, inspect.DateTimeType) for p in kind.types):
                option["format"] = "date-time"
    elif isinstance(kind, (inspect.ListType, inspect.VarTupleType)) and "items" in schema:
        _mark(schema["items"], kind.item_type)
    elif isinstance(kind, inspect.DictType) and isinstance(schema.get("additionalProperties"), dict):
        _mark(schema["additionalProperties"], kind.value_type)


def _simplified(schema: Any) -> Any:
    """Decimals as the numbers that are sent, `Literal[True]` as a boolean: generators know no others."""
    if isinstance(schema, list):
        return [_simplified(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "decimal":
        return {**{key: value for key, value in schema.items() if key != "format"}, "type": "number"}
    if (
        isinstance(values := schema.get("enum"), list)
        and values
        and all(isinstance(value, bool) for value in values)
    ):
        return {**{key: value for key, value in schema.items() if key != "enum"}, "type": "boolean"}
    return {key: _simplified(value) for key, value in schema.items()}
