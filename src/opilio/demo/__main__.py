"""`python -m opilio.demo PORT`: the shop as a process of its own, until it is told to end."""

import asyncio
import signal
import sys

from opilio.demo.server import serving_shop


async def serve(port: int) -> None:
    ended = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, ended.set)
    async with serving_shop(port):
        await ended.wait()


asyncio.run(serve(int(sys.argv[1])))
