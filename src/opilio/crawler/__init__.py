"""The SDK for platform crawlers: write one async generator, leave the contract to it.

    from opilio.crawler import Crawler, Item

    async def search(task):
        async for post in my_platform.search(task.keywords[0], limit=task.limit):
            yield Item(id=post.id, content={"text": post.text}, author={"id": post.author})

    await Crawler("tiktok", search, link, store, bucket="crawl").run(stop)

docs/how-to/write-a-crawler.md has the whole of it.
"""

from opilio.crawler.amqp import AmqpLink
from opilio.crawler.crawler import BATCH_SIZES, Crawler, Link
from opilio.crawler.search import CrawlFailed, Failed, Found, Item, Search, Skipped, Task

__all__ = [
    "BATCH_SIZES",
    "AmqpLink",
    "CrawlFailed",
    "Crawler",
    "Failed",
    "Found",
    "Item",
    "Link",
    "Search",
    "Skipped",
    "Task",
]
