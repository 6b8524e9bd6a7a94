"""Output: data on stdout, everything else on stderr; JSON for programs, tables for people."""

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
JsonLines = Annotated[bool, typer.Option("--json", help="JSON lines on stdout.")]
Limit = Annotated[int, typer.Option(min=1, max=500, help="How many at most.")]
Cursor = Annotated[str | None, typer.Option(help="Goes on where the last list ended (next_cursor).")]

_encode = msgspec.json.Encoder(decimal_format="number").encode
_WIDE = 240  # a table that is piped into a file is not cut to a screen


def print_json(value: Any) -> None:
    sys.stdout.write(_encode(value).decode() + "\n")


def show(value: Any, as_json: bool, human: Callable[[], None]) -> None:
    """A document for programs, or whatever `human` prints."""
    if as_json:
        print_json(value)
    else:
        human()


def note(text: str) -> None:
    """A word beside the data."""
    print(text, file=sys.stderr)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], empty: str = "nothing") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    if not table.row_count:
        note(empty)
        return
    console = Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)
    console.print(table)


def print_fields(value: Any, hide: Sequence[str] = ()) -> None:
    """One thing, a field a line."""
    fields = (
        msgspec.to_builtins(value, builtin_types=(datetime,)) if isinstance(value, msgspec.Struct) else value
    )
    width = max(len(name) for name in fields)
    for name, item in fields.items():
        if name not in hide:
            print(f"{name:<{width}}  {cell(item)}")


def print_page(page: Any, columns: Sequence[str], empty: str) -> None:
    """A page of a list, and how to see the next."""
    print_table(columns, ([getattr(item, name) for name in columns] for item in page.items), empty)
    if page.next_cursor:
        note(f"more with --cursor {page.next_cursor}")


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict | list):
        return _encode(value).decode()
    return str(value)
