"""Writes the generated pages of docs/reference: `python -m opilio.cli.reference DIR`."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from opilio.cli.app import app

_OF_EVERY_COMMAND = {"--help", "--install-completion", "--show-completion"}


def cli_page() -> str:
    """Every command with its arguments and options."""
    parts = [_HEAD.format(title="Command line", what="the commands"), _CONVENTIONS]
    parts += [_command(path, command) for path, command in commands(get_command(app))]
    return "\n".join(parts)


def commands(command: Any, path: tuple[str, ...] = ("opilio",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command without subcommands, with its path."""
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from commands(command.get_command(None, name), (*path, name))


def _command(path: tuple[str, ...], command: Any) -> str:
    params = [p for p in command.params if not _OF_EVERY_COMMAND.intersection(p.opts)]
    usage = " ".join([*path, *(_argument(p) for p in params if _is_argument(p))])
    ctx = typer.Context(command)
    rows = [(_words(p, ctx), _meaning(p)) for p in params]
    help_text = " ".join((command.help or "").split())
    return (
        f"## {' '.join(path)}\n\n{help_text}\n\n```\n{usage}\n```\n\n{_table(('argument', 'meaning'), rows)}"
    )


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _argument(param: Any) -> str:
    name = (param.metavar or param.name.upper()).removesuffix("...")
    name = f"{name}…" if param.nargs == -1 else name
    return name if param.required else f"[{name}]"


def _words(param: Any, ctx: Any) -> str:
    kind = param.metavar or _kind(param, ctx)
    if _is_argument(param):
        return f"`{_argument(param)}`"
    words = ", ".join([*param.opts, *param.secondary_opts])
    return f"`{words}`" if param.is_flag else f"`{words} {kind}`"


def _kind(param: Any, ctx: Any) -> str:
    """`<int range>` → `INT`, `<http|js>` stays."""
    text = (
        str(param.display_type(ctx))
        .strip("<>")
        .removeprefix("list[")
        .removesuffix("]")
        .removesuffix(" range")
    )
    return text if "|" in text else text.upper()


def _meaning(param: Any) -> str:
    text = " ".join((getattr(param, "help", None) or "").split())
    default = getattr(param.default, "value", param.default)
    if _is_argument(param) or param.is_flag or default in (None, "", []) or callable(default):
        return text
    return f"{text} Default: `{default}`.".strip()


def settings_page() -> str:
    """Every setting, its default and its meaning."""
    from opilio.runtime.settings import SETTINGS

    rows = [
        (f"`OPILIO_{name.upper()}`", f"`{_default(declared.new_default())}`", declared.meaning)
        for name, declared in SETTINGS.items()
    ]
    intro = (
        "Settings come from the environment, then from `opilio.toml` in the current folder (names without the prefix, "
        "in lower case), then from these defaults. `opilio config show` shows the values in effect.\n"
    )
    table = _table(("setting", "default", "meaning"), rows)
    return f"{_HEAD.format(title='Settings', what='the settings')}\n{intro}\n{table}"


def _default(default: Any) -> str:
    return "not set" if default in (None, "") else str(default).replace(str(Path.home()), "~")


def metrics_page() -> str:
    """Every metric, its kind, labels and meaning."""
    from opilio.metrics import ALL

    rows = [(f"`{m.prefixed}`", m.kind, ", ".join(m.labels) or "-", m.meaning) for m in ALL]
    intro = (
        "Prometheus reads them at `/metrics` of the API and, of a role that `opilio run` started, at "
        "`OPILIO_METRICS_PORT`. Counters belong to a process: sum them. Gauges about jobs are read from the database, "
        "so every process tells the same: take the largest. Each is also there without `opilio_`, unless "
        "`OPILIO_METRICS_BARE_NAMES` is false.\n"
    )
    table = _table(("metric", "kind", "labels", "meaning"), rows)
    return f"{_HEAD.format(title='Metrics', what='the metrics')}\n{intro}\n{table}"


_CONVENTIONS = """\
`--data-dir DIR` may stand anywhere on the line; `OPILIO_DATA_DIR` is the same. Durations are `90s`, `15m`, `6h`,
`7d`. Data goes to stdout, everything else to stderr; `--json` prints one document, or JSON lines where it says so. Exit
codes: 0 done, 1 failed, 2 usage error; an error is one line on stderr. `NO_COLOR` switches colours off.
"""
_HEAD = "# {title}\n\n<!-- Made from {what} by `make reference`; a test compares the two. -->\n"
PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "settings.md": settings_page,
    "metrics.md": metrics_page,
}


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    for name, page in PAGES.items():
        (Path(sys.argv[1]) / name).write_text(page(), encoding="utf-8")
