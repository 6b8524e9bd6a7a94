"""Alembic's entry: one transaction for all revisions, over asyncpg."""

import asyncio

import asyncpg
from alembic import context
from sqlalchemy import Connection, pool
from sqlalchemy.ext.asyncio import create_async_engine

from opilio.adapters.postgres.database_url import parse_database_url


def run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=None, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


async def run_async() -> None:
    arguments = parse_database_url(context.config.attributes["url"]).arguments("opilio db")
    # A change of a table that waits for a lock makes all others wait behind it: better to give up and try again.
    arguments["server_settings"] |= {"lock_timeout": "4s"}
    engine = create_async_engine(
        "postgresql+asyncpg://", poolclass=pool.NullPool, async_creator=lambda: asyncpg.connect(**arguments)
    )
    async with engine.connect() as connection:
        await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()


asyncio.run(run_async())
