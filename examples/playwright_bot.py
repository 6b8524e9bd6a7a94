"""A bot for pages that draw themselves: Playwright on an installed Chromium, queue `js`.

OPILIO_SERVER=http://127.0.0.1:8000 OPILIO_BOT_TOKEN=… python examples/playwright_bot.py
"""

import asyncio
import os

from playwright.async_api import async_playwright

from opilio.bot import Bot, Job, Result
from opilio.bot.extract import extract

bot = Bot(
    os.environ.get("OPILIO_SERVER", "http://127.0.0.1:8000"),
    token=os.environ["OPILIO_BOT_TOKEN"],
    concurrency=4,
)


async def main() -> None:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
            args=["--no-sandbox", "--disable-gpu"],
        )

        @bot.handler(queue="js")
        async def crawl(job: Job) -> Result:
            page = await chromium.new_page()
            try:
                await page.goto(job.url, wait_until="networkidle", timeout=30_000)
                return extract((await page.content()).encode(), page.url, rule_set=job.rule_set)
            finally:
                await page.close()

        await bot.serve(signals=True)


if __name__ == "__main__":
    asyncio.run(main())
