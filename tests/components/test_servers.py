"""The real servers start, answer and go, each with its own ports."""

import aio_pika
import obstore
import pytest
import redis.asyncio
from obstore.store import S3Store


async def test_rabbitmq_answers(rabbitmq_url):
    connection = await aio_pika.connect(rabbitmq_url)
    channel = await connection.channel()
    queue = await channel.declare_queue(exclusive=True)
    await channel.default_exchange.publish(aio_pika.Message(b"hello"), queue.name)
    message = await queue.get(timeout=5)
    assert message.body == b"hello"
    await connection.close()


async def test_redis_answers(redis_url):
    client = redis.asyncio.from_url(redis_url)
    await client.set("key", "value")
    assert await client.get("key") == b"value"
    await client.aclose()


async def test_s3_answers(s3):
    store = S3Store(
        s3.bucket,
        endpoint=s3.url,
        access_key_id=s3.access_key,
        secret_access_key=s3.secret_key,
        region="us-east-1",
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )
    await obstore.put_async(store, "folder/key", b"body")
    assert bytes(await (await obstore.get_async(store, "folder/key")).bytes_async()) == b"body"


@pytest.mark.parametrize("name", ["rabbitmq_url", "redis_url"])
async def test_nothing_listens_on_the_usual_ports_because_of_us(request, name):
    url = request.getfixturevalue(name)
    assert not url.rstrip("/0").endswith((":5672", ":6379"))
