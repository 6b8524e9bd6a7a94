"""Delivery, measured on loopback: the relay against a bare publisher, webhooks with dead hosts, time to publish."""

import asyncio
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

import aio_pika
from tests.components.servers import RabbitMQ, free_port

from bench.size import scaled
from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.contracts.topology import EVENTS, topology
from opilio.delivery.outbox.publish import Publisher
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker
from opilio.delivery.webhooks.client import WebhookClient
from opilio.delivery.webhooks.sender import Sender
from opilio.net.allowed_addresses import parse_allow
from opilio.rabbitmq.bus import RabbitBus

MESSAGES, ARRIVALS = scaled(20_000, 500), scaled(300, 20)
ENDPOINTS = scaled(10_000, 100)
HOSTS = 10  # of which one is dead
BODY = b'{"specversion":"1.0","type":"crawl.job.completed","data":{"text":"' + b"x" * 500 + b'"}}'

_FILL = """
insert into event (type, subject, data, occurred_at)
select 'crawl.job.completed', 'https://shop.test/' || i % 1000, jsonb_build_object('n', i, 'text', repeat('x', 500)), now()
from generate_series(1, $1) i
"""
# Takes whatever is posted and answers 200; the sender is what is measured.
_RECEIVER = """
import asyncio, sys
class Receiver(asyncio.Protocol):
    def connection_made(self, transport): self.transport, self.buffer = transport, b""
    def data_received(self, data):
        self.buffer += data
        while (end := self.buffer.find(b"\\r\\n\\r\\n")) >= 0:
            head = self.buffer[:end].lower()
            size = int(head.split(b"content-length:", 1)[1].split(b"\\r\\n", 1)[0])
            if len(self.buffer) < end + 4 + size: return
            self.buffer = self.buffer[end + 4 + size:]
            self.transport.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok")
async def main():
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Receiver, "127.0.0.1", int(port), backlog=1000) for port in sys.argv[1:]]
    print("ready", flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))
try:
    import uvloop; uvloop.run(main())
except ImportError:
    asyncio.run(main())
"""


@asynccontextmanager
async def a_database():
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedPostgres(Path(folder) / "postgres")
        url = server.start()
        try:
            await migrate.upgrade(url)
            database = await Database.connect(url)
            yield database
            await database.close()
        finally:
            server.stop()


@asynccontextmanager
async def a_broker():
    server = RabbitMQ()
    try:
        server.start()
        bus = await RabbitBus.connect(server.url, topology())
        connection = await aio_pika.connect(server.url)
        channel = await connection.channel()
        queue = await channel.declare_queue("bench", durable=True, arguments={"x-queue-type": "quorum"})
        await queue.bind(EVENTS, "#")
        yield server, bus, connection, queue
        await connection.close()
        await bus.close()
    finally:
        server.remove()


async def _execute(database, query, *args):
    async with database.session() as session:
        await session.connection.execute(query, *args, timeout=300)


