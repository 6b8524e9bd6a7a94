"""The one place where `opilio up` meets the demo."""

from importlib import import_module
from importlib.util import find_spec

from opilio.runtime.bootstrap import Opilio
from opilio.runtime.supervisor import Command


async def start_demo(opilio: Opilio, url: str) -> list[Command]:
    """Prepares the demo's data and answers the processes to run beside Opilio; nothing where there is no demo.

    `opilio.demo.prepare(opilio, url)` imports its policies, makes a token for its bot, and answers the commands of
    its shop and its bot; `url` is where the API is.
    """
    if find_spec("opilio.demo") is None:
        return []
    commands: list[Command] = await import_module("opilio.demo").prepare(opilio, url)
    return commands
