"""What automatic analyze reads and keeps of the two tables that every job changes (docs/adr/0031-lean-statistics.md)."""

from datetime import UTC, datetime

from opilio.adapters.postgres import migrate
from opilio.adapters.postgres.partitions import Partitions
from tests.crawl.farm import Farm

TARGETS = """
select a.attname as column, coalesce(a.attstattarget, -1) as target from pg_attribute a
where a.attrelid = $1::text::regclass and a.attnum > 0 and not a.attisdropped"""
EXPRESSIONS = """
select a.attrelid::regclass::text as index, a.attnum, coalesce(a.attstattarget, -1) as target
from pg_index i cross join unnest(i.indkey) with ordinality k(column_number, place)
join pg_attribute a on a.attrelid = i.indexrelid and a.attnum = k.place
where i.indrelid = 'crawl_state'::regclass and k.column_number = 0"""
MOST = {"crawl_state": 10, "job_archive": 30}
DAY = datetime(2031, 5, 17, 12, tzinfo=UTC)


async def targets(farm: Farm, table: str) -> dict[str, int]:
    return {row["column"]: row["target"] for row in await farm.rows(TARGETS, table)}


async def test_every_column_says_how_much_is_known_of_it(farm: Farm) -> None:
    """One column with the usual target, -1, would have analyze read ten times as many rows."""
    for table, most in MOST.items():
        assert {
            column for column, target in (await targets(farm, table)).items() if target not in {0, most}
        } == set()
    assert {row["target"] for row in await farm.rows(EXPRESSIONS)} == {MOST["crawl_state"]}


async def test_a_day_has_the_targets_of_its_table(farm: Farm) -> None:
    wanted = await targets(farm, "job_archive")
    assert wanted["status"] == 30
    assert await targets(farm, "job_archive_other") == wanted
    assert await Partitions(farm.database, "job_archive", "day").prepare(DAY, ahead=0) == 1
    assert await targets(farm, "job_archive_20310517") == wanted


async def test_down_restores_the_usual_ones_and_up_again_these(farm: Farm, database_url: str) -> None:
    tables = ("crawl_state", "job_archive", "job_archive_other")
    wanted = {table: await targets(farm, table) for table in tables}
    await migrate.downgrade(database_url, "0031")
    assert set((await targets(farm, "job_archive_other")).values()) == {-1}
    none = {column for column, target in (await targets(farm, "crawl_state")).items() if target == 0}
    assert none == {"place", "job_id", "run_at", "locked_until", "locked_by"}
    assert await Partitions(farm.database, "job_archive", "day").prepare(DAY, ahead=0) == 1
    await migrate.upgrade(database_url)
    assert {table: await targets(farm, table) for table in tables} == wanted
    assert await targets(farm, "job_archive_20310517") == wanted["job_archive"]
