"""Logs: structured, with the ids of what they speak of."""

from opilio.runtime.settings import Settings


def configure_logging(settings: Settings) -> None:
    """Sets up the log of a process."""
    del settings
