"""Analytics, collector and delivery in a process of their own on real servers: to be killed, cut off and restarted."""

import asyncio
import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import obstore
from obstore.store import S3Store

from opilio.adapters.local_bus import LocalBus
from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.bus import Outgoing
from opilio.collector.collector import open_projects
from opilio.collector.config import Config
from opilio.contracts.projects import ProjectInput, ProjectState
from opilio.contracts.topology import COLLECTED_QUEUE, LIFECYCLE, RESULTS_QUEUE, topology
from opilio.rabbitmq.bus import RabbitBus
from tests.components.servers import S3, RabbitMQ

_ACK_LOCK = 4242
# An acknowledgement on the local bus is a DELETE: it waits here for as long as the test holds the lock.
_SLOW_ACKS = f"""
create function slow_ack() returns trigger language plpgsql as
$$begin perform pg_advisory_xact_lock({_ACK_LOCK}); return old; end$$;
create trigger slow_ack before delete on bus_message for each row
when (old.queue = '{COLLECTED_QUEUE}') execute function slow_ack();
"""
# What is told leaves the outbox as soon as it is sent; the test keeps count.
_TOLD = """
create table told (job_id text);
create function keep_told() returns trigger language plpgsql as
$$begin insert into told values (new.data ->> 'job_id'); return new; end$$;
create trigger keep_told after insert on outbox for each row
when (new.type = 'analyze_result') execute function keep_told();
"""


async def until(condition: Callable[[], Awaitable[Any]], seconds: float = 40) -> Any:
    async with asyncio.timeout(seconds):
        while not (found := await condition()):
            await asyncio.sleep(0.05)
    return found


async def put(s3: S3, key: str, data: bytes) -> None:
    """By the front door: the server remembers what its folders held."""
    store = S3Store(
        s3.bucket,
        endpoint=s3.url,
        access_key_id=s3.access_key,
        secret_access_key=s3.secret_key,
        region="us-east-1",
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )
    await obstore.put_async(store, key, data)


class Postgres:
    """An embedded server of the test's own, which goes away and comes back."""

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedPostgres(folder / "pg")
        self.url = ""

    async def start(self) -> None:
        self.url = await asyncio.to_thread(self._server.start)

    async def stop(self) -> None:
        await asyncio.to_thread(self._server.stop)

    async def ask(self, query: str, *values: Any) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetch(query, *values)
        finally:
            await connection.close()

    async def run(self, script: str) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute(script)
        await connection.close()

    async def count(self, what: str) -> int:
        return (await self.ask(f"select count(*) from {what}"))[0][0]


class Wire(Protocol):
    """How messages come in, and how acknowledgements can be kept from going out."""

    async def listening(self) -> bool: ...
    async def publish(self, messages: list[bytes]) -> None: ...
    async def hold_acks(self) -> None: ...
    async def cut(self) -> None: ...
    async def waiting(self) -> int: ...
    async def close(self) -> None: ...


class Proxy:
    """Between a process and the broker; while it holds, nothing the process says arrives."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._speaks = asyncio.Event()
        self._speaks.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, far_writer}
        await asyncio.gather(
            self._pump(reader, far_writer, self._speaks), self._pump(far_reader, writer, None)
        )

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event | None
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(1 << 16):
                if gate:
                    await gate.wait()
                writer.write(piece)
                await writer.drain()
        writer.close()

    def hold(self) -> None:
        self._speaks.clear()

    def cut(self) -> None:
        """What was held is never said."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        self._speaks.set()

    async def close(self) -> None:
        self.cut()
        self._server.close()
        await self._server.wait_closed()


class RabbitWire:
    def __init__(self, rabbit: RabbitMQ) -> None:
        self._proxy = Proxy(rabbit.port)
        self._url = rabbit.url
        self._bus = RabbitBus(rabbit.url, topology())

    async def open(self) -> dict[str, str]:
        port = await self._proxy.open()
        return {"OPILIO_AMQP_URL": f"amqp://guest:guest@127.0.0.1:{port}/"}

    async def listening(self) -> bool:
        connection = await self._bus.connection()
        async with connection.channel(publisher_confirms=False) as channel:
            queue = await channel.declare_queue(COLLECTED_QUEUE, passive=True)
            return queue.declaration_result.consumer_count >= 5

    async def publish(self, messages: list[bytes]) -> None:
        await self._bus.publish_many([Outgoing(LIFECYCLE, "data.collected", body) for body in messages])

    async def hold_acks(self) -> None:
        self._proxy.hold()

    async def cut(self) -> None:
        self._proxy.cut()

    async def waiting(self) -> int:
        queues = [queue for queue in topology().queues if queue.bindings and queue.dead_letters]
        names = [name for queue in queues for name in (queue.name, *queue.delay_queues)]
        names += [f"{COLLECTED_QUEUE}.parked.{form}" for form in ("event", "legacy", "inline")]
        return sum([await self._bus.depth(name) for name in names])

    async def close(self) -> None:
        await self._proxy.close()
        await self._bus.close()


