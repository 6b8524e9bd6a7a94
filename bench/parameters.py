"""Ways to hand 100 rows of 41 columns to one statement: processor time of each row here and in PostgreSQL, in turn."""

import os
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import uuid4

import asyncpg
import msgspec
import psutil

from bench.databases import create_database, server
from bench.report import Table
from bench.size import scaled

ROWS, TIMES, ROUNDS = 100, scaled(300, 3), scaled(3, 1)
# As many columns, of the same kinds, as the statement that ends jobs has; most of them are null for most jobs.
KINDS = {
    "uuid": 3,
    "text": 17,
    "timestamptz": 2,
    "int": 3,
    "float8": 8,
    "numeric": 1,
    "boolean": 2,
    "jsonb": 4,
    "bytea": 1,
}
GIVEN = {
    "uuid": (uuid4(), 3), "text": ("https://shop.example/p/1", 9), "timestamptz": (datetime.now(UTC), 1), "int": (0, 3), "float8": (0.1, 2),
    "numeric": (Decimal("19.99"), 1), "boolean": (True, 2), "jsonb": ({"price": 19.99, "currency": "EUR"}, 1), "bytea": (os.urandom(16), 1),
}  # fmt: skip
COLUMNS = {f"{kind}_{n}": kind for kind, count in KINDS.items() for n in range(count)}
ROW = {
    name: GIVEN[kind][0] if int(name.rsplit("_", 1)[1]) < GIVEN[kind][1] else None
    for name, kind in COLUMNS.items()
}
DATA: list[dict[str, Any]] = [ROW] * ROWS
ARRAYS = f"select count(i.*) from unnest({', '.join(f'${n}::{kind}[]' for n, kind in enumerate(COLUMNS.values(), 1))}) i"
RECORDS = ", ".join(f"{name} {'text' if kind == 'bytea' else kind}" for name, kind in COLUMNS.items())
TEXTS = ", ".join(
    f"{name} {'text' if kind in {'bytea', 'jsonb'} else kind}" for name, kind in COLUMNS.items()
)
CASTS = ", ".join(f"count({name}::jsonb)" for name, kind in COLUMNS.items() if kind == "jsonb")
_encode = msgspec.json.Encoder(decimal_format="number").encode


def _binary(version: bytes, value: Any) -> bytes:
    return version + _encode(value)


def _ways(connection: asyncpg.Connection) -> dict[str, Callable[[], Awaitable[Any]]]:
    async def arrays() -> None:
        await connection.fetchval(ARRAYS, *([row[name] for row in DATA] for name in COLUMNS))

    async def json(kind: str) -> None:
        rows = [{name: value for name, value in row.items() if value is not None} for row in DATA]
        await connection.fetchval(
            f"select count(i.*) from {kind}_to_recordset($1::{kind}) as i({RECORDS})", rows
        )

    async def nested_as_text() -> None:
        rows = [
            {
                name: _encode(value).decode() if COLUMNS[name] == "jsonb" else value
                for name, value in row.items()
                if value is not None
            }
            for row in DATA
        ]
        await connection.fetchval(
            f"select count(i.*), {CASTS} from json_to_recordset($1::json) as i({TEXTS})", rows
        )

    async def copy() -> None:
        await connection.execute("truncate copied")
        await connection.copy_records_to_table("copied", records=[tuple(row.values()) for row in DATA])
        await connection.fetchval("select count(i.*) from copied i")

    return {
        "arrays": arrays,
        "json": lambda: json("json"),
        "json, what is JSON in it as text": nested_as_text,
        "jsonb": lambda: json("jsonb"),
        "copy": copy,
    }


async def main() -> Table:
    cost: dict[str, list[tuple[float, float]]] = defaultdict(list)
    async with server() as server_url:
        connection = await asyncpg.connect(await create_database(server_url, "parameters"))
        for kind, version in (("json", b""), ("jsonb", b"\x01")):  # binary, because COPY takes nothing else
            encoder = partial(_binary, version)
            await connection.set_type_codec(
                kind, schema="pg_catalog", encoder=encoder, decoder=bytes, format="binary"
            )
        await connection.execute(f"create temp table copied ({', '.join(map(' '.join, COLUMNS.items()))})")
        backend = psutil.Process(await connection.fetchval("select pg_backend_pid()"))
        for _ in range(ROUNDS):
            for way, hand_over in _ways(connection).items():
                here, there = time.process_time(), sum(backend.cpu_times()[:2])
                for _ in range(TIMES):
                    await hand_over()
                done = TIMES * ROWS / 1e6
                cost[way].append(
                    ((time.process_time() - here) / done, (sum(backend.cpu_times()[:2]) - there) / done)
                )
        await connection.close()
    table = Table(
        f"{ROWS} rows of {len(COLUMNS)} columns as parameters, µs a row, best of {ROUNDS}",
        ("how", "client", "server", "together"),
    )
    for way, found in cost.items():
        table.add(way, *min(found, key=sum), sum(min(found, key=sum)))
    return table
