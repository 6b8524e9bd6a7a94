"""A bot in thirty lines: httpx2 fetches, the page's own data says the price.

OPILIO_SERVER=http://127.0.0.1:8000 OPILIO_BOT_TOKEN=… python examples/httpx2_bot.py
"""

import os

import httpx2

from opilio.bot import Bot, Job, Result
from opilio.bot.extract import extract

bot = Bot(
    os.environ.get("OPILIO_SERVER", "http://127.0.0.1:8000"),
    token=os.environ["OPILIO_BOT_TOKEN"],
    concurrency=20,
)
http = httpx2.AsyncClient(http2=True, follow_redirects=True, timeout=20)


@bot.handler()
async def crawl(job: Job) -> Result:
    response = await http.get(job.url, headers=job.crawl_config.get("headers"))
    response.raise_for_status()  # 404, 429 and the rest become the right error codes by themselves
    return extract(response.content, job.url, response.headers.get("content-type"), job.rule_set)


if __name__ == "__main__":
    bot.run()