async def bare_rate(connection, window: int = 500) -> float:
    """aio-pika as its documentation shows it, with confirms, a window of publications at a time."""
    channel = await connection.channel(publisher_confirms=True)
    exchange = await channel.get_exchange(EVENTS)

    def message() -> aio_pika.Message:
        return aio_pika.Message(
            BODY, delivery_mode=2, content_type="application/json", headers={"x-schema-version": 1}
        )

    began = time.perf_counter()
    for _ in range(MESSAGES // window):
        await asyncio.gather(*(exchange.publish(message(), "crawl.job.completed") for _ in range(window)))
    return MESSAGES / (time.perf_counter() - began)


async def _drained(database, table: str) -> None:
    while True:
        async with database.session() as session:
            if not await session.connection.fetchval(f"select exists (select 1 from {table})"):
                return
        await asyncio.sleep(0.02)


async def relay_rate(database, bus) -> float:
    """From the event log to the broker's confirm, as one process does it."""
    await _execute(database, _FILL, MESSAGES)
    await _execute(database, "vacuum analyze event")
    began = time.perf_counter()
    tasks = [
        asyncio.create_task(Relay(database, to_broker).loop().run()),
        asyncio.create_task(Publisher(database, bus).loop().run()),
    ]
    await _drained(database, "event_waiting")
    await _drained(database, "outbound")
    rate = MESSAGES / (time.perf_counter() - began)
    await _stop(tasks)
    return rate


async def _stop(tasks) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def commit_to_publish(database, bus, queue, count: int = ARRIVALS, warm_up: int = 20) -> list[float]:
    """Milliseconds from the commit of an event to its arrival at a consumer, twenty a second."""
    await queue.purge()
    arrived: asyncio.Queue[float] = asyncio.Queue()

    async def take(_message) -> None:
        arrived.put_nowait(time.perf_counter())

    tag = await queue.consume(take, no_ack=True)
    tasks = [
        asyncio.create_task(Relay(database, to_broker).loop().run()),
        asyncio.create_task(Publisher(database, bus).loop().run()),
    ]
    await asyncio.sleep(1)
    times = []
    async with database.session() as session:
        for _ in range(warm_up + count):
            async with session.connection.transaction():
                await session.connection.execute(_FILL, 1)
                await session.connection.execute("select pg_notify('opilio_outbox', '')")
            committed = time.perf_counter()
            times.append((await arrived.get() - committed) * 1000)
            await asyncio.sleep(0.05)
    await _stop(tasks)
    await queue.cancel(tag)
    return times[warm_up:]


async def webhook_rate(database) -> tuple[float, int, float, float]:
    """10,000 endpoints on ten hosts, one of which takes connections and never answers."""
    ports = [free_port() for _ in range(HOSTS - 1)]
    receiver = subprocess.Popen([sys.executable, "-c", _RECEIVER, *map(str, ports)], stdout=subprocess.PIPE)
    receiver.stdout.readline()
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen(1000)
    hosts = [f"127.0.0.1:{port}" for port in [*ports, silent.getsockname()[1]]]
    try:
        await _execute(
            database,
            """
            with made as (
              insert into webhook_endpoint (kind, url, events, event_regex, secret, status, status_since, created_at, updated_at)
              select 'subscription', 'http://' || ($1::text[])[1 + i % $2] || '/hook/' || i, '{*}', '^(.*)$',
                     'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'active', now(), now(), now()
              from generate_series(0, $3 - 1) i returning endpoint_id, url)
            insert into webhook_gate (endpoint_id, active, host, max_concurrent)
            select endpoint_id, true, split_part(url, '/', 3), 4 from made
            """,
            hosts,
            HOSTS,
            ENDPOINTS,
        )
        await _execute(database, "analyze")
        await _execute(database, _FILL, 2)
        await Relay(database, to_broker).run_once()
        async with WebhookClient(parse_allow("127.0.0.0/8")) as client:
            began, cpu = time.perf_counter(), time.process_time()
            sending = asyncio.create_task(Sender(database, client).run())
            alive = ENDPOINTS * 2 * (HOSTS - 1) // HOSTS
            while (sent := await _delivered(database)) < alive and time.perf_counter() - began < 120:
                await asyncio.sleep(0.1)
            seconds = time.perf_counter() - began
            cpu = time.process_time() - cpu
            await _stop([sending])
        return sent / seconds, alive - sent, seconds, cpu / sent * 1e6
    finally:
        receiver.kill()
        receiver.wait()
        silent.close()


async def _delivered(database) -> int:
    async with database.session() as session:
        return await session.connection.fetchval(
            "select count(*) from webhook_attempt where outcome = 'delivered'"
        )


def _row(what: str, measured: str, goal: str) -> None:
    print(f"{what:58} {measured:>16}   {goal}")


async def main() -> None:
    _row("delivery", "measured", "goal")
    async with a_database() as database:
        async with a_broker() as (_server, bus, connection, queue):
            bare = await bare_rate(connection)
            relayed = await relay_rate(database, bus)
            times = sorted(await commit_to_publish(database, bus, queue))
        _row("bare aio-pika publisher with confirms, messages/s", f"{bare:,.0f}", "")
        _row("relay: event to confirmed, messages/s", f"{relayed:,.0f}", "")
        _row("  of the bare publisher", f"{relayed / bare:.2f}", ">= 0.5")
        _row("commit to arrival at a consumer, median ms", f"{statistics.median(times):.1f}", "")
        _row("  p99 ms", f"{times[int(len(times) * 0.99)]:.1f}", "< 50")
        rate, missing, seconds, cpu = await webhook_rate(database)
        _row(f"webhooks/s, {ENDPOINTS:,} endpoints, one host in ten dead", f"{rate:,.0f}", ">= 1,000")
        _row("  processor time of the sender for each, µs", f"{cpu:,.0f}", "")
        _row("  not delivered to living hosts", f"{missing}", f"0 (after {seconds:.1f} s)")


if __name__ == "__main__":
    try:
        import uvloop

        uvloop.run(main())
    except ImportError:
        asyncio.run(main())
