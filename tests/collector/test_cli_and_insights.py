"""What people and programs see of projects."""

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from opilio.cli import projects as commands
from opilio.errors import Invalid, NotFound
from opilio.insights.projects import ProjectInsights
from tests.collector.samples import analyzed, v2
from tests.collector.world import until


@pytest.fixture
def insights(world):
    return ProjectInsights(world.db)


async def test_a_project_with_its_progress_and_warnings(world, insights):
    await world.create(
        brand_name="Apple", competitor_keywords={"x": ["pixel"]}, webhook_url="https://app.example/"
    )
    await world.result(v2(found=30))
    await world.reaches(tasks_done=1)

    async def told() -> bool:
        return (await insights.project("proj123")).progress.crawl.tasks.done == 1

    await until(told)
    project = await insights.project("proj123")
    assert (project.brand_name, project.status, project.competitor_keywords) == (
        "Apple",
        "PROCESSING",
        {"x": ["pixel"]},
    )
    assert project.progress.crawl.items.expected == 300
    assert "platform_limited" in {warning.kind for warning in project.warnings}
    with pytest.raises(NotFound):
        await insights.project("nobody")


async def test_competitors_keep_the_order_of_their_numbers(world, insights):
    named = {"zulu": ["z"], "alpha longer": ["a", "b"], "beta": ["c"]}
    await world.create(competitor_keywords=named)
    assert list((await insights.project("proj123")).competitor_keywords.items()) == list(named.items())


async def test_lists_go_on_where_they_ended(world, insights):
    for number in range(5):
        await world.create(f"p{number}")
    seen, cursor = [], None
    while True:
        page = await insights.projects(limit=2, cursor=cursor)
        seen += [project.project_id for project in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == ["p4", "p3", "p2", "p1", "p0"]
    assert [p.project_id for p in (await insights.projects(q="P3")).items] == ["p3"]
    with pytest.raises(Invalid):
        await insights.projects(cursor="%%%")


async def test_tasks_by_status(world, insights):
    await world.create()
    await world.reaches(status="PROCESSING")
    await world.result(v2(found=48))
    await world.result(v2("proj123-brand-1", found=0, success=False, code="BLOCKED"))
    await world.reaches(tasks_done=1, tasks_errors=1)
    rows = (await insights.tasks("proj123")).items
    assert [(row.job_id, row.platform, row.status, row.keyword) for row in rows] == [
        ("proj123-brand-0", "tiktok", "done", "iphone"),
        ("proj123-brand-0", "youtube", "sent", "iphone"),
        ("proj123-brand-1", "tiktok", "failed", "samsung"),
        ("proj123-brand-1", "youtube", "sent", "samsung"),
    ]
    assert (rows[0].successful, rows[0].limit, rows[2].error_code) == (48, 50, "BLOCKED")
    first = await insights.tasks("proj123", limit=3)
    rest = await insights.tasks("proj123", limit=3, cursor=first.next_cursor)
    assert len(first.items + rest.items) == 4
    assert [row.platform for row in (await insights.tasks("proj123", status="failed")).items] == ["tiktok"]


@pytest.fixture
async def cli(world, insights, monkeypatch):
    """Commands run in a thread of their own, their database work in this loop."""
    loop = asyncio.get_running_loop()

    @asynccontextmanager
    async def wired():
        yield SimpleNamespace(projects=world.collector.projects, project_insights=insights)

    monkeypatch.setattr(commands, "open_opilio_for_cli", wired)
    monkeypatch.setattr(
        commands, "run_async", lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(30)
    )

    async def run(*words: str):
        return await asyncio.to_thread(CliRunner().invoke, commands.app, list(words))

    return run


async def test_the_command_line(cli, world, tmp_path):
    file = tmp_path / "project.json"
    file.write_text(
        json.dumps({"project_id": "proj123", "brand_keywords": ["iphone"], "platforms": ["tiktok"]})
    )
    for _ in range(2):
        created = await cli("create", str(file))
        assert (created.exit_code, created.stdout) == (0, "proj123\n")
    listed = json.loads((await cli("list", "--json")).stdout)
    assert [project["project_id"] for project in listed["items"]] == ["proj123"]
    watching = asyncio.create_task(cli("watch", "proj123", "--json"))
    await world.result(v2(found=48))
    await world.reaches(tasks_done=1)
    await world.analyzed(analyzed(1, 48, 0))
    lines = [json.loads(line) for line in (await watching).stdout.splitlines()]
    assert lines[-1]["status"] == "DONE"
    assert lines[-1]["overall_progress_percent"] == 100
    assert (await cli("watch", "proj123")).stdout.endswith("DONE\n")
    shown = json.loads((await cli("show", "proj123", "--json")).stdout)
    assert shown["tasks"][0]["successful"] == 48
    assert "proj123-brand-0" in (await cli("show", "proj123")).stdout


async def test_a_file_that_is_no_project_is_said_to_be_none(cli, tmp_path):
    file = tmp_path / "project.json"
    file.write_text('{"brand_keywords": ["x"], "colour": "blue"}')
    refused = await cli("create", str(file))
    assert refused.exit_code == 1
    assert "colour" in str(refused.exception)
    assert "cannot be read" in str((await cli("create", str(tmp_path / "none.json"))).exception)
