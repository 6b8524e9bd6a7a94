"""The crawler of the guide, as a process on a real broker and object storage."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import msgspec

from opilio.bus import Ack, Message
from opilio.contracts.topology import topology
from opilio.rabbitmq.bus import RabbitBus
from tests.crawler.recording_link import a_task

GUIDE = (Path(__file__).parents[2] / "docs/how-to/write-a-crawler.md").read_text()
ADDRESSES = ("amqp://guest:guest@127.0.0.1/", "http://127.0.0.1:9000", '"crawl-data"')


def program(*addresses: str) -> str:
    """Both blocks of the guide as one file, with the addresses of these servers."""
    source = "\n".join(re.findall(r"<!-- run: crawler[a-z ]* -->\n```python\n(.*?)```", GUIDE, re.DOTALL))
    for written, given in zip(ADDRESSES, addresses, strict=True):
        assert written in source
        source = source.replace(written, given)
    return source


async def test_it_answers_a_task_and_ends_on_sigterm(rabbitmq_url, s3, tmp_path):
    (tmp_path / "crawler.py").write_text(program(rabbitmq_url, s3.url, f'"{s3.bucket}"'))
    results: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(message: Message) -> Ack:
        results.put_nowait(message.body)
        return Ack()

    bus = await RabbitBus.connect(rabbitmq_url, topology())
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(tmp_path / "crawler.py"), env=os.environ | keys, stderr=asyncio.subprocess.PIPE
    )
    try:
        await bus.consume("collector.results", take)
        task = a_task()
        await bus.publish("", "crawler.tiktok.queue", msgspec.json.encode(task), correlation_id=task.job_id)
        result = msgspec.json.decode(await asyncio.wait_for(results.get(), 60))
        assert (result["success"], result["stats"]["successful"], result["stats"]["failed"]) == (True, 1, 1)
        process.send_signal(signal.SIGTERM)
        _, said = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, said.decode()
        assert b"Traceback" not in said
    finally:
        if process.returncode is None:
            process.kill()
        await bus.close()
