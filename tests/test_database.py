"""The database that the tests run on."""

import asyncpg
import pytest

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


@pytest.mark.parametrize(
    "moment", ["2026-03-01 12:00:00.123456+07", "1969-12-31 23:59:59.999999Z", "infinity", "-infinity"]
)
async def test_hot_connections_read_and_write_timestamps_as_others_do(
    database: Database, moment: str
) -> None:
    async with database.session() as usual, database.session(hot=True) as hot:
        expected = await usual.connection.fetchval("select $1::text::timestamptz", moment)
        found = await hot.connection.fetch("select $1::text::timestamptz from generate_series(1, 2)", moment)
        assert [row[0] for row in found] == [expected, expected]
        assert found[0][0] is found[1][0], "made once"
        same = "select $1::timestamptz = $2::text::timestamptz and $3::timestamptz[] = array[$1, null]"
        assert await hot.connection.fetchval(same, expected, moment, [expected, None])


@pytest.mark.parametrize(
    "number", ["19.90", "0", "-0.000001", "123456789012345678.123456", "10000", "Infinity"]
)
async def test_hot_connections_read_and_write_numbers_as_others_do(database: Database, number: str) -> None:
    async with database.session() as usual, database.session(hot=True) as hot:
        expected = await usual.connection.fetchval("select $1::text::numeric", number)
        found = await hot.connection.fetch("select $1::text::numeric from generate_series(1, 2)", number)
        assert [row[0] for row in found] == [expected, expected]
        assert str(found[0][0]) == number, "with the digits that are stored"
        assert found[0][0] is found[1][0], "made once"
        same = "select $1::numeric = $2::text::numeric and $3::numeric[] = array[$1, null]"
        assert await hot.connection.fetchval(same, expected, number, [expected, None])
