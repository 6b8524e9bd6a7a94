"""How a setting is declared, and how text from the environment or a value from the file becomes its value."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

Check = Callable[[Any], None]
_DECLARATION = "setting"
_BOOLEANS = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off"), False),
}
_SHOULD_BE = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a setting means, and which values it takes beyond those of its type."""

    default: Any  # a value, or a function that makes one
    meaning: str
    least: float | None
    above: float | None
    most: float | None
    also: Check | None

    def new_default(self) -> Any:
        return self.default() if callable(self.default) else copy.copy(self.default)

    def check(self, value: Any) -> None:
        """Raises a ValueError that says what the value should be."""
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("must be a finite number")
        if self.least is not None and value < self.least:
            raise ValueError(f"must be at least {self.least}")
        if self.above is not None and value <= self.above:
            raise ValueError(f"must be more than {self.above}")
        if self.most is not None and value > self.most:
            raise ValueError(f"must be at most {self.most}")
        if self.also is not None:
            self.also(value)


def setting(
    default: Any,
    meaning: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    check: Check | None = None,
) -> Any:
    """A field of the settings."""
    declared = Declaration(default, meaning, least, above, most, check)
    return field(default_factory=declared.new_default, metadata={_DECLARATION: declared})


def declarations(fields: Mapping[str, Field[Any]]) -> dict[str, Declaration]:
    """What the fields of a class declare, by name; fields that are no settings are left out."""
    return {name: it.metadata[_DECLARATION] for name, it in fields.items() if _DECLARATION in it.metadata}


def read_values(
    settings: type, declared: Mapping[str, Declaration], given: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The values that were given, and what is wrong with the others."""
    kinds = get_type_hints(settings)
    values: dict[str, Any] = {}
    faults: list[str] = []
    for name, value in given.items():
        try:
            values[name] = _converted(value, kinds[name])
            declared[name].check(values[name])
        except ValueError as error:
            faults.append(f"OPILIO_{name.upper()} {error}")
    return values, faults


def _converted(value: Any, kind: Any) -> Any:
    kind = _without_none(kind)
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    if isinstance(value, str):
        value = _from_text(value, kind)
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        raise ValueError(f"must be {_should_be(kind)}") from None


def _from_text(text: str, kind: Any) -> Any:
    """Text of a form that `msgspec.convert` does not know."""
    if kind is bool:
        return _BOOLEANS.get(text.strip().lower(), text)
    if get_origin(kind) is tuple:  # `tiktok,youtube`
        return tuple(word.strip() for word in text.split(",") if word.strip())
    if get_origin(kind) is dict:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            raise ValueError(f"must be {_should_be(kind)}") from None
    return text


def _without_none(kind: Any) -> Any:
    """`int` of `int | None`."""
    if isinstance(kind, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not type(None))
    return kind


def _should_be(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if get_origin(kind) is tuple:
        return "words with commas between them (a list in the file)"
    if get_origin(kind) is dict:
        last = get_args(kind)[1]
        inner = _SHOULD_BE.get(last, "a table")
        return f"a table of names, each with {inner} (as JSON in the environment)"
    return _SHOULD_BE.get(kind, "a path")
