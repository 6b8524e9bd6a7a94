"""The database that the tests run on."""

import asyncpg

from opilio.adapters.postgres import Database, migrate


async def test_a_fresh_database_has_the_newest_schema(database_url: str) -> None:
    status = await migrate.status(database_url)
    assert status.up_to_date
    assert status.pending == []


async def test_tests_do_not_see_each_other(database: Database, server_url: str) -> None:
    async with database.session() as session:
        await session.connection.execute("insert into host (name) values ('mine.example')")
    template = server_url.replace("/postgres?", "/opilio_template?", 1)
    connection = await asyncpg.connect(template)
    try:
        assert await connection.fetchval("select count(*) from host") == 0
    finally:
        await connection.close()


async def test_the_server_listens_on_no_network(database: Database) -> None:
    async with database.session() as session:
        assert await session.connection.fetchval("select current_setting('listen_addresses')") == ""
