"""Checks everything that Opilio needs and says what is wrong and what to do."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from opilio.adapters.postgres import Database, Statement, migrate
from opilio.errors import OpilioError
from opilio.insights.crawl import CrawlInsights
from opilio.runtime.bootstrap import database_url
from opilio.runtime.doctor_machine import examine_machine
from opilio.runtime.doctor_services import examine_services
from opilio.runtime.finding import Finding
from opilio.runtime.service_faults import one_line
from opilio.runtime.setting_sources import shown
from opilio.runtime.settings import Settings, load_settings

_OLDEST_POSTGRES = 160_000
_LATE_SECONDS = 60
_SKEW_NOTED, _SKEW_WRONG = timedelta(seconds=2), timedelta(seconds=60)
_VERSION = Statement("version", "select current_setting('server_version_num')::int", ())
_BUDGET = Statement(
    "budget",
    """select current_setting('max_connections')::int as most,
         current_setting('superuser_reserved_connections')::int as reserved,
         (select count(*) from pg_stat_activity
          where backend_type = 'client backend' and application_name not like 'opilio%')::int as others""",
    (),
)
_NOW = Statement("now", "select clock_timestamp()", ())
_WHO = Statement(
    "who", "select distinct application_name from pg_stat_activity where application_name like 'opilio%'", ()
)


async def examine() -> list[Finding]:
    """Every finding; a check that depends on a failed one is skipped."""
    try:
        settings = load_settings()
    except OpilioError as error:
        return [Finding("settings", "fault", str(error), "correct the environment or opilio.toml")]
    found = [Finding("settings", "ok", "all settings can be read")]
    found += await examine_machine(settings)
    found += await examine_services(settings)
    found += await _postgres(settings)
    return found


# ── PostgreSQL and what it knows ─────────────────────────────────────────────────────────────────


async def _postgres(settings: Settings) -> list[Finding]:
    if settings.embedded and not (settings.data_dir / "postgres" / "PG_VERSION").exists():
        return [Finding("PostgreSQL", "ok", "embedded; it is made at the first start")]
    try:
        async with database_url(settings) as url:
            database = await Database.connect(url, size=2, hot_size=1, name="opilio doctor")
            try:
                return await _database(settings, database)
            finally:
                await database.close()
    except (OSError, OpilioError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        remedy = (
            "look at the log in the data directory"
            if settings.embedded
            else "start it, or correct OPILIO_DATABASE_URL"
        )
        return [Finding("PostgreSQL", "fault", one_line(error), remedy)]


async def _database(settings: Settings, database: Database) -> list[Finding]:
    version = await database.value(_VERSION)
    where = "embedded" if settings.embedded else str(shown(settings.database_url))
    said = f"{where}, version {version // 10_000}.{version % 10_000}"
    if version < _OLDEST_POSTGRES:
        return [Finding("PostgreSQL", "fault", said, "Opilio needs PostgreSQL 16 or newer")]
    found = [Finding("PostgreSQL", "ok", said), await _clock(database)]
    schema = await _schema(database)
    if schema.verdict == "fault":
        return [*found, schema]
    return [*found, await _connections(settings, database), schema, *await _life(settings, database)]


async def _clock(database: Database) -> Finding:
    """Locks and schedules follow the database's clock; logs, signatures and sessions follow this machine's."""
    before = datetime.now(UTC)
    there = await database.value(_NOW)
    here = before + (datetime.now(UTC) - before) / 2
    skew = abs(there - here)
    said = f"this machine and PostgreSQL differ by {skew.total_seconds():.1f} s"
    if skew < _SKEW_NOTED:
        return Finding("clock", "ok", said)
    return Finding(
        "clock",
        "fault" if skew >= _SKEW_WRONG else "warning",
        said,
        "synchronise both machines (NTP): webhook signatures and S3 requests are refused by a wrong clock",
    )


async def _connections(settings: Settings, database: Database) -> Finding:
    """How many processes of Opilio fit into the connections of the server."""
    row = await database.row(_BUDGET)
    assert row is not None
    # One more listens for NOTIFY.
    each = settings.database_pool_size + settings.database_hot_pool_size + 1
    free = row["most"] - row["reserved"] - row["others"]
    said = f"a process opens up to {each}; the server has room for {free // each} processes ({row['most']} connections)"
    if free < each * 2:
        remedy = "raise max_connections, or lower OPILIO_DATABASE_POOL_SIZE and OPILIO_DATABASE_HOT_POOL_SIZE"
        return Finding("connections", "warning", said, remedy)
    return Finding("connections", "ok", said)


async def _schema(database: Database) -> Finding:
    try:
        status = await migrate.status(database.url)
    except OpilioError as error:
        return Finding("schema", "fault", str(error), "install the newer version of Opilio")
    if status.up_to_date:
        return Finding("schema", "ok", f"revision {status.current}, the newest")
    said = f"revision {status.current or 'none'}, the newest is {status.head}"
    return Finding("schema", "fault", said, "run `opilio db upgrade`, or start `opilio up` once")


async def _life(settings: Settings, database: Database) -> list[Finding]:
    names = {row["application_name"] for row in await database.fetch(_WHO)}
    insights = CrawlInsights(database, rules=settings.rule_table, fleet=settings.fleet_limits)
    stats: Any = await insights.stats()
    return [_scheduler(names, stats.oldest_due_seconds), _bots(stats)]


def _scheduler(names: set[str], late_seconds: float) -> Finding:
    if not any("scheduler" in name for name in names):
        return Finding("scheduler", "warning", "does not run", "start `opilio up`, or `opilio run scheduler`")
    if late_seconds > _LATE_SECONDS:
        said = f"runs, but a policy has been due for {late_seconds:.0f} s"
        return Finding("scheduler", "warning", said, "look at its log; is the database overloaded?")
    return Finding("scheduler", "ok", "runs")


def _bots(stats: Any) -> Finding:
    if stats.bots_alive:
        return Finding("bots", "ok", f"{stats.bots_alive} asked for work within two minutes")
    waiting = stats.jobs["pending"]
    remedy = "start a bot; `opilio bots token BOT_ID` makes its token"
    return Finding("bots", "warning", f"none asked for work within two minutes; {waiting} jobs wait", remedy)
