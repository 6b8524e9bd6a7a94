"""A page as commands to copy: `opilio …`, and curl."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from opilio.web.dashboard.forms import with_query
from opilio.web.dashboard.page import PageRequest

# Parameters of paging only.
_PLACES = frozenset({"cursor", "page", "sort", "tokens"})


@dataclass(frozen=True, slots=True)
class Commands:
    cli: str
    curl: str


def as_commands(
    request: PageRequest, cli: str, path: str, options: Mapping[str, str] | None = None
) -> Commands | None:
    """`options` names the option of each filter; a filter without an option cannot be expressed, so no command is offered.

    Values come out of the address, which anybody may have written: they are quoted for the shell.
    """
    options = options or {}
    asked = {
        name: value for name, value in request.http.query_params.items() if value and name not in _PLACES
    }
    if not asked.keys() <= options.keys():
        return None
    parts = [cli, *(_option(options[name], value) for name, value in asked.items())]
    wanted = {name: _API_VALUES.get(value, value) for name, value in asked.items()}
    address = shlex.quote(request.server.rstrip("/") + with_query(f"/api/v1{path}", wanted))
    return Commands(" ".join(parts), f'curl -H "Authorization: Bearer $OPILIO_KEY" {address}')


# Yes and no, as pages write them.
_API_VALUES = {"yes": "true", "no": "false"}


def _option(option: str, value: str) -> str:
    if "/" in option:
        on, _, off = option.partition("/")
        return on if value == "yes" else off
    return f"{option} {shlex.quote(value)}"
