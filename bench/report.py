"""One table a bench: printed for people, kept as JSON for programs."""

import json
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent / "out"


@dataclass
class Table:
    """Rows of figures, and the goals that they are held against."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    goals: list["Goal"] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: Any) -> None:
        self.rows.append(cells)

    def goal(
        self, what: str, value: float, *, at_least: float | None = None, at_most: float | None = None
    ) -> None:
        self.goals.append(Goal(what, value, at_least, at_most))


@dataclass(frozen=True)
class Goal:
    what: str
    value: float
    at_least: float | None
    at_most: float | None

    @property
    def met(self) -> bool:
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    def __str__(self) -> str:
        bound = f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"
        value = f"{self.value:.3f}" if abs(self.value) < 10 else f"{self.value:.2f}"
        return f"{self.what}: {value} (wanted {bound}) {'✓' if self.met else '✗'}"


_began = time.monotonic()


def progress(text: str) -> None:
    """A line for whoever waits, with the seconds since the start; figures alone go to the standard output."""
    print(f"[{time.monotonic() - _began:4.0f} s] {text}", file=sys.stderr, flush=True)


def cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def show(table: Table, *, seconds: float) -> None:
    body = [tuple(map(cell, row)) for row in table.rows]
    widths = [max(len(row[i]) for row in [table.columns, *body]) for i in range(len(table.columns))]
    print(f"\n{table.title}  ({seconds:.0f} s)")
    for row in [table.columns, tuple("─" * width for width in widths), *body]:
        first, *rest = (
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  " + "  ".join([first, *rest]))
    for line in [*map(str, table.goals), *table.notes]:
        print(f"  {line}")


def markdown(table: Table, *, when: str) -> str:
    """The same table for a page of the documentation."""
    rows = [
        table.columns,
        ("---", *["---:"] * (len(table.columns) - 1)),
        *(map(cell, row) for row in table.rows),
    ]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    goals = [f"- {goal}" for goal in table.goals]
    notes = [f"- {note}" for note in table.notes]
    return "\n".join([f"{table.title} ({when}):", "", *lines, "", *goals, *notes])


def write_block(page: Path, name: str, text: str) -> None:
    """Replaces what stands between `<!-- bench: NAME -->` and `<!-- end -->` in a page."""
    begin, end = f"<!-- bench: {name} -->\n", "<!-- end -->"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{page} has no block `{begin.strip()}` … `{end.strip()}`")
    page.write_text(f"{before}{begin}\n{text.strip()}\n\n{end}{after}")


def save(name: str, table: Table) -> None:
    OUT.mkdir(exist_ok=True)
    kept = {
        "bench": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {platform.python_implementation()} {platform.python_version()}",
        "title": table.title,
        "rows": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
        "goals": [{"what": g.what, "value": g.value, "met": g.met} for g in table.goals],
        "notes": table.notes,
    }
    (OUT / f"{name}.json").write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)
