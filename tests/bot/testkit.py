"""A small web site on loopback for the tests, and jobs that lead to it."""

import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from opilio.bot import Job
from opilio.bot.error_codes import of_exception
from opilio.bot.reference import ReferenceCrawler
from opilio.net import loopback_server
from opilio.net.loopback_server import Reply, Request

HTML = {"content-type": "text/html; charset=utf-8"}
PRODUCT = (
    '<html><head><script type="application/ld+json">{"@type":"Product","name":"Lamp","offers":'
    '{"price":"49.90","priceCurrency":"EUR","availability":"InStock"}}</script></head>'
    "<body><h1>Lamp</h1></body></html>"
)


class Site:
    """`site.pages[path]` is a reply, or a function that makes one; what is missing answers 404."""

    def __init__(self) -> None:
        self.pages: dict[str, Reply | Callable[[Request], Awaitable[Reply]]] = {}
        self.asked: list[Request] = []
        self.address = ""

    def html(self, path: str, html: str = PRODUCT) -> str:
        self.pages[path] = Reply(200, html.encode(), HTML)
        return self.address + path

    def paths(self) -> list[str]:
        return [request.path for request in self.asked if request.path != "/robots.txt"]

    async def __call__(self, request: Request) -> Reply:
        self.asked.append(request)
        page = self.pages.get(request.path, Reply(404, b"no"))
        return page if isinstance(page, Reply) else await page(request)

    @contextlib.asynccontextmanager
    async def serving(self, host: str = "127.0.0.1"):
        async with loopback_server.serving(self, host) as address:
            self.address = address
            yield self


def job(url: str, rule_set=None, queue: str = "http", **config) -> Job:
    return Job(
        job_id=uuid4(),
        url=url,
        priority=50,
        queue=queue,
        crawl_config=config,
        rule_set=rule_set,
        max_retries=3,
        retry_count=0,
        timeout_seconds=600,
        locked_until=datetime.now(UTC),
        lock_token=uuid4(),
    )


async def code_of(crawler: ReferenceCrawler, work: Job) -> str:
    """The code that the control plane would be told."""
    with pytest.raises(Exception) as raised:
        await crawler.crawl(work)
    return of_exception(raised.value).code
