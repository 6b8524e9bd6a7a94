"""The system under test: real servers, every role in a process of its own that is started again when it ends."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil

from opilio.adapters.postgres import migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.errors import Unavailable
from tests.components.servers import S3, RabbitMQ, Redis, free_port

ROLES = {
    "api": ("run", "api"),
    "scheduler": ("run", "scheduler"),
    "delivery": ("run", "delivery"),
    "collector": ("run", "collector"),
    "analytics": ("run", "analytics"),
    "crawlers": ("crawler", "simulate", "--platform", "tiktok", "--platform", "youtube", "--calm"),
}
_RESTART_SECONDS = 0.5
_SAMPLE_SECONDS = 2.0
_SETTLED_SECONDS = 30.0
_MIB = 2**20


class Role:
    """One role, started again when it ends, as systemd or Kubernetes would."""

    def __init__(self, name: str, environment: dict[str, str], folder: Path) -> None:
        self.name = name
        self.starts = 0
        self._environment = environment
        self._log = folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None
        self._keeper = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        with self._log.open("ab") as log:
            while True:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "opilio", *ROLES[self.name]),
                    env=self._environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                self.starts += 1
                await self._process.wait()
                await asyncio.sleep(_RESTART_SECONDS)

    @property
    def tree(self) -> list[psutil.Process]:
        """Its process and the children of it; none while it is down."""
        if self._process is None or self._process.returncode is not None:
            return []
        with suppress(psutil.NoSuchProcess):
            own = psutil.Process(self._process.pid)
            return [own, *own.children(recursive=True)]
        return []

    def signal(self, number: int, *, child: bool = False) -> None:
        """To its process, or to one of the processes that it started."""
        found = self.tree[1:] if child and len(self.tree) > 1 else self.tree
        for process in found[:1]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def signal_all(self, number: int) -> None:
        for process in self.tree:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def memory(self) -> float:
        """MiB of all its processes; 0 while one of them has just started."""
        try:
            tree = self.tree
            if not tree or max(process.create_time() for process in tree) > time.time() - _SETTLED_SECONDS:
                return 0
            return float(sum(process.memory_info().rss for process in tree)) / _MIB
        except psutil.NoSuchProcess:
            return 0

    async def stop(self) -> None:
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        self.signal(signal.SIGTERM)
        if self._process is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(20):
                    await self._process.wait()
            self.signal(signal.SIGKILL)


class System:
    """PostgreSQL, RabbitMQ, Redis, S3, and the roles."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.postgres = EmbeddedPostgres(folder / "pg")
        self.rabbitmq, self.redis, self.s3 = RabbitMQ(), Redis(), S3()
        self.roles: dict[str, Role] = {}
        self.memory: dict[str, list[float]] = defaultdict(list)
        self.faults: Counter[str] = Counter()
        self.database_url = ""
        self.keep_logs = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def blobs_url(self) -> str:
        return f"s3://{self.s3.bucket}?endpoint={self.s3.url}"

    def environment(self) -> dict[str, str]:
        plain = {key: value for key, value in os.environ.items() if not key.startswith("OPILIO_")}
        return plain | {
            "OPILIO_DATABASE_URL": self.database_url,
            "OPILIO_AMQP_URL": self.rabbitmq.url,
            "OPILIO_REDIS_URL": self.redis.url,
            "OPILIO_BLOBS_URL": self.blobs_url,
            "AWS_ACCESS_KEY_ID": self.s3.access_key,
            "AWS_SECRET_ACCESS_KEY": self.s3.secret_key,
            "OPILIO_DATA_DIR": str(self.folder / "data"),
            "OPILIO_PORT": str(self.port),
            "OPILIO_API_WORKERS": "2",
            "OPILIO_METRICS_PORT": "0",
            "OPILIO_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8",
            "OPILIO_SCHEDULER_INTERVAL_SECONDS": "0.5",
            "OPILIO_RETRY_BACKOFF_SECONDS": "2",
            "OPILIO_TASK_TIMEOUT_SECONDS": "120",
        }

    async def start(self) -> None:
        self.database_url = await asyncio.to_thread(self.postgres.start)
        await migrate.upgrade(self.database_url)
        for server in (self.rabbitmq, self.redis, self.s3):
            await asyncio.to_thread(server.start)
        self.start_roles()

    def start_roles(self) -> None:
        environment = self.environment()
        self.roles = {name: Role(name, environment, self.folder) for name in ROLES}

    async def stop_roles(self) -> None:
        await asyncio.gather(*(role.stop() for role in self.roles.values()))

    async def close(self) -> None:
        await self.stop_roles()
        await asyncio.to_thread(self.postgres.stop)
        for server in (self.rabbitmq, self.redis, self.s3):
            await asyncio.to_thread(server.remove)

    async def watch_memory(self) -> None:
        while True:
            await asyncio.sleep(_SAMPLE_SECONDS)
            for name, role in self.roles.items():
                if used := role.memory():
                    self.memory[name].append(used)

    # ── faults ───────────────────────────────────────────────────────────────────────────────────

    async def kill_role(self, name: str) -> None:
        self.faults[f"kill -9 {name}"] += 1
        self.roles[name].signal(signal.SIGKILL)

    async def kill_api_worker(self) -> None:
        self.faults["kill -9 an API worker"] += 1
        self.roles["api"].signal(signal.SIGKILL, child=True)

    async def pause_role(self, name: str, seconds: float) -> None:
        self.faults[f"pause {name}"] += 1
        self.roles[name].signal_all(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self.roles[name].signal_all(signal.SIGCONT)

    async def kill_postgres(self) -> None:
        """Without a checkpoint, as a machine that loses power."""
        self.faults["kill -9 PostgreSQL"] += 1
        with suppress(OSError, ValueError):
            os.kill(int((self.folder / "pg" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        async with asyncio.timeout(120):
            while True:
                try:
                    await asyncio.to_thread(self.postgres.start)
                except Unavailable:  # processes of the killed server still hold its memory
                    await asyncio.sleep(0.5)
                else:
                    return

    async def kill_rabbitmq(self) -> None:
        self.faults["kill -9 RabbitMQ"] += 1
        await asyncio.to_thread(self.rabbitmq.kill)
        await asyncio.to_thread(self.rabbitmq.start, 120)

    async def kill_redis(self) -> None:
        self.faults["kill -9 Redis"] += 1
        await asyncio.to_thread(self.redis.kill)
        await asyncio.to_thread(self.redis.start)


@asynccontextmanager
async def running() -> AsyncIterator[System]:
    system = System(Path(tempfile.mkdtemp(prefix="opilio-soak-")))
    try:
        await system.start()
        yield system
    finally:
        await system.close()
    if not system.keep_logs:
        shutil.rmtree(system.folder, ignore_errors=True)
