"""Alembic's entry: one transaction for all revisions, over asyncpg."""

import asyncio
from typing import Any

import asyncpg
from alembic import context
from sqlalchemy import Connection, pool, text
from sqlalchemy.ext.asyncio import create_async_engine

from opilio.adapters.postgres.database_url import parse_database_url
from opilio.adapters.postgres.migrate import compatibility_note


def note_compatibility(ctx: Any, step: Any, heads: Any, run_args: Any) -> None:
    """Notes, in the transaction of an upgrade, that processes of the revision before may go on beside it."""
    del heads, run_args  # Alembic passes all four by name
    revision = step.up_revision
    keeps_previous = step.is_upgrade and revision.down_revision
    note = f"'{compatibility_note(revision.revision, revision.down_revision)}'" if keeps_previous else "null"
    ctx.connection.execute(text(f"comment on table alembic_version is {note}"))


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=None,
        transaction_per_migration=True,
        on_version_apply=note_compatibility,
    )
    with context.begin_transaction():
        context.run_migrations()


async def run_async() -> None:
    arguments = parse_database_url(context.config.attributes["url"]).arguments("opilio db")
    arguments["server_settings"] |= {"lock_timeout": context.config.attributes["lock_timeout"]}
    engine = create_async_engine(
        "postgresql+asyncpg://", poolclass=pool.NullPool, async_creator=lambda: asyncpg.connect(**arguments)
    )
    async with engine.connect() as connection:
        await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()


asyncio.run(run_async())
