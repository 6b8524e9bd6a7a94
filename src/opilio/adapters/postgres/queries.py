"""Named SQL: each statement lies in a `.sql` file with a name, a sentence and named parameters.

    -- name: find_policy
    -- One policy by its id.
    select * from policy where policy_id = :policy_id;

`:policy_id` becomes `$1`; a cast (`::uuid`) and a slice of text in quotes are left alone. A part of a statement that is not always needed
lies between `-- [part` and `-- part]`, and `without` leaves it out: PostgreSQL starts every part of a statement, used or not. What then stands
in its place lies between `-- [no part` and `-- no part]`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_PART = re.compile(r"^ *-- \[(no )?(\w+)\n(.*?)^ *-- (?:no )?\2\]\n", re.MULTILINE | re.DOTALL)
_TOKEN = re.compile(r"('(?:[^']|'')*')|(--[^\n]*)|(::)|:([a-z_][a-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement with positional parameters, and the order of their names."""

    name: str
    sql: str
    params: tuple[str, ...]

    def locking(self, table: str) -> "Statement":
        """The same, and the rows of a table are locked, in the order in which they are read."""
        return replace(self, name=f"{self.name}, locking", sql=f"{self.sql}\nfor update of {table}")

    def bind(self, values: dict[str, Any]) -> list[Any]:
        if values.keys() != set(self.params):
            missing, extra = set(self.params) - values.keys(), values.keys() - set(self.params)
            raise TypeError(f"{self.name}: missing {sorted(missing)}, unknown {sorted(extra)}")
        return [values[name] for name in self.params]


class Queries:
    """The statements of one part, as attributes; each is parsed when it is first used, most processes use few."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts
        self._parsed: dict[tuple[str, ...], Statement] = {}

    def __getattr__(self, name: str) -> Statement:
        if name.startswith("_") or name not in self._texts:
            raise AttributeError(f"no statement named {name}")
        statement = self.without(name)
        setattr(self, name, statement)
        return statement

    def without(self, name: str, *parts: str) -> Statement:
        """A statement without some of its parts, and without the parameters that only these have."""
        known = self._parsed.get((name, *parts))
        if known is None:
            text = _leave_out(name, self._texts[name], parts)
            label = f"{name} without {', '.join(parts)}" if parts else name
            known = self._parsed[name, *parts] = parse_statement(label, text)
        return known

    def __iter__(self) -> Iterator[Statement]:
        return (getattr(self, name) for name in self._texts)


def _leave_out(name: str, text: str, parts: tuple[str, ...]) -> str:
    missing = set(parts).difference(part for _, part, _ in _PART.findall(text))
    if missing:
        raise AttributeError(f"the statement {name} has no part {', '.join(sorted(missing))}")

    def keep(found: re.Match[str]) -> str:
        instead, part, body = found.groups()
        return body if (part in parts) == bool(instead) else ""

    return _PART.sub(keep, text)


def parse_statement(name: str, text: str) -> Statement:
    params: list[str] = []

    def number(match: re.Match[str]) -> str:
        quoted, comment, cast, param = match.groups()
        if comment:
            return ""
        if quoted or cast:
            return match.group(0)
        if param not in params:
            params.append(param)
        return f"${params.index(param) + 1}"

    sql = _TOKEN.sub(number, text).strip().rstrip(";")
    return Statement(name, re.sub(r"\n\s*\n+", "\n", sql), tuple(params))


@cache
def load_queries(package: str) -> Queries:
    """Every statement of the `sql/` folder of a package; a name used twice is a fault."""
    statements: dict[str, str] = {}
    for file in sorted(files(package).joinpath("sql").iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".sql"):
            continue
        pieces = _NAME.split(file.read_text(encoding="utf-8"))[1:]
        for name, text in zip(pieces[::2], pieces[1::2], strict=True):
            if name in statements:
                raise ValueError(f"{package}: two statements are named {name}")
            statements[name] = text
    return Queries(statements)
