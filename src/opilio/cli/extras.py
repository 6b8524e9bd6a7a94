"""Which extra of the package each command needs; imports nothing that an extra brings."""

from collections.abc import Sequence
from importlib.util import find_spec

# Modules that tell that an extra is installed.
_PROOF = {
    "server": ("asyncpg", "litestar"),
    "bot": ("extruct", "parsel", "typer"),
    "crawler": ("aio_pika", "obstore", "typer"),
}
# The longest match wins; every other command needs the server.
_EXTRA_OF = {("bot",): "bot", ("crawler",): "crawler", ("crawler", "simulate"): "server"}


def extra_of(words: Sequence[str]) -> str:
    """The extra that a command line needs, told by its first words."""
    return _EXTRA_OF.get(tuple(words[:2])) or _EXTRA_OF.get(tuple(words[:1])) or "server"


def is_installed(extra: str) -> bool:
    return all(find_spec(module) is not None for module in _PROOF[extra])


def missing(words: Sequence[str]) -> str:
    """What to say when the extra of a command is not installed; nothing when it is."""
    if is_installed(extra := extra_of(words)):
        return ""
    command = " ".join(["opilio", *words[:2]]) if words else "The command line"
    return f"{command} needs the extra `{extra}`: pip install 'opilio[{extra}]'"
