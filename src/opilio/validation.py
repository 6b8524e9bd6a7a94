"""Messages of msgspec in plain words: "Expected `int` <= 100" becomes "must be at most 100"."""

import re
from typing import Any

_BOUND = re.compile(r"Expected `[\w| ]+` (?P<sign><=|>=|<|>) (?P<limit>\S+)")
_LENGTH = re.compile(r"Expected `(?P<kind>\w+)[\w| ]*` of length (?P<sign><=|>=) (?P<limit>\d+)")
_KIND = re.compile(r"Expected `(?P<kinds>[\w| ]+)`, got `")
_CHOICE = re.compile(r"Invalid enum value (?P<value>.+)", re.DOTALL)


def translatable(template: str) -> str:
    """Marks a text for translation."""
    return template


_KINDS = {
    "int": translatable("a whole number"),
    "float": translatable("a number"),
    "decimal": translatable("a number"),
    "str": translatable("text"),
    "bool": translatable("true or false"),
    "object": translatable("an object"),
    "array": translatable("a list"),
    "datetime": translatable("a date and time"),
    "uuid": translatable("a UUID"),
}


def plain_words(message: str) -> tuple[str, dict[str, Any]]:
    """A template and its parameters for what msgspec says about a value; the path is cut off by the caller."""
    if found := _LENGTH.match(message):
        return _length(found)
    if found := _BOUND.match(message):
        limit = {"limit": found["limit"].removesuffix(".0")}
        return {
            "<=": translatable("must be at most %(limit)s"),
            ">=": translatable("must be at least %(limit)s"),
            "<": translatable("must be below %(limit)s"),
            ">": translatable("must be above %(limit)s"),
        }[found["sign"]], limit
    if found := _CHOICE.match(message):
        return translatable("%(value)s is not one of the allowed values"), {"value": found["value"]}
    if "timezone" in message:
        return translatable("needs a time zone, such as 2030-01-01T00:00:00Z"), {}
    if "RFC3339" in message:
        return translatable("must be a date and time, such as 2030-01-01T00:00:00Z"), {}
    if found := _KIND.match(message):
        kinds = [_KINDS.get(kind, kind) for kind in found["kinds"].split(" | ") if kind != "null"]
        return translatable("must be %(kind)s"), {"kind": " or ".join(dict.fromkeys(kinds)) or "empty"}
    rest = message.replace("`", "")
    return rest[0].lower() + rest[1:], {}


def _length(found: re.Match[str]) -> tuple[str, dict[str, Any]]:
    limit, is_text = found["limit"], found["kind"] == "str"
    if found["sign"] == ">=" and limit == "1":
        return translatable("must not be empty"), {}
    if found["sign"] == ">=":
        return (
            translatable("must have at least %(limit)s characters")
            if is_text
            else translatable("must have at least %(limit)s entries")
        ), {"limit": limit}
    return (
        translatable("must have at most %(limit)s characters")
        if is_text
        else translatable("must have at most %(limit)s entries")
    ), {"limit": limit}
