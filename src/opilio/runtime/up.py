"""`opilio up`: every role in one process tree, on an embedded PostgreSQL."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.errors import Refused, Unavailable
from opilio.logs import get_logger
from opilio.runtime.instance_file import demo_allowances, has_demo, instance_file_written, url_of
from opilio.runtime.metrics_dir import share_counters
from opilio.runtime.processes import DATABASE_ON_STDIN, hold_directory, require_free_port, stop_on_signals
from opilio.runtime.roles import available
from opilio.runtime.settings import Settings
from opilio.runtime.supervisor import Command, Supervisor

if TYPE_CHECKING:
    from opilio.access.credentials import Credentials

FIRST_BOT = "first-bot"
_log = get_logger(__name__)
_POSTGRES_POLL_SECONDS = 1.0
_READY_POLL_SECONDS = 0.05
_DEMO_POLL_SECONDS = 0.5
_MOST_API_EXITS = 3


@dataclass(frozen=True, slots=True)
class Ready:
    """What the start message shows."""

    url: str
    login_url: str | None
    bot_id: str
    bot_token: str | None
    data_dir: str
    pid: int


async def up(settings: Settings, *, demo: bool, announce: Callable[[Ready], None]) -> None:
    """Runs until Ctrl-C or SIGTERM; `announce` is called once, when everything answers."""
    with hold_directory(settings.data_dir):
        require_free_port(settings.host, settings.port)
        supervisor = Supervisor(grace_seconds=settings.shutdown_grace_seconds)
        stop = stop_on_signals(supervisor.hurry)
        demo_env = _demo_environment(settings) if demo else {}
        fresh = settings.embedded and not (settings.data_dir / "postgres").exists()
        usable: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        async with _postgres(settings) as starting:
            try:
                for command in _commands(settings, usable, demo_env):
                    supervisor.start(command)  # they load their modules while the database starts
                await _upgrade(starting, fresh=fresh)
                usable.set_result(await starting)
                await _serve(settings, await starting, supervisor, stop, demo=demo, announce=announce)
            finally:
                await supervisor.stop()


async def _serve(
    settings: Settings,
    database_url: str,
    supervisor: Supervisor,
    stop: asyncio.Event,
    *,
    demo: bool,
    announce: Callable[[Ready], None],
) -> None:
    database = await Database.connect(database_url, size=2, hot_size=1, name="opilio up")
    try:
        if not await _ready_or_stopped(settings, supervisor, stop):
            return
        with instance_file_written(settings):
            announce(await _ready(settings, database))
            async with _demo(settings, database, supervisor) if demo else nullcontext():
                await stop.wait()
    finally:
        await database.close()


def _demo_environment(settings: Settings) -> dict[str, str]:
    """What the processes of a demo may reach, where a demo runs or will run."""
    begins = not (settings.data_dir / "postgres").exists() and settings.database_url is None
    if not begins and not has_demo(settings):
        return {}
    return {f"OPILIO_{name.upper()}": value for name, value in demo_allowances(settings).items()}


@asynccontextmanager
async def _demo(settings: Settings, database: Database, supervisor: Supervisor) -> AsyncIterator[None]:
    """The demo's processes, until `opilio demo remove` takes away its note."""
    from opilio.runtime.bootstrap import wire  # noqa: PLC0415 - the children start while this loads
    from opilio.runtime.demo import start_demo  # noqa: PLC0415

    commands = await start_demo(wire(settings, database), url_of(settings))
    for command in commands:
        supervisor.start(command)
    watch = asyncio.create_task(_stop_removed(settings, supervisor, [command.name for command in commands]))
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def _stop_removed(settings: Settings, supervisor: Supervisor, names: list[str]) -> None:
    while has_demo(settings):  # noqa: ASYNC110 - another process removes it
        await asyncio.sleep(_DEMO_POLL_SECONDS)
    await supervisor.stop(names)


# ── processes ────────────────────────────────────────────────────────────────────────


