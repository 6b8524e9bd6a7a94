"""The command line; the module of a command is loaded when the command is run."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from opilio.cli.extras import extra_of, is_installed, missing
from opilio.errors import OpilioError

# Name → whether it has subcommands. A command whose module is not installed is not listed.
_COMMANDS = {
    "up": False,
    "run": False,
    "doctor": False,
    "login": False,
    "policies": True,
    "recrawl": True,
    "jobs": True,
    "alerts": True,
    "hosts": True,
    "bots": True,
    "keys": True,
    "projects": True,
    "webhooks": True,
    "events": True,
    "dlq": True,
    "analytics": True,
    "bot": True,
    "crawler": True,
    "demo": True,
    "db": True,
    "backup": False,
    "restore": False,
    "config": True,
    "openapi": False,
    "asyncapi": False,
}
DATA_DIR = "--data-dir"


class Commands(TyperGroup):
    """Imports the module of a command when the command is run."""

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return [name for name in _COMMANDS if find_spec(f"opilio.cli.{name}") is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            return None
        app = import_module(f"opilio.cli.{cmd_name}").app
        command = get_group(app) if _COMMANDS[cmd_name] else get_command(app)
        command.name = cmd_name
        if not is_installed(extra := extra_of([cmd_name])):
            command.short_help = f"(needs the extra {extra}) {command.help}"
        return command


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="Opilio, the crawl control plane: decides what is crawled and when, and hands the work out.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from opilio import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    data_dir: str | None = typer.Option(
        None,
        DATA_DIR,
        help="Folder of the embedded instance; may stand anywhere on the line. Same as OPILIO_DATA_DIR.",
    ),
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_print_version, is_eager=True
    ),
) -> None:
    del data_dir, version  # both are handled before a command runs


def run(words: Sequence[str]) -> int:
    """Runs a command line and returns its exit code: 0 done, 1 failed, 2 usage error."""
    if "OPILIO_PARENT_PID" in os.environ:
        import_module("opilio.runtime.processes").die_with_parent()
    words = _take_data_dir(words)
    if absent := missing_extra(words):
        return _print_error(absent, 1)
    click = import_module(typer.BadParameter.__module__)  # Typer brings its own copy of click
    try:
        answer = get_command(app).main(args=words, prog_name="opilio", standalone_mode=False)
    except click.NoArgsIsHelpError:  # the help is shown already
        return 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "opilio"
        return _print_error(f"{path}: {_one_line(error.format_message())} ({path} --help)", 2)
    except (typer.Abort, KeyboardInterrupt):
        return _print_error("interrupted", 130)
    except click.ClickException as error:
        return _print_error(_one_line(error.format_message()), 1)
    except OpilioError as error:
        return _print_error(_one_line(str(error)), 1)
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("OPILIO_LOG_LEVEL", "").lower() == "debug":
            raise
        text = f"{type(error).__name__}: {error}"
        return _print_error(
            f"unexpected error: {_one_line(text)} (set OPILIO_LOG_LEVEL=debug to see where)", 1
        )
    return answer if isinstance(answer, int) else 0


def missing_extra(words: Sequence[str]) -> str:
    """What to install before a command can run; asking for help needs nothing."""
    if not words or words[0].startswith("-") or words[0] not in _COMMANDS or "--help" in words:
        return ""
    return missing(words)


def _take_data_dir(words: Sequence[str]) -> list[str]:
    """Moves `--data-dir D`, anywhere before `--`, into the environment, so that child processes get it too."""
    left: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*left, word, *rest]
        name, equals, value = word.partition("=")
        if name != DATA_DIR:
            left.append(word)
            continue
        directory = value if equals else next(rest, "")
        if not directory:
            return [word]  # Typer reports the missing value
        os.environ["OPILIO_DATA_DIR"] = directory
    return left


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _print_error(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code
