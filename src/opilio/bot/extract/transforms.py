"""Named transforms that a rule applies to the value it found. No I/O."""

import html
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import urljoin

from opilio.bot.extract.availability import parse_availability
from opilio.bot.extract.document import Document
from opilio.bot.extract.money import parse_money, parse_number

Transform = Callable[[Any, Document], Any]


def _plain(work: Callable[[str], Any]) -> Transform:
    return lambda value, _: work(str(value))


def _number(text: str) -> Decimal | None:
    match = re.search(r"\d[\d.,\s\u00a0\u202f']*", text)
    return parse_number(match[0].strip()) if match else None


def _integer(text: str) -> int | None:
    digits = re.sub(r"\D", "", text)
    return int(digits[:18]) if digits else None


def _money(value: Any, document: Document) -> Decimal | None:
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return Decimal(value)
    money = parse_money(str(value), regions=document.regions)
    return money.amount if money else None


SIMPLE: dict[str, Transform] = {
    "strip": _plain(str.strip),
    "collapse": _plain(lambda text: " ".join(text.split())),
    "lower": _plain(str.lower),
    "upper": _plain(str.upper),
    "unescape": _plain(html.unescape),
    "number": _plain(_number),
    "integer": _plain(_integer),
    "money": _money,
    "availability": lambda value, _: parse_availability(value),
    "present": lambda value, _: bool(value),
    "absent": lambda value, _: not value,
    "absolute_url": lambda value, document: urljoin(document.url, str(value).strip()),
}


def compile_transforms(written: list[Any] | str) -> list[Transform]:
    """Compiles steps given by name (`"strip"`) or with an argument (`{"prefix": "€"}`); ValueError names a wrong one."""
    steps = [written] if isinstance(written, str) else written
    return [_compiled(step) for step in steps]


def _compiled(step: Any) -> Transform:
    if isinstance(step, str):
        if step not in SIMPLE:
            raise ValueError(f"there is no transform {step!r}")
        return SIMPLE[step]
    if not isinstance(step, dict) or len(step) != 1:
        raise ValueError(f"a transform is a name or an object with one key, not {step!r}")
    [(name, argument)] = step.items()
    if name not in WITH_ARGUMENT:
        raise ValueError(f"there is no transform {name!r} with an argument")
    return WITH_ARGUMENT[name](argument)


def _regex(pattern: Any) -> Transform:
    compiled = re.compile(_string("regex", pattern), re.DOTALL)

    def apply(value: Any, _: Document) -> Any:
        match = compiled.search(str(value))
        if match is None:
            return None
        return match[1] if compiled.groups else match[0]

    return apply


def _replace(argument: Any) -> Transform:
    if not isinstance(argument, list) or len(argument) != 2:
        raise ValueError("replace takes [old, new]")
    old, new = (_string("replace", part) for part in argument)
    return lambda value, _: str(value).replace(old, new)


def _map(table: Any) -> Transform:
    """Maps exact text to values; text that is not in the table gives None."""
    if not isinstance(table, dict):
        raise ValueError("map takes an object")  # noqa: TRY004  a wrong rule_set is a ValueError everywhere
    return lambda value, _: table.get(str(value).strip())


def _prefix(text: Any) -> Transform:
    prefix = _string("prefix", text)
    return lambda value, _: prefix + str(value)


def _suffix(text: Any) -> Transform:
    suffix = _string("suffix", text)
    return lambda value, _: str(value) + suffix


def _multiply(factor: Any) -> Transform:
    if isinstance(factor, bool) or not isinstance(factor, (int, float, Decimal)):
        raise ValueError("multiply takes a number")  # noqa: TRY004  a wrong rule_set is a ValueError everywhere
    exact = Decimal(str(factor))

    def apply(value: Any, _: Document) -> Decimal | None:
        number = value if isinstance(value, (int, Decimal)) else _number(str(value))
        return None if number is None else Decimal(number) * exact

    return apply


def _split(argument: Any) -> Transform:
    if not isinstance(argument, list) or len(argument) != 2 or not isinstance(argument[1], int):
        raise ValueError("split takes [separator, index]")
    separator, index = _string("split", argument[0]), argument[1]

    def apply(value: Any, _: Document) -> str | None:
        parts = str(value).split(separator)
        return parts[index].strip() if -len(parts) <= index < len(parts) else None

    return apply


def _string(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} takes text")
    return value


WITH_ARGUMENT: dict[str, Callable[[Any], Transform]] = {
    "regex": _regex,
    "replace": _replace,
    "map": _map,
    "prefix": _prefix,
    "suffix": _suffix,
    "multiply": _multiply,
    "split": _split,
}
