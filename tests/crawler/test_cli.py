"""`opilio crawler` as people run it: a process of its own beside an embedded instance, or on a broker."""

import asyncio
import json
import os
import signal
import sys

from opilio.crawler.simulator import Platform
from tests.collector.world import running


async def started(*words: str, **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "opilio", "crawler", *words,
        env={**os.environ, **environment}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def test_simulate_finds_the_embedded_bus_and_answers_its_tasks(
    request, database, database_url, tmp_path
):
    async with running("embedded", database, request) as world:
        await world.create(brand_keywords=["iphone", "samsung"], limit_per_keyword=10)
        process = await started(
            "simulate", "--platform", "tiktok", "--platform", "youtube", "--calm", "--json",
            OPILIO_DATABASE_URL=database_url, OPILIO_BLOBS_URL=f"file://{tmp_path}",
        )  # fmt: skip
        state = await world.reaches(seconds=60, tasks_done=4)
        process.send_signal(signal.SIGINT)
        out, _ = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0
    told = [json.loads(line) for line in out.splitlines()]
    assert sum(line["stats"]["successful"] for line in told) == state["items_actual"] > 0
    assert list(tmp_path.glob("**/crawl/tiktok/proj123-brand-*/*/batch-0001.json.zst"))


async def test_check_names_what_a_silent_crawler_breaks(request, database, rabbitmq_url, tmp_path):
    async with running("real", database, request):
        process = await started(
            "check", "--platform", "tiktok", "--amqp-url", rabbitmq_url, "--timeout", "1", "--json",
            OPILIO_BLOBS_URL=f"file://{tmp_path}",
        )  # fmt: skip
        out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1
    assert {violation["rule"] for violation in json.loads(out)} == {"answers"}


def test_the_name_of_the_platform_is_in_the_links():
    links = {
        item.meta["permalink"] for item in list(Platform("youtube").search("x", 40)) if hasattr(item, "meta")
    }
    assert all(link.startswith("https://www.youtube.com/watch?v=") for link in links)