def _commands(settings: Settings, database_url: asyncio.Future[str], more: dict[str, str]) -> list[Command]:
    share_counters(settings.data_dir / "metrics")
    env = {
        "OPILIO_DATA_DIR": str(settings.data_dir),
        DATABASE_ON_STDIN: "1",
        "OPILIO_HOST": settings.host,
        "OPILIO_PORT": str(settings.port),
        "OPILIO_API_WORKERS": str(settings.api_workers),
        "OPILIO_METRICS_PORT": "0",  # the API serves the metrics of all processes
        # The terminal shows the start message only, unless a log level is set.
        "OPILIO_LOG_LEVEL": settings.log_level if "log_level" in settings.given else "warning",
    }
    env |= more
    run = (sys.executable, "-m", "opilio", "run")
    background = [role for role in available() if role != "api"]
    return [
        Command("api", (*run, "api"), env, line=database_url),
        Command("worker", (*run, *background), env, line=database_url),
    ]


@asynccontextmanager
async def _postgres(settings: Settings) -> AsyncIterator[asyncio.Future[str]]:
    """The URL of the embedded server, which is restarted if it ends; or of the configured one."""
    if settings.database_url is not None:
        configured: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        configured.set_result(settings.database_url)
        yield configured
        return
    server = EmbeddedPostgres(settings.data_dir / "postgres")
    starting = asyncio.create_task(asyncio.to_thread(server.start))
    watch = asyncio.create_task(_keep_alive(server, starting))
    try:
        yield starting
    finally:
        watch.cancel()
        await asyncio.gather(watch, starting, return_exceptions=True)  # a thread cannot be cancelled
        server.stop()


async def _upgrade(starting: asyncio.Future[str], *, fresh: bool) -> None:
    """In a process of its own: Alembic would stay in the memory of this one. It loads while a fresh database is made."""
    if not fresh and await migrate.is_current(await starting):
        return
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "opilio", "db", "upgrade"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, DATABASE_ON_STDIN: "1"},
    )
    try:
        url = await starting
        _, said = await process.communicate(f"{url}\n".encode())
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise Unavailable(
            said.decode().strip() or "The schema could not be upgraded; run `opilio db upgrade` to see why."
        )


async def _keep_alive(server: EmbeddedPostgres, starting: asyncio.Future[str]) -> None:
    await asyncio.shield(starting)
    while True:
        await asyncio.sleep(_POSTGRES_POLL_SECONDS)
        if server.running:
            continue
        _log.error("postgres.exited", directory=str(server.directory))
        try:
            await asyncio.to_thread(server.start)
        except Unavailable as error:
            _log.error("postgres.restart_failed", error=str(error))
        else:
            _log.warning("postgres.restarted", pid=server.pid)


# ── ready ────────────────────────────────────────────────────────────────────────────────────────


async def _ready_or_stopped(settings: Settings, supervisor: Supervisor, stop: asyncio.Event) -> bool:
    """Waits until the API is ready; raises if it keeps exiting."""
    while not await _answers(settings.host, settings.port):
        if stop.is_set():
            return False
        if supervisor.deaths["api"] >= _MOST_API_EXITS:
            raise Unavailable(
                "The API keeps exiting; its log is above. Run `opilio doctor` to find the cause."
            )
        await asyncio.sleep(_READY_POLL_SECONDS)
    return True


async def _answers(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /readyz HTTP/1.1\r\nhost: opilio\r\nconnection: close\r\n\r\n")
            status = await reader.readline()
            writer.close()
    except (OSError, TimeoutError):
        return False
    return status.split()[1:2] == [b"200"]


async def _ready(settings: Settings, database: Database) -> Ready:
    from opilio.access.credentials import Credentials  # noqa: PLC0415 - the children start while this loads
    from opilio.access.operators import Operators  # noqa: PLC0415

    credentials, operators, url = Credentials(database), Operators(database), url_of(settings)
    link = None if await operators.has_password() else f"{url}/login/{await operators.invite()}"
    token = await _first_token(credentials, settings.data_dir / f"{FIRST_BOT}.token")
    return Ready(url, link, FIRST_BOT, token, str(settings.data_dir), os.getpid())


async def _first_token(credentials: "Credentials", file: Path) -> str | None:
    """The token of the first bot, the same at every start; None once it was revoked."""
    secret = _kept(file)
    if secret is None:
        _, secret = await credentials.new_bot_token(FIRST_BOT)
        _keep(file, secret)
    try:
        await credentials.authenticate(secret)
    except Refused:
        return None
    return secret


def _kept(file: Path) -> str | None:
    return file.read_text(encoding="utf-8").strip() if file.exists() else None


def _keep(file: Path, secret: str) -> None:
    file.touch(mode=0o600)
    file.write_text(f"{secret}\n", encoding="utf-8")
