"""Settings that are wrong are all named at once, with what was probably meant."""

import os
from pathlib import Path
from uuid import uuid4

import pytest

from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.database_url import parse_database_url
from opilio.errors import OpilioError, Unavailable
from opilio.net.mask_url import mask_url
from opilio.runtime.bootstrap import open_opilio, wire
from opilio.runtime.private_files import data_directory, private_directory
from opilio.runtime.processes import hold_directory
from opilio.runtime.settings import load_settings


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("OPILIO_"):
            monkeypatch.delenv(name)


def fault(**overrides: str) -> str:
    with pytest.raises(OpilioError) as raised:
        load_settings(**overrides)
    return str(raised.value)


def test_a_misspelt_variable_is_refused_with_the_likely_one(monkeypatch) -> None:
    monkeypatch.setenv("OPILIO_DATABSE_URL", "postgresql://u:secret@db/opilio")
    text = fault()
    assert "OPILIO_DATABSE_URL is not a setting; did you mean OPILIO_DATABASE_URL?" in text
    assert "secret" not in text


def test_variables_of_bots_and_platforms_are_not_settings(monkeypatch) -> None:
    monkeypatch.setenv("OPILIO_BOT_TOKEN", "opb_x")
    monkeypatch.setenv("OPILIO_RETRY_BACKOFF_SECONDS__TIKTOK", "60")
    assert load_settings().collector.backoff_by_platform["tiktok"].total_seconds() == 60


def test_all_faults_are_reported_at_once(monkeypatch) -> None:
    Path("opilio.toml").write_text('prot = 1\nport = "many"\n')
    wrong = {
        "OPILIO_DATABASE_URL": "mysql://db/x",
        "OPILIO_AMQP_URL": "http://broker",
        "OPILIO_REDIS_URL": "localhost",
        "OPILIO_BLOBS_URL": "/data",
        "OPILIO_PUBLIC_URL": "example.com",
        "OPILIO_CRAWL_ALLOW_PRIVATE": "10.0.0.0/99",
        "OPILIO_KEEP_JOB_DAYS": "3",
    }
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    text = fault()
    for name in [*wrong, "OPILIO_PORT", "prot in opilio.toml is not a setting; did you mean port?"]:
        assert name in text


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("PORT", "many", "must be a whole number"),
        ("PORT", "70000", "must be at most 65535"),
        ("PORT", "", "must be a whole number"),
        ("DATABASE_POOL_SIZE", "1", "must be at least 2"),
        ("SCHEDULER_INTERVAL_SECONDS", "0", "must be more than 0"),
        ("SCHEDULER_INTERVAL_SECONDS", "nan", "must be a finite number"),
        ("CRAWL_FILL_IDLE", "perhaps", "must be true or false"),
        ("LOG_LEVEL", "loud", "must be one of debug, info, warning, error"),
        ("CRAWL_BUDGETS", "{shop: 1}", "must be a table of names, each with a number (as JSON"),
        ("CRAWL_BUDGETS", '{"shop": "a lot"}', "must be a table of names, each with a number (as JSON"),
        ("EXCHANGE_RESULTS", "", "must not be empty"),
        ("TIME_ZONE", "Mars/Olympus", "is not an IANA time zone"),
        ("RETRY_BACKOFF_SECONDS__TIKTOK", "soon", "must be a number of seconds"),
    ],
)
def test_a_wrong_value_is_told_by_its_variable_in_plain_words(monkeypatch, name, value, told) -> None:
    monkeypatch.setenv(f"OPILIO_{name}", value)
    assert f"OPILIO_{name} " in fault()
    assert told in fault()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("port", "9000", 9000),
        ("host_min_delay_seconds", "1.5", 1.5),
        ("crawl_fill_idle", "Yes", True),
        ("new_mode_enabled", "off", False),
        ("platforms", "tiktok, youtube,", ("tiktok", "youtube")),
        ("crawl_budgets", '{"shop": 100}', {"shop": 100.0}),
        ("data_dir", "/srv/opilio", Path("/srv/opilio")),
    ],
)
def test_text_of_the_environment_becomes_a_value(monkeypatch, name, text, value) -> None:
    monkeypatch.setenv(f"OPILIO_{name}", text)
    settings = load_settings()
    assert getattr(settings, name) == value
    assert settings.given == {name}


