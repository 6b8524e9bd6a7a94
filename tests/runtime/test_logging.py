"""Logs: one shape for ours and for the libraries', ids bound."""

import io
import json
import logging
import re

import pytest
import structlog

from opilio.runtime.logging import configure_logging
from opilio.runtime.settings import load_settings


class Terminal(io.StringIO):
    """A stream that a person reads."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def logged(request):
    """Configures the log into memory and puts back what was there."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level

    def configure(stream: io.StringIO | None = None, **settings) -> io.StringIO:
        stream = stream or io.StringIO()
        configure_logging(load_settings(**settings), stream)
        return stream

    yield configure
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_json_lines_with_ids_bound(logged):
    stream = logged(log_format="json")
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        structlog.get_logger("a").info("job.done", job_id="j1")
        logging.getLogger("library").warning("careful %s", "now")
    ours, theirs = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert ours | {"at": "…"} == {
        "message": "job.done",
        "level": "info",
        "request_id": "r1",
        "job_id": "j1",
        "at": "…",
    }
    assert (theirs["message"], theirs["level"], theirs["request_id"]) == ("careful now", "warning", "r1")
    assert ours["at"].endswith("Z")


def test_an_exception_is_one_line_of_json(logged):
    stream = logged(log_format="json")
    try:
        raise ValueError("wrong")
    except ValueError:
        structlog.get_logger("a").exception("loop.failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: wrong" in json.loads(line)["exception"]


def test_a_terminal_gets_short_lines(logged, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    stream = logged(stream=Terminal())
    structlog.get_logger("a").warning("postgres.restarted", pid=7)
    assert re.fullmatch(r"\d\d:\d\d:\d\d \[warning *\] postgres.restarted +pid=7\n", stream.getvalue())


def test_no_colours_without_a_terminal(logged):
    stream = logged(log_format="text")
    structlog.get_logger("a").info("job.done", job_id="j1")
    assert "job_id=j1" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_the_level_holds_for_ours_and_theirs(logged):
    stream = logged(log_format="json", log_level="warning")
    structlog.get_logger("a").info("quiet")
    logging.getLogger("library").info("quiet")
    assert stream.getvalue() == ""
