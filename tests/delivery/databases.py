"""Fresh databases, cut from one migrated template on one embedded server."""

from itertools import count
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from opilio.adapters.postgres import migrate

_numbers = count(1)


def with_name(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


async def make_template(server_url: str) -> str:
    await _run(server_url, "create database opilio_template")
    await migrate.upgrade(with_name(server_url, "opilio_template"))
    return "opilio_template"


async def fresh(server_url: str, template: str) -> str:
    name = f"opilio_test_{next(_numbers)}"
    await _run(server_url, f"create database {name} template {template}")
    return with_name(server_url, name)


async def _run(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
