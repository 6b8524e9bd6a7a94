"""Words on the command line that stand for something: durations, labels, ids, JSON."""

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import typer

_DURATION = re.compile(r"^(\d+(?:\.\d+)?)(s|m|h|d)$")
_UNIT = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def duration(text: str) -> timedelta:
    """`90s`, `15m`, `6h`, `7d`."""
    found = _DURATION.match(text.strip())
    if not found or float(found[1]) > 1e6:
        raise typer.BadParameter(f"{text!r} is no duration; write 90s, 15m, 6h or 7d")
    return timedelta(**{_UNIT[found[2]]: float(found[1])})


def label(text: str) -> tuple[str, str]:
    """`key=value`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise typer.BadParameter(f"{text!r} is no label; write key=value")
    return key, value


def uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no id") from None


def json_object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise typer.BadParameter("is no JSON object") from None


def hours(wanted: timedelta) -> float:
    return wanted.total_seconds() / 3600


def minutes(wanted: timedelta) -> float:
    return wanted.total_seconds() / 60