def test_an_option_comes_before_the_environment_and_that_before_the_file(monkeypatch) -> None:
    Path("opilio.toml").write_text('port = 1001\nhost = "a"\nplatforms = ["tiktok"]\n')
    monkeypatch.setenv("OPILIO_PORT", "1002")
    monkeypatch.setenv("OPILIO_HOST", "b")
    settings = load_settings(port=1003, host=None)
    assert (settings.port, settings.host, settings.platforms) == (1003, "b", ("tiktok",))
    assert settings.keep_jobs_days == 30
    assert "keep_jobs_days" not in settings.given


def test_settings_share_no_default() -> None:
    load_settings().crawl_budgets["shop"] = 1.0
    assert load_settings().crawl_budgets == {}


@pytest.mark.parametrize(
    ("cores", "given", "processes"), [(1, 0, 1), (4, 0, 1), (16, 0, 4), (16, 3, 3), (None, 0, 1)]
)
def test_the_api_takes_a_process_for_every_four_cores(monkeypatch, cores, given, processes) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert load_settings(api_workers=given).api_processes == processes


def test_a_broken_file_is_named() -> None:
    Path("opilio.toml").write_text("port = = 1\n")
    assert "opilio.toml cannot be read" in fault()


@pytest.mark.parametrize(
    ("url", "seconds", "name"),
    [
        ("postgres://u:p@db/x?connect_timeout=3&application_name=prod", 3, "prod"),
        ("postgresql://u:p@a:1,b:2/x?target_session_attrs=read-write&sslmode=require", 10, None),
        ("postgresql:///x?host=/tmp/sock&keepalives=1&channel_binding=prefer", 10, None),
    ],
)
def test_urls_of_libpq_are_taken(url, seconds, name) -> None:
    parsed = parse_database_url(url)
    assert (parsed.connect_seconds, parsed.application_name) == (seconds, name)
    assert parsed.dsn.startswith("postgresql://")
    assert not {"connect_timeout", "application_name", "keepalives"} & set(
        parsed.dsn.replace("=", "&").split("&")
    )


async def test_the_schema_is_upgraded_through_such_a_url(database_url) -> None:
    url = database_url.replace("postgresql://", "postgres://", 1)
    url += "&sslmode=disable&application_name=prod&connect_timeout=5"
    await migrate.downgrade(url, "base")
    assert (await migrate.upgrade(url)).up_to_date
    database = await Database.connect(url, name="opilio api")
    try:
        async with database.session() as session:
            shown = await session.connection.fetchval("show application_name")
    finally:
        await database.close()
    assert shown == "opilio api (prod)"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:se:cr@et@host/db",
        "postgresql://user@host/db?password=secret&sslmode=require",
        "amqp://user:secret@host:5672/%2f",
        "s3://bucket?secret_access_key=secret",
        "PostgreSQL does not answer at postgresql://u:secret/with/slash@h/db: refused",
    ],
)
def test_no_password_is_shown(url) -> None:
    masked = mask_url(url)
    assert "secret" not in masked.replace("secret_access_key", "")
    assert "et@" not in masked
    assert "host" in masked or "bucket" in masked or "@h/db" in masked


async def test_a_start_on_a_foreign_schema_is_refused(database_url, tmp_path) -> None:
    settings = load_settings(data_dir=tmp_path, database_url=database_url)
    await migrate.downgrade(database_url, "0003")
    await _refused(settings, "older than")
    database = await Database.connect(database_url)
    async with database.session() as session:
        await session.connection.execute("update alembic_version set version_num = '9999'")
    await _refused(settings, "install the newer version")
    async with database.session() as session:
        await session.connection.execute("drop table alembic_version")
    await _refused(settings, "no schema")
    await database.close()


async def _refused(settings, words: str) -> None:
    with pytest.raises(Unavailable, match=words):
        async with open_opilio(settings):
            raise AssertionError("opened")


async def test_stored_pages_are_private(database, tmp_path) -> None:
    before = os.umask(0o022)
    try:
        opilio = wire(load_settings(data_dir=tmp_path / "data", database_url=database.url), database)
        await opilio.pages.put_page(uuid4(), "<html>secret</html>")
    finally:
        os.umask(before)
    blobs = tmp_path / "data" / "blobs"
    assert len(list(blobs.rglob("*.zst"))) == 1
    assert blobs.stat().st_mode & 0o777 == 0o700


def test_the_data_directory_is_private(tmp_path) -> None:
    home = tmp_path / "data"
    with hold_directory(home):
        assert home.stat().st_mode & 0o077 == (0o011 if os.geteuid() == 0 else 0)
        assert (home / "opilio.lock").stat().st_mode & 0o777 == 0o600
    old = tmp_path / "old"
    old.mkdir(mode=0o755)
    private_directory(old)
    assert old.stat().st_mode & 0o777 == 0o700
    data_directory(old)
