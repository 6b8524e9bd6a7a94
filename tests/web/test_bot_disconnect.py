"""A bot that leaves a long poll, on a real server."""

import asyncio
import json
from pathlib import Path

import httpx2

from opilio.contracts.policies import PolicyInput
from opilio.runtime.bootstrap import Opilio
from tests.web.running import Server

PULL = "/api/crawl/pull/"


async def test_no_jobs_are_locked_for_a_client_that_left(
    opilio: Opilio, database_url: str, tmp_path: Path
) -> None:
    _, token = await opilio.credentials.new_bot_token("bot-1")
    server = await asyncio.to_thread(Server(database_url, tmp_path).start)
    try:
        body = json.dumps({"bot_id": "bot-1", "wait_seconds": 30}).encode()
        request = (
            f"POST {PULL} HTTP/1.1\r\nhost: opilio\r\nauthorization: Bearer {token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request.encode() + body)
        await writer.drain()
        async with asyncio.timeout(20):  # until the server has seen the bot, so that the poll waits
            while not (await opilio.insights.bots()).items[0].last_seen_at:
                await asyncio.sleep(0.05)
        writer.transport.abort()
        await asyncio.sleep(0.5)  # a connection's end has no signal of its own on the other side
        policy_id = await opilio.policies.create(PolicyInput(url="https://shop.example/"))
        job_id = await opilio.operator_actions.run_now(policy_id, "operator:ann")
        await asyncio.sleep(0.5)
        assert (await opilio.insights.job(job_id)).status == "pending"
        async with httpx2.AsyncClient(base_url=server.url) as http:
            answer = await http.post(
                PULL, json={"bot_id": "bot-1"}, headers={"authorization": f"Bearer {token}"}
            )
        assert answer.json()["data"]["count"] == 1
    finally:
        server.kill()
