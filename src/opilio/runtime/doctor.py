"""Checks everything that Opilio needs and says what is wrong and what to do."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import asyncpg

from opilio.adapters.postgres import Database, Statement, migrate
from opilio.errors import OpilioError
from opilio.insights.crawl import CrawlInsights
from opilio.runtime.bootstrap import database_url
from opilio.runtime.dependencies import Dependency, dependencies, fault_of
from opilio.runtime.instance_file import find_instance
from opilio.runtime.processes import holder_of_port
from opilio.runtime.setting_sources import shown
from opilio.runtime.settings import Settings, load_settings

Verdict = Literal["ok", "warning", "fault"]
_MIB = 1024 * 1024
_LOW_DISK, _NO_DISK = 2048 * _MIB, 256 * _MIB
_OLDEST_POSTGRES = 160_000
_LATE_SECONDS = 60
_VERSION = Statement("version", "select current_setting('server_version_num')::int", ())
_BUDGET = Statement(
    "budget",
    """select current_setting('max_connections')::int as most,
         current_setting('superuser_reserved_connections')::int as reserved,
         (select count(*) from pg_stat_activity
          where backend_type = 'client backend' and application_name not like 'opilio%')::int as others""",
    (),
)
_WHO = Statement(
    "who", "select distinct application_name from pg_stat_activity where application_name like 'opilio%'", ()
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was checked, its status, and what to do."""

    subject: str
    verdict: Verdict
    said: str
    remedy: str | None = None


async def examine() -> list[Finding]:
    """Every finding; a check that depends on a failed one is skipped."""
    try:
        settings = load_settings()
    except OpilioError as error:
        return [Finding("settings", "fault", str(error), "correct the environment or opilio.toml")]
    found = [Finding("settings", "ok", "all settings can be read")]
    found += [_directory(settings.data_dir), _port(settings)]
    found += await _components(settings)
    found += await _postgres(settings)
    return found


# ── the machine ──────────────────────────────────────────────────────────────────────────────────


def _directory(directory: Path) -> Finding:
    place = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    said = f"{directory} has {free // _MIB:,} MiB free"
    if free < _NO_DISK:
        return Finding(
            "data directory", "fault", said, "free some space: PostgreSQL stops when the disk is full"
        )
    if free < _LOW_DISK:
        return Finding(
            "data directory", "warning", said, "free some space soon, or keep history for fewer days"
        )
    return Finding(
        "data directory", "ok", said if directory.exists() else f"{said}; it is made at the first start"
    )


def _port(settings: Settings) -> Finding:
    running = find_instance(settings.data_dir)
    if running is not None:
        return Finding("server", "ok", f"runs at {running.url} (process {running.pid})")
    holder = holder_of_port(settings.port)
    if holder is None:
        return Finding("server", "ok", f"does not run here; port {settings.port} is free")
    return Finding(
        "server",
        "warning",
        f"port {settings.port} is taken: {holder}",
        "stop that program, or start Opilio with --port",
    )


# ── what else is configured ──────────────────────────────────────────────────────────────────────


async def _components(settings: Settings) -> list[Finding]:
    return [await _reach(dependency) for dependency in dependencies(settings)]


async def _reach(dependency: Dependency) -> Finding:
    where, fault = shown(dependency.url), await fault_of(dependency)
    if fault:
        said, remedy = f"{where} does not answer: {fault}", f"start it, or correct {dependency.variable}"
        return Finding(dependency.name, "fault", said, remedy)
    return Finding(dependency.name, "ok", f"{where} answers")


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
        return [Finding("PostgreSQL", "fault", str(error), remedy)]


async def _database(settings: Settings, database: Database) -> list[Finding]:
    version = await database.value(_VERSION)
    where = "embedded" if settings.embedded else str(shown(settings.database_url))
    said = f"{where}, version {version // 10_000}.{version % 10_000}"
    if version < _OLDEST_POSTGRES:
        return [Finding("PostgreSQL", "fault", said, "Opilio needs PostgreSQL 16 or newer")]
    found = [Finding("PostgreSQL", "ok", said)]
    schema = await _schema(database)
    if schema.verdict == "fault":
        return [*found, schema]
    return [*found, await _connections(settings, database), schema, *await _life(settings, database)]


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
