"""The API as a deployment runs it, for benches that go over HTTP."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from opilio.access.credentials import Credentials
from opilio.adapters.postgres import Database


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@asynccontextmanager
async def api(database_url: str, folder: Path) -> AsyncIterator[int]:
    """`opilio run api` in a process of its own; answers its port once it is ready."""
    async with api_process(database_url, folder) as (port, _):
        yield port


@asynccontextmanager
async def api_process(database_url: str, folder: Path, workers: int = 1) -> AsyncIterator[tuple[int, int]]:
    """The same, in one or several processes; answers its port and its process id."""
    port = free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPILIO_")} | {
        "OPILIO_DATABASE_URL": database_url, "OPILIO_DATA_DIR": str(folder), "OPILIO_HOST": "127.0.0.1",
        "OPILIO_PORT": str(port), "OPILIO_METRICS_PORT": "0", "OPILIO_LOG_LEVEL": "warning",
        "OPILIO_API_WORKERS": str(workers),
    }  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "opilio", "run", "api"], env=environment)
    try:
        await until_ready(port, process)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(20)


async def until_ready(port: int, process: subprocess.Popen[bytes], patience: float = 60) -> None:
    async with asyncio.timeout(patience):
        while not await answers(port):
            if process.poll() is not None:
                raise RuntimeError(f"the server ended with {process.returncode}")
            await asyncio.sleep(0.02)


async def answers(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /readyz HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")
        status = await reader.readline()
        writer.close()
    except OSError:
        return False
    return b" 200" in status


async def logins(database: Database, count: int) -> list[str]:
    """So many bots, each with a token of its own."""
    credentials = Credentials(database)
    return [f"bench-{n}={(await credentials.new_bot_token(f'bench-{n}'))[1]}" for n in range(count)]


async def load(port: int, bots: list[str], *, batch: int, seconds: int) -> float:
    """Jobs done in a second, pulled and submitted over HTTP."""
    return (await loaded(port, bots, batch=batch, seconds=seconds))[0]


async def loaded(port: int, bots: list[str], *, batch: int, seconds: int) -> tuple[float, float]:
    """The same, and the processor seconds of the bots."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.load", str(port), str(seconds), str(batch), *bots),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await process.communicate()
    if process.returncode:
        raise RuntimeError(said.decode()[-2000:])
    rate, processor = map(float, out.split())
    return rate, processor
