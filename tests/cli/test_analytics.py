"""`opilio analytics` as a person starts it."""

import asyncio

import pyarrow.parquet

from opilio.adapters.buckets import Buckets
from opilio.analytics.processing import BatchProcessor
from opilio.analytics.store import BatchStore
from opilio.contracts.projects import ProjectInput
from tests.analytics.batches import body, event, failed, post


async def test_posts_are_exported_to_a_file(opilio, opilio_process, settings, tmp_path):
    await opilio.projects.create(ProjectInput(project_id="proj_xyz", brand_keywords=["x"]), by="test")
    buckets = Buckets("memory://")
    await buckets.put("r", "1.json", body(post("1"), failed("2")))
    await BatchProcessor(BatchStore(opilio.database), buckets).process(event("r/1.json"))
    env = {"OPILIO_DATABASE_URL": settings.database_url, "OPILIO_DATA_DIR": str(tmp_path)}
    file = tmp_path / "posts.parquet"
    words = ("analytics", "export", "proj_xyz", "--format", "parquet", "--output", str(file), "--json")
    done = await asyncio.to_thread(opilio_process, *words, **env)
    assert done.json == {"file": str(file), "bytes": file.stat().st_size}
    assert sorted(pyarrow.parquet.read_table(file).column("id").to_pylist()) == ["1", "2"]
    text = (await asyncio.to_thread(opilio_process, "analytics", "export", "proj_xyz", **env)).out
    assert [line.split(",")[0] for line in text.splitlines()] == ["id", "1", "2"]
    unknown = await asyncio.to_thread(opilio_process, "analytics", "export", "nobody", **env)
    assert unknown.code == 1
    assert "there is no project nobody" in unknown.err


async def test_a_project_known_only_from_batches_is_answered(opilio, opilio_process, settings, tmp_path):
    buckets = Buckets("memory://")
    await buckets.put("r", "1.json", body(post("1"), failed("2")))
    await BatchProcessor(BatchStore(opilio.database), buckets).process(event("r/1.json"))
    env = {"OPILIO_DATABASE_URL": settings.database_url, "OPILIO_DATA_DIR": str(tmp_path)}
    done = await asyncio.to_thread(opilio_process, "analytics", "summary", "proj_xyz", "--json", **env)
    assert (done.json["posts"], done.json["analysed"], done.json["errors"]) == (2, 1, 1)
    text = (await asyncio.to_thread(opilio_process, "analytics", "export", "proj_xyz", **env)).out
    assert [line.split(",")[0] for line in text.splitlines()] == ["id", "1", "2"]
    people = (await asyncio.to_thread(opilio_process, "analytics", "summary", "proj_xyz", **env)).out
    assert "{" not in people  # words and tables, not JSON in a cell
    assert "share of voice" in people
    unknown = await asyncio.to_thread(opilio_process, "analytics", "summary", "nobody", **env)
    assert (unknown.code, "there is no project nobody" in unknown.err) == (1, True)


async def test_failed_posts_are_listed_and_crawled_again(opilio, opilio_process, settings, tmp_path):
    buckets = Buckets("memory://")
    await buckets.put("r", "1.json", body(post("1"), failed("2", "TIMEOUT"), failed("3", "CONTENT_REMOVED")))
    await BatchProcessor(BatchStore(opilio.database), buckets).process(event("r/1.json"))
    env = {"OPILIO_DATABASE_URL": settings.database_url, "OPILIO_DATA_DIR": str(tmp_path)}

    async def run(*words):
        return await asyncio.to_thread(opilio_process, "analytics", *words, **env)

    assert {row["error_code"] for row in (await run("errors", "proj_xyz", "--json")).json} == {
        "TIMEOUT", "CONTENT_REMOVED",
    }  # fmt: skip
    listed = (await run("errors", "proj_xyz", "--retryable")).out
    assert "TIMEOUT" in listed
    assert "CONTENT_REMOVED" not in listed
    assert "tiktok: 1 posts sent out again as proj_xyz-retry-" in (await run("retry", "proj_xyz")).out
    assert "no posts to crawl again" in (await run("retry", "proj_xyz")).out
    unknown = await run("retry", "nobody")
    assert (unknown.code, "there is no project nobody" in unknown.err) == (1, True)
