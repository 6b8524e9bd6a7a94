"""One trace from the project through task, result, batch and analysis to the webhook, on exchanges of other names."""

import asyncio
import json
import signal
from contextlib import asynccontextmanager
from unittest.mock import patch

import aio_pika
import pytest
from prometheus_client import CollectorRegistry

from opilio.clock import Clock
from opilio.runtime.bootstrap import wire
from opilio.runtime.roles import analytics, collector, delivery
from opilio.runtime.settings import load_settings
from tests.collector.world import clean_redis
from tests.crawler.test_cli import started
from tests.delivery.receiver import Receiver

TRACE = "trace-of-the-request"
EXCHANGES = {"inbound": "acme.inbound", "results": "acme.results", "lifecycle": "acme.lifecycle"}


@pytest.fixture
async def opilio(database, database_url, rabbitmq_url, redis_url, tmp_path):
    settings = load_settings(
        data_dir=tmp_path,
        database_url=database_url,
        amqp_url=rabbitmq_url,
        redis_url=await clean_redis(redis_url),
        blobs_url=f"file://{tmp_path}",
        webhook_allow_private="true",
        **{f"exchange_{name}": exchange for name, exchange in EXCHANGES.items()},
    )
    return wire(settings, database, Clock())


@asynccontextmanager
async def roles(opilio):
    stop = asyncio.Event()
    with patch.object(analytics, "REGISTRY", CollectorRegistry()):  # the role counts for its process
        work = [asyncio.create_task(role.serve(opilio, stop)) for role in (collector, analytics, delivery)]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*work)


@asynccontextmanager
async def simulator(opilio):
    process = await started("simulate", "--platform", "tiktok", "--calm", **environment(opilio))
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0


def environment(opilio):
    settings = opilio.settings
    named = {f"OPILIO_EXCHANGE_{name.upper()}": exchange for name, exchange in EXCHANGES.items()}
    urls = {"AMQP_URL": settings.amqp_url, "BLOBS_URL": settings.blobs, "DATABASE_URL": settings.database_url}
    return named | {f"OPILIO_{name}": value for name, value in urls.items()}


async def listen(channel, seen):
    """Notes the trace of every message on the exchanges of results and of the lifecycle."""
    queue = await channel.declare_queue(exclusive=True)
    for name in ("results", "lifecycle"):
        await queue.bind(EXCHANGES[name], "#")

    async def note(message):
        seen.append((message.routing_key, message.headers.get("x-trace-id")))

    await queue.consume(note, no_ack=True)


async def test_one_trace_from_the_request_to_the_webhook(opilio, rabbitmq_url):
    seen: list[tuple[str, str]] = []
    async with Receiver() as app, roles(opilio), await aio_pika.connect(rabbitmq_url) as connection:
        channel = await connection.channel()
        async with asyncio.timeout(30):
            while not await exchange_exists(connection, EXCHANGES["lifecycle"]):
                await asyncio.sleep(0.1)
        await listen(channel, seen)
        payload = {
            "project_id": "proj123", "brand_keywords": ["iphone"], "platforms": ["tiktok"],
            "limit_per_keyword": 5, "webhook_url": app.url(),
        }  # fmt: skip
        event = {"event_type": "project.created", "payload": payload}
        message = aio_pika.Message(json.dumps(event).encode(), headers={"x-trace-id": TRACE})
        exchange = await channel.get_exchange(EXCHANGES["lifecycle"])
        await exchange.publish(message, "project.created")
        async with simulator(opilio), asyncio.timeout(60):
            while not any(b'"DONE"' in got.body for got in app.got):
                await asyncio.sleep(0.05)
        assert {got.headers.get("x-trace-id") for got in app.got} == {TRACE}
    assert {key for key, _ in seen} == {
        "project.created", "data.collected", "crawler.tiktok.result", "analytics.result",
    }  # fmt: skip
    assert [(key, trace) for key, trace in seen if trace != TRACE] == []


async def test_the_conformance_kit_uses_the_configured_exchanges(opilio):
    words = ("check", "--platform", "tiktok", "--timeout", "30", "--json")
    async with await aio_pika.connect(opilio.settings.amqp_url):
        kit = await started(*words, **environment(opilio))
        async with asyncio.timeout(60), await aio_pika.connect(opilio.settings.amqp_url) as connection:
            while not await exchange_exists(connection, EXCHANGES["results"]):
                await asyncio.sleep(0.1)
        async with simulator(opilio):
            out, err = await asyncio.wait_for(kit.communicate(), 60)
    assert (kit.returncode, json.loads(out)) == (0, []), err


async def exchange_exists(connection, name):
    channel = await connection.channel()
    try:
        await channel.get_exchange(name, ensure=True)
    except aio_pika.exceptions.ChannelClosed:
        return False
    await channel.close()
    return True
