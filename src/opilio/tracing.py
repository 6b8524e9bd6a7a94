"""Spans for OpenTelemetry, where OTEL_EXPORTER_OTLP_ENDPOINT is set; without it nothing is imported or recorded.

No id of a trace is stored or sent: both ends of a step know the same key and make the same ids from it. The trace of a URL
job is its job id, the trace of a keyword project is its `x-trace-id`.
"""

import hashlib
import os
import time
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from opilio.logs import get_logger

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
ROOT = "root"  # the key of the span that begins the trace of a project
END = "end"  # the key of the submit that ended a job

_log = get_logger(__name__)
_provider: Any = None
_tracer: Any = None
_next_ids: ContextVar[tuple[int, int]] = ContextVar("next_ids")


def start(role: str) -> None:
    """Exports from now on, if an endpoint is set; without the extra a warning says so."""
    global _provider, _tracer  # noqa: PLW0603 - one exporter per process, as metrics
    if not os.environ.get(ENDPOINT) or _tracer is not None:
        return
    try:
        from opilio.tracing_sdk import provider  # noqa: PLC0415 - only where it is wanted
    except ModuleNotFoundError:
        _log.warning("tracing.off", reason=f"{ENDPOINT} needs the extra `otel`: pip install 'opilio[otel]'")
        return
    _provider = provider(role, _next_ids.get)
    _tracer = _provider.get_tracer("opilio")


def stop() -> None:
    """Sends what is left."""
    global _provider, _tracer  # noqa: PLW0603
    if _provider is not None:
        _provider.shutdown()
    _provider = _tracer = None


def on() -> bool:
    return _tracer is not None


def now() -> int:
    """When a span began, for `record`."""
    return time.time_ns()


def record(
    name: str, trace: str, began: int, *, key: str = "", parent: str = "", error: str = "", **attributes: Any
) -> None:
    """A span that ends now. `key` names it for its children, which give the same text as `parent`."""
    if _tracer is None or not trace:
        return
    from opilio.tracing_sdk import context_of, failed  # noqa: PLC0415

    trace_id = trace_id_of(trace)
    token = _next_ids.set((trace_id, span_id_of(trace_id, key) if key else 0))
    try:
        context = context_of(trace_id, span_id_of(trace_id, parent) if parent else 0)
        span = _tracer.start_span(
            name, context, start_time=began, attributes={**attributes, "opilio.trace": trace}
        )
    finally:
        _next_ids.reset(token)
    if error:
        failed(span, error)
    span.end()


def trace_id_of(trace: str) -> int:
    """A UUID or 32 hexadecimal digits are the trace id itself; of any other text it is a hash."""
    try:
        number = UUID(trace).int
    except ValueError:
        number = 0
    return number or int.from_bytes(hashlib.sha256(trace.encode()).digest()[:16])


def span_id_of(trace_id: int, key: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{trace_id:032x} {key}".encode()).digest()[:8])
