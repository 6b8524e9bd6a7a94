"""Types of option values: durations, times, labels, ids, JSON."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import msgspec
import typer

_DURATION = re.compile(r"^(\d+(?:\.\d+)?)(s|m|h|d)$")
_UNIT = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def duration(text: str) -> timedelta:
    """`90s`, `15m`, `6h`, `7d`."""
    found = _DURATION.match(text.strip())
    if not found or float(found[1]) > 1e6:
        raise typer.BadParameter(f"{text!r} is not a duration; write 90s, 15m, 6h or 7d")
    return timedelta(**{_UNIT[found[2]]: float(found[1])})


def seconds(text: str | float) -> float:
    """`30s`, `5m`, or a bare number of seconds; at least one."""
    try:
        found = float(text)
    except ValueError:
        found = duration(str(text)).total_seconds()
    if not 1 <= found <= 1e6:
        raise typer.BadParameter(f"{text!r} is too short or too long; write 30s or 5m")
    return found


def time(text: str) -> datetime:
    """`2026-01-31`, `2026-01-31T12:00:00Z`, or `2h` for two hours ago."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            return datetime.now(UTC) - duration(text)
        except typer.BadParameter:
            raise typer.BadParameter(
                f"{text!r} is not a time; write 2026-01-31T12:00:00Z, or 15m, 6h, 7d for how long ago"
            ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


Since = Annotated[
    datetime | None,
    typer.Option(parser=time, metavar="TIME", help="Only after this time; 2h means two hours ago."),
]
Until = Annotated[datetime | None, typer.Option(parser=time, metavar="TIME", help="Only before this time.")]


def label(text: str) -> tuple[str, str]:
    """`key=value`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise typer.BadParameter(f"{text!r} is not a label; write key=value")
    return key, value


def uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a UUID") from None


def json_object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise typer.BadParameter("is not a JSON object") from None


def hours(wanted: timedelta) -> float:
    return wanted.total_seconds() / 3600


def minutes(wanted: timedelta) -> float:
    return wanted.total_seconds() / 60
