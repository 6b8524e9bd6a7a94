"""Import of policies over HTTP, as CSV, new and once more, beside COPY of the same rows into a table without indexes."""

import io
import tempfile
import time
from pathlib import Path

import asyncpg
import httpx2

from bench.api import api
from bench.databases import create_database, opilio_on, server
from bench.report import Table, median, progress
from bench.size import scaled
from opilio.access.credentials import Credentials

ROWS, HOSTS, ROUNDS = scaled(100_000, 1_000), 2_000, scaled(3, 1)
GOAL_SECONDS = 10


def csv() -> bytes:
    lines = (
        f"https://shop{n % HOSTS}.example/product/{n},{24 + n % 7},{n % 101},team=t{n % 7}"
        for n in range(ROWS)
    )
    return "\n".join(["url,frequency_hours,priority,labels", *lines, ""]).encode()


async def copied(url: str, body: bytes) -> float:
    """The floor: the same bytes, read by PostgreSQL alone."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "create temp table plain (url text, frequency float8, priority int, labels text)"
        )
        began = time.perf_counter()
        await connection.copy_to_table("plain", source=io.BytesIO(body), format="csv", header=True)
        return time.perf_counter() - began
    finally:
        await connection.close()


async def imported(port: int, key: str, body: bytes, status: str) -> float:
    headers = {"authorization": f"Bearer {key}", "content-type": "text/csv"}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=300, headers=headers) as http:
        began = time.perf_counter()
        answer = await http.post("/api/v1/policies/import", content=body)
        taken = time.perf_counter() - began
    assert answer.status_code == 200, answer.text[:300]
    assert answer.json()["data"][status] == ROWS, answer.text[:300]
    return taken


async def main() -> Table:
    body = csv()
    seconds: dict[str, list[float]] = {"COPY": [], "import, new": [], "import, once more": []}
    async with server() as server_url:
        for number in range(1, ROUNDS + 1):
            progress(f"round {number} of {ROUNDS}")
            url = await create_database(server_url, "imported")
            seconds["COPY"].append(await copied(url, body))
            async with opilio_on(url) as opilio:
                _, key = await Credentials(opilio.database).new_key("bench", "write")
            with tempfile.TemporaryDirectory() as folder:
                async with api(url, Path(folder)) as port:
                    seconds["import, new"].append(await imported(port, key, body, "created"))
                    seconds["import, once more"].append(await imported(port, key, body, "updated"))
    table = Table(f"{ROWS:,} policies by CSV over HTTP, median of {ROUNDS}", ("how", "seconds", "rows/s"))
    for how, taken in seconds.items():
        table.add(how, median(taken), ROWS / median(taken))
    table.goal("import of new policies, seconds", median(seconds["import, new"]), at_most=GOAL_SECONDS)
    return table
