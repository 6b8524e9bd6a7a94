"""What PostgreSQL can keep of a JSON value."""

from collections.abc import Mapping
from typing import Any

from opilio.errors import Invalid

# Far beyond what a page says, far below what the database or a recursive reader can bear.
DEEPEST = 64


def check_storable(field: str, value: Any) -> None:
    """Refuses U+0000, which PostgreSQL cannot store, at any depth, and nesting without end."""
    level = [value]
    for _ in range(DEEPEST + 1):
        if any(isinstance(item, str) and "\x00" in item for item in level):
            raise Invalid(field, "contains the character U+0000")
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return
    raise Invalid(field, f"is nested more than {DEEPEST} levels deep")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else []
