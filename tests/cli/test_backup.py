"""`opilio backup` and `opilio restore`: a drill on real servers, and every refusal."""

import json
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from opilio import audit
from opilio.adapters.blobs import PageStore, open_store
from opilio.contracts.policies import PolicyInput
from opilio.errors import OpilioError
from opilio.runtime.backup import back_up, restore
from opilio.runtime.bootstrap import Opilio, open_opilio
from opilio.runtime.settings import Settings, load_settings
from tests.conftest import database_at


@pytest.fixture
async def elsewhere(server_url: str, tmp_path: Path):
    """Settings of another, empty installation."""
    name = f"restored_{uuid4().hex}"
    connection = await asyncpg.connect(server_url)
    await connection.execute(f"create database {name}")
    yield load_settings(data_dir=tmp_path / "other", database_url=database_at(server_url, name))
    await connection.execute(f"drop database {name} with (force)")
    await connection.close()


async def test_a_restored_backup_is_the_same(
    opilio: Opilio, settings: Settings, elsewhere: Settings, tmp_path
):
    made = await opilio.policies.create(PolicyInput(url="https://a.example/"))
    await opilio.scheduler.create_due()
    key = await PageStore(open_store(settings.blobs), large=1).put_page(uuid4(), "<html>page</html>")

    manifest = await back_up(settings, tmp_path / "backup")
    await opilio.policies.create(PolicyInput(url="https://later.example/"))
    assert manifest.rows["policy"] == 1
    assert manifest.blobs == 1

    await restore(elsewhere, tmp_path / "backup", by="cli:ann")
    async with open_opilio(elsewhere) as other:
        newest = (await audit.entries(other.database, None, 1))[0]
        assert (newest["actor"], newest["action"]) == ("cli:ann", "database.restore")
        policies = (await other.insights.policies(limit=10)).items
        assert [policy.id for policy in policies] == [made]
        assert (await other.insights.stats()).jobs["pending"] == 1
        assert await other.pages.get_page(key) == "<html>page</html>"
        await other.policies.create(PolicyInput(url="https://b.example/"))  # it goes on from there
        await other.scheduler.create_due()


async def test_a_database_with_something_in_it_is_not_touched(opilio: Opilio, settings: Settings, tmp_path):
    await back_up(settings, tmp_path / "backup")
    with pytest.raises(OpilioError, match="not empty"):
        await restore(settings, tmp_path / "backup")


async def test_a_folder_with_something_in_it_is_not_touched(opilio: Opilio, settings: Settings, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OpilioError, match="not empty"):
        await back_up(settings, tmp_path)


async def test_a_damaged_backup_is_refused(opilio: Opilio, settings: Settings, elsewhere: Settings, tmp_path):
    folder = tmp_path / "backup"
    await back_up(settings, folder)
    with (folder / "database.dump").open("ab") as dump:
        dump.write(b"x")
    with pytest.raises(OpilioError, match="damaged"):
        await restore(elsewhere, folder)


async def test_what_is_missing_after_a_restore_is_said(
    opilio: Opilio, settings: Settings, elsewhere: Settings, tmp_path
):
    folder = tmp_path / "backup"
    await back_up(settings, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["rows"]["policy"] = 7
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(OpilioError, match="policy: 0 of 7"):
        await restore(elsewhere, folder)


async def test_a_folder_without_a_backup(elsewhere: Settings, tmp_path):
    with pytest.raises(OpilioError, match="holds no backup"):
        await restore(elsewhere, tmp_path / "nothing")
