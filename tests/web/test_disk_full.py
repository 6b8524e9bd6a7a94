"""A database that is out of disk, cannot write or was switched to read only: 503 with Retry-After, and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import httpx2
import pytest

from opilio.adapters.postgres.unavailable import does_not_answer
from opilio.contracts.policies import PolicyInput
from opilio.runtime.bootstrap import Opilio
from tests.web.running import Server

# What PostgreSQL says on a full disk, a broken disk, and a standby that a failover left behind.
STATES = {"disk full": "53100", "input or output error": "58030", "read only": "25006"}
TABLES = ("policy", "crawl_state", "bot_token")


@pytest.fixture
async def server(database_url: str, tmp_path: Path, opilio: Opilio) -> AsyncIterator[Server]:
    server = await asyncio.to_thread(Server(database_url, tmp_path).start)
    yield server
    server.kill()


async def refuse_writes(opilio: Opilio, state: str) -> None:
    async with opilio.database.session() as session:
        await session.connection.execute(
            f"""create or replace function full_disk() returns trigger language plpgsql as $$
                begin raise exception 'could not extend file' using errcode = '{state}'; end $$"""
        )
        for table in TABLES:
            await session.connection.execute(
                f"""create or replace trigger full_disk before insert or update or delete on {table}
                    for each statement execute function full_disk()"""
            )


async def accept_writes(opilio: Opilio) -> None:
    async with opilio.database.session() as session:
        await session.connection.execute("drop function full_disk cascade")


async def test_writes_are_503_and_succeed_when_there_is_room_again(opilio: Opilio, server: Server) -> None:
    _, token = await opilio.credentials.new_bot_token("bot-1")
    _, key = await opilio.credentials.new_key("edge", "admin")
    await opilio.policies.create(PolicyInput(url="https://shop.example/1"))
    await opilio.scheduler.create_due()
    bot, admin = ({"authorization": f"Bearer {secret}"} for secret in (token, key))
    async with httpx2.AsyncClient(base_url=server.url, timeout=30) as http:
        pulled = await http.post("/api/crawl/pull/", json={"bot_id": "bot-1"}, headers=bot)
        job = pulled.json()["data"]["jobs"][0]
        held = {"job_id": job["job_id"], "lock_token": job["lock_token"]}
        result = held | {"success": True, "price": 1, "currency": "EUR"}
        writes = [
            ("/api/crawl/submit/", {"bot_id": "bot-1", **result}, bot),
            ("/api/crawl/submit/batch/", {"bot_id": "bot-1", "results": [result]}, bot),
            ("/api/crawl/heartbeat/", {"bot_id": "bot-1", "jobs": [held]}, bot),
            ("/api/crawl/release/", {"bot_id": "bot-1", "jobs": [held]}, bot),
            ("/api/v1/policies", {"url": "https://shop.example/2"}, admin),
            ("/api/v1/bots/bot-2/tokens", {}, admin),
        ]
        for name, state in STATES.items():
            await refuse_writes(opilio, state)
            for path, body, headers in writes:
                answer = await http.post(path, json=body, headers=headers)
                seen = (answer.status_code, answer.headers.get("retry-after"))
                assert seen == (503, "2"), (name, path, answer.text)
                assert answer.json()["error"]["code"] == "unavailable"
            assert (await http.get("/api/v1/stats", headers=admin)).status_code == 200
        await accept_writes(opilio)
        taken = await http.post(writes[0][0], json=writes[0][1], headers=bot)
        assert (taken.status_code, taken.json()["data"]["status"]) == (200, "done")


async def test_a_value_that_cannot_be_sent_is_not_called_temporary(opilio: Opilio) -> None:
    async with opilio.database.session() as session:
        with pytest.raises(asyncpg.DataError) as raised:
            await session.connection.fetchval("select $1::int", 2**40)
    assert not does_not_answer(raised.value)
