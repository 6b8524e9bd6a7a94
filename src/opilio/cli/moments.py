"""Times on the command line: a point in time, or how long ago it was."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from opilio.cli import option_types


def moment(text: str) -> datetime:
    """`2026-01-31`, `2026-01-31T12:00:00Z`, or `2h` for two hours ago."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            return datetime.now(UTC) - option_types.duration(text)
        except typer.BadParameter:
            raise typer.BadParameter(
                f"{text!r} is no time; write 2026-01-31T12:00:00Z, or 15m, 6h, 7d for how long ago"
            ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


Since = Annotated[
    datetime | None,
    typer.Option(parser=moment, metavar="TIME", help="From a time on, or 2h for how long ago."),
]
Until = Annotated[datetime | None, typer.Option(parser=moment, metavar="TIME", help="Up to a time.")]
