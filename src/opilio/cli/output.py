"""Output: data on stdout, notes on stderr; tables, or JSON with `--json`."""

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
Limit = Annotated[int, typer.Option(min=1, max=500, help="Most items to list.")]
Cursor = Annotated[str | None, typer.Option(help="Continue after a previous list: its next_cursor.")]

_encode = msgspec.json.Encoder(decimal_format="number").encode
_WIDE = 240  # tables that are piped are not cut to the terminal's width


def print_json(value: Any) -> None:
    sys.stdout.write(_encode(value).decode() + "\n")


def show(value: Any, as_json: bool, human: Callable[[], None]) -> None:
    """Prints JSON, or calls `human`."""
    if as_json:
        print_json(value)
    else:
        human()


def note(text: str) -> None:
    """Prints to stderr."""
    print(text, file=sys.stderr)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], empty: str = "none") -> None:
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
    """Prints one object, a field per line."""
    fields = (
        msgspec.to_builtins(value, builtin_types=(datetime,)) if isinstance(value, msgspec.Struct) else value
    )
    width = max(len(name) for name in fields)
    for name, item in fields.items():
        if name not in hide:
            print(f"{name:<{width}}  {cell(item)}")


def print_page(page: Any, columns: Sequence[str], empty: str) -> None:
    """Prints a page of a list, and how to get the next."""
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
