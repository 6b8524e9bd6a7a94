"""What the bot SDK costs: jobs per second with a handler that does nothing, and processor time of 500 sleeping ones.

python -m bench.bot_sdk                                        against a fake control plane in a process of its own
python -m bench.bot_sdk --server http://127.0.0.1:8000 --token T   against a real one that has due jobs
"""

import argparse
import asyncio
import contextlib
import sys
import time

from bench.size import scaled
from opilio.bot import Bot, Job, JobReport, Result
from opilio.bot.testing import FakeControlPlane
from opilio.net.loopback_server import Reply, Request

SECONDS, SLEEPERS = float(scaled(8, 1)), scaled(500, 50)
# Short, so that the heartbeats of the sleepers weigh as much as they ever will: each lock every two seconds.
SLEEPER_TTL = 6.0


class EndlessPlane(FakeControlPlane):
    """Never runs out of jobs: queue `http` for the handler that does nothing, `js` for the sleepers."""

    async def __call__(self, request: Request) -> Reply:
        if request.path.startswith("/api/crawl/pull"):
            self._refill()
        return await super().__call__(request)

    def _refill(self) -> None:
        unfinished = self.unfinished
        if len(unfinished) > SLEEPERS + 1000:
            return
        for number in range(1000):
            self.add(f"https://shop.example/{number}")
        for number in range(SLEEPERS - sum(job.queue == "js" for job in unfinished)):
            self.add(f"https://slow.example/{number}", queue="js", timeout_seconds=SLEEPER_TTL)


async def serve_fake() -> None:
    """The child process: prints its address and a token, serves until it is ended."""
    plane = EndlessPlane()
    async with plane.serving() as address:
        print(address, plane.token("bench"), flush=True)
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def fake_server():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.bot_sdk", "--fake", stdout=asyncio.subprocess.PIPE
    )
    try:
        address, token = (await process.stdout.readline()).decode().split()
        yield address, token
    finally:
        process.terminate()
        await process.wait()


async def no_op(server: str, token: str, bot_id: str | None = None) -> None:
    done = 0

    def count(report: JobReport) -> None:
        nonlocal done
        done += report.status == "done"

    bot = Bot(server, token, bot_id=bot_id, concurrency=200, wait_seconds=1, observe=count)

    @bot.handler()
    async def crawl(_: Job) -> Result:
        return Result(price=1, currency="EUR")

    wall, cpu = await measured(bot)
    print(
        f"no-op handler      {done / wall:8.0f} jobs/s   {cpu / wall:5.2f} cores   {done} jobs in {wall:.1f} s"
    )


async def sleepers(server: str, token: str) -> None:
    asleep = 0
    bot = Bot(server, token, concurrency=SLEEPERS, capabilities=["js"], wait_seconds=1, grace_seconds=0)

    @bot.handler()
    async def crawl(_: Job) -> Result:
        nonlocal asleep
        asleep += 1
        await asyncio.sleep(3600)
        return Result(price=1, currency="EUR")

    wall, cpu = await measured(bot)
    print(
        f"sleeping handlers  {asleep:8} at once   {cpu / wall:5.2f} cores   locks of {SLEEPER_TTL:g} s kept alive"
    )


async def measured(bot: Bot) -> tuple[float, float]:
    """Wall and processor seconds of this process while the bot serves."""
    wall, cpu = time.perf_counter(), time.process_time()
    serving = asyncio.create_task(bot.serve())
    await asyncio.wait({serving}, timeout=SECONDS)
    figures = time.perf_counter() - wall, time.process_time() - cpu
    bot.stop()
    await serving
    return figures


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server")
    parser.add_argument("--token")
    parser.add_argument("--bot-id")
    parser.add_argument("--fake", action="store_true", help=argparse.SUPPRESS)
    options, _ = parser.parse_known_args()
    if options.fake:
        await serve_fake()
    elif options.server:
        await no_op(options.server, options.token, options.bot_id)
    else:
        async with fake_server() as (server, token):
            await no_op(server, token)
            await sleepers(server, token)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
