"""Traces by OTLP over HTTP, from the first step of a job and of a project to their webhooks, through real processes."""

import asyncio
import hashlib
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from opilio import tracing
from opilio.tracing import trace_id_of
from tests.components.servers import free_port
from tests.delivery.receiver import Receiver
from tests.runtime.conftest import tree

__all__ = ["tree"]

ROLES = ("api", "scheduler", "delivery", "collector", "analytics")
PATIENCE = 60  # seconds


class Collector(ThreadingHTTPServer):
    """Takes what an exporter posts to /v1/traces."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[Span] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def trace(self, trace_id: int) -> dict[str, Span]:
        return {span.name: span for span in list(self.spans) if span.trace_id == trace_id.to_bytes(16)}

    async def until(self, trace_id: int, *names: str) -> dict[str, Span]:
        async with asyncio.timeout(PATIENCE):
            while not set(names) <= self.trace(trace_id).keys():
                await asyncio.sleep(0.1)
        return self.trace(trace_id)


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        body = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        for resource in body.resource_spans:
            for scope in resource.scope_spans:
                self.server.spans.extend(scope.spans)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        """Stays quiet."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_trace_id_is_made_of_any_text():
    uuid = UUID("0190a1b2-c3d4-7000-8000-000000000001")
    assert trace_id_of(str(uuid)) == trace_id_of(uuid.hex) == uuid.int
    assert trace_id_of("order 7") == int.from_bytes(hashlib.sha256(b"order 7").digest()[:16])
    assert trace_id_of("0" * 32) != 0


async def test_from_the_pull_to_the_webhook_and_along_x_trace_id(
    tree, collector, opilio, database_url, tmp_path
):
    _, key = await opilio.credentials.new_key("test", "admin")
    _, token = await opilio.credentials.new_bot_token("b")
    port = free_port()
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OPILIO_DATABASE_URL": database_url,
        "OPILIO_DATA_DIR": str(tmp_path),
        "OPILIO_PORT": str(port),
        "OPILIO_METRICS_PORT": "0",
        "OPILIO_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8",
        "OPILIO_SCHEDULER_INTERVAL_SECONDS": "0.2",
    }
    process = tree("run", *ROLES, **env)
    tree("crawler", "simulate", "--calm", **env)
    base = f"http://127.0.0.1:{port}"
    async with (
        Receiver() as receiver,
        httpx2.AsyncClient(base_url=base, timeout=30, trust_env=False) as client,
    ):
        await until_ready(client, process)
        client.headers["authorization"] = f"Bearer {key}"
        await post(client, "/api/v1/webhooks", {"url": receiver.url(), "events": ["crawl.job.completed"]})
        await post(client, "/api/v1/policies", {"url": "https://a.example/1"})
        project = {"project_id": "tea", "brand_keywords": ["tea"], "limit_per_keyword": 5}
        await post(client, "/api/v1/projects", project | {"webhook_url": receiver.url("/progress")})

        client.headers["authorization"] = f"Bearer {token}"
        pulled = await post(client, "/api/crawl/pull/", {"bot_id": "b", "max_jobs": 1, "wait_seconds": 30})
        [job] = pulled["jobs"]
        held = {"bot_id": "b", "job_id": job["job_id"], "lock_token": job["lock_token"]}
        await post(client, "/api/crawl/submit/", held | {"success": True, "price": "9.50", "currency": "USD"})

    spans = await collector.until(UUID(job["job_id"]).int, "pull", "submit", "webhook")
    assert spans["pull"].parent_span_id == b""
    assert spans["submit"].parent_span_id == spans["pull"].span_id
    assert spans["webhook"].parent_span_id == spans["submit"].span_id
    assert spans["pull"].start_time_unix_nano <= spans["webhook"].start_time_unix_nano
    async with opilio.database.session() as session:
        trace = await session.connection.fetchval("select trace_id from project where project_id = 'tea'")
    wanted = ("create project", "webhook", "receive analytics.data.collected")
    spans = await collector.until(trace_id_of(trace), *wanted)
    root = spans.pop("create project")
    assert root.parent_span_id == b""
    assert {span.parent_span_id for span in spans.values()} == {root.span_id}
    assert process.stop() == 0


async def until_ready(client: httpx2.AsyncClient, process) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                if (await client.get("/readyz")).status_code == 200:
                    return
            except httpx2.TransportError:
                assert process.process.poll() is None, process.errors.read_text()
            await asyncio.sleep(0.1)


async def post(client: httpx2.AsyncClient, path: str, body: object) -> dict:
    answer = await client.post(path, json=body)
    assert answer.status_code < 300, answer.text
    return answer.json()["data"]


async def test_a_webhook_that_fails_is_an_error_in_its_trace(collector, monkeypatch):

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    tracing.start("test")
    try:
        tracing.record("webhook", "order 7", tracing.now(), parent=tracing.ROOT, error="status 500")
    finally:
        await asyncio.to_thread(tracing.stop)
    [span] = collector.trace(trace_id_of("order 7")).values()
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "status 500")
    assert not tracing.on()


async def test_nothing_is_imported_without_an_endpoint():
    code = (
        "import sys; from opilio import tracing; import opilio.runtime.run_roles; tracing.start('api'); "
        "tracing.record('pull', 'x', tracing.now()); "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code), stdout=asyncio.subprocess.PIPE, env={"PATH": "/usr/bin:/bin"}
    )
    out, _ = await process.communicate()
    assert out == b"[]\n"
