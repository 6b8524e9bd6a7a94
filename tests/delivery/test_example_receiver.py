"""The receiver in `examples/`, run as a user would run it."""

import asyncio
import subprocess
import sys
from pathlib import Path

from opilio.delivery.webhooks.client import WebhookClient
from tests.components.servers import free_port
from tests.delivery.world import ANYWHERE, World

EXAMPLE = Path(__file__).parents[2] / "examples" / "webhook_receiver.py"


async def test_the_example_verifies_what_is_sent(db):
    port = free_port()
    async with WebhookClient(ANYWHERE) as client:
        world = World(db, client)
        endpoint = await world.subscribe(f"http://127.0.0.1:{port}/")
        process = subprocess.Popen(
            [sys.executable, str(EXAMPLE), endpoint.secret, str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(20):
                while not (await world.webhooks.test(endpoint.id, actor="tests")).delivered:
                    await asyncio.sleep(0.1)
            line = process.stdout.readline().decode()
        finally:
            process.kill()
            process.wait()
    assert f"webhook.test {endpoint.id}" in line


async def test_the_example_refuses_what_somebody_else_signed(db):
    from opilio.delivery.webhooks.signature import new_secret

    port = free_port()
    async with WebhookClient(ANYWHERE) as client:
        world = World(db, client)
        endpoint = await world.subscribe(f"http://127.0.0.1:{port}/")
        process = subprocess.Popen(
            [sys.executable, str(EXAMPLE), new_secret(), str(port)], stderr=subprocess.DEVNULL
        )
        try:
            async with asyncio.timeout(20):
                while (answer := await world.webhooks.test(endpoint.id, actor="tests")).status is None:
                    await asyncio.sleep(0.1)
        finally:
            process.kill()
            process.wait()
    assert (answer.delivered, answer.status) == (False, 400)