class LocalWire:
    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._lock: asyncpg.Connection | None = None

    async def open(self) -> dict[str, str]:
        database = await Database.connect(self._postgres.url)
        await (await LocalBus.connect(database, topology())).close()
        await database.close()
        await self._postgres.run(_SLOW_ACKS)
        return {}

    async def listening(self) -> bool:
        return bool(await self._postgres.count("pg_stat_activity where application_name = 'opilio-listen'"))

    async def publish(self, messages: list[bytes]) -> None:
        database = await Database.connect(self._postgres.url)
        bus = await LocalBus.connect(database, topology())
        await bus.publish_many([Outgoing(LIFECYCLE, "data.collected", body) for body in messages])
        await bus.close()
        await database.close()

    async def hold_acks(self) -> None:
        self._lock = await asyncpg.connect(self._postgres.url)
        await self._lock.execute(f"select pg_advisory_lock({_ACK_LOCK})")

    async def cut(self) -> None:
        """What was held is never said; and the leases of the dead run out."""
        await self._postgres.ask(
            "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'advisory'"
        )
        if self._lock:
            await self._lock.close()
            self._lock = None
        await self._postgres.ask("update bus_message set ready_at = now() where lease is not null")

    async def waiting(self) -> int:
        return await self._postgres.count(
            f"bus_message where queue like '{COLLECTED_QUEUE}%' or queue = '{RESULTS_QUEUE}'"
        )

    async def close(self) -> None:
        if self._lock:
            await self._lock.close()


class Place:
    """The servers, the process, and what a test wants to see."""

    def __init__(self, postgres: Postgres, wire: Wire, environment: dict[str, str], folder: Path) -> None:
        self.postgres = postgres
        self.wire = wire
        self.environment = environment
        self._log = folder / "opilio.log"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("OPILIO_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "opilio", "run", "analytics", "collector", "delivery"],
                env=inherited | self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            await until(self.wire.listening)
        except TimeoutError:
            raise AssertionError(f"it does not listen\n{self.log}") from None

    def must_live(self) -> None:
        """PostgreSQL may go away: the process waits for it, nobody has to start it again."""
        assert self._process is not None
        assert self._process.poll() is None, self.log

    async def kill(self) -> None:
        """Only the process itself: what it started must not outlive it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(self._process.wait, 20)
        await self.wire.cut()

    async def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        await asyncio.to_thread(self._process.wait, 20)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    async def is_gone(self) -> bool:
        """Whether nothing of the process group lives any longer."""
        assert self._process is not None
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def clear(self) -> None:
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(20)

    async def done(self) -> int:
        """How many batches are done, given up ones included; none while PostgreSQL is away."""
        try:
            return await self.postgres.count("analysed_batch")
        except (OSError, asyncpg.PostgresError):
            return 0

    async def create(self, project_id: str) -> None:
        async with self._projects() as projects:
            await projects.create(ProjectInput(project_id=project_id, brand_keywords=["x"]), by="test")

    async def state(self, project_id: str) -> ProjectState:
        async with self._projects() as projects:
            return await projects.state(project_id)

    @asynccontextmanager
    async def _projects(self) -> AsyncIterator[Any]:
        database = await Database.connect(self.postgres.url)
        try:
            yield open_projects(database, Config())
        finally:
            await database.close()


_templates: list[Path] = []


async def _migrated() -> Path:
    """The data directory of a server with the newest schema, made once and copied: faster than migrating each time."""
    if not _templates:
        folder = Path(tempfile.mkdtemp(prefix="opilio-test-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        postgres = Postgres(folder)
        await postgres.start()
        await migrate.upgrade(postgres.url)
        await postgres.stop()
        _templates.append(folder / "pg")
    return _templates[0]


@asynccontextmanager
async def open_place(folder: Path, s3: S3, rabbit: RabbitMQ | None, **settings: str) -> AsyncIterator[Place]:
    # With its owner, which is another user where the tests run as root.
    await asyncio.to_thread(subprocess.run, ["cp", "-a", await _migrated(), folder / "pg"], check=True)
    postgres = Postgres(folder)
    await postgres.start()
    await postgres.run(_TOLD)
    wire: Any = RabbitWire(rabbit) if rabbit else LocalWire(postgres)
    environment = await wire.open() | {
        "OPILIO_DATABASE_URL": postgres.url,
        "OPILIO_DATA_DIR": str(folder),
        "OPILIO_BLOBS_URL": f"s3://{s3.bucket}?endpoint={s3.url}",
        "OPILIO_METRICS_PORT": "0",
        "OPILIO_ANALYTICS_RETRY_SECONDS": "0.2",
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        **settings,
    }
    place = Place(postgres, wire, environment, folder)
    try:
        yield place
    finally:
        place.clear()
        await wire.close()
        await postgres.stop()
