"""What `opilio.tracing` needs of the OpenTelemetry SDK (extra `otel`); imported only where traces are exported."""

from collections.abc import Callable
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from opilio import __version__


class _GivenIds(IdGenerator):
    """The ids that the caller set for the span that begins; a span without a key gets a random one."""

    def __init__(self, given: Callable[[], tuple[int, int]]) -> None:
        self._given = given
        self._random = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        return self._given()[0]

    def generate_span_id(self) -> int:
        return self._given()[1] or self._random.generate_span_id()


def provider(role: str, given: Callable[[], tuple[int, int]]) -> TracerProvider:
    """Exports by OTLP over HTTP; the SDK reads OTEL_… for endpoint, headers, sampling and names."""
    resource = Resource({"service.name": "opilio", "service.version": __version__, "opilio.role": role})
    made = TracerProvider(resource=Resource.create().merge(resource), id_generator=_GivenIds(given))
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return made


def context_of(trace_id: int, parent: int) -> Context:
    if not parent:
        return Context()
    context = SpanContext(trace_id, parent, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(context), Context())


def failed(span: Any, error: str) -> None:
    assert isinstance(span, Span)
    span.set_status(Status(StatusCode.ERROR, error))
