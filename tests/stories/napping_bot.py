"""A bot in a process of its own: it naps instead of crawling."""

import asyncio
import sys
from decimal import Decimal

from opilio.bot import Bot, Result

server, token, nap = sys.argv[1], sys.argv[2], float(sys.argv[3])
bot = Bot(server, token, concurrency=10, wait_seconds=1)


@bot.handler()
async def crawl(job):
    await asyncio.sleep(nap)
    return Result(price=Decimal(1), currency="EUR")


bot.run()
