"""A Scrapy spider that takes its start URLs from Opilio and submits its items.

OPILIO_SERVER=http://127.0.0.1:8000 OPILIO_BOT_TOKEN=… scrapy runspider examples/scrapy_spider.py
"""

import os

import scrapy

from opilio.bot import ControlPlane, CrawlError, outcome_of
from opilio.bot.extract import extract


class OpilioSpider(scrapy.Spider):
    name = "opilio"

    async def start(self):
        """Pulls until there is nothing left; every job gets an answer, good or bad."""
        server = os.environ.get("OPILIO_SERVER", "http://127.0.0.1:8000")
        self.plane = ControlPlane(server, os.environ["OPILIO_BOT_TOKEN"])
        while jobs := (await self.plane.pull(max_jobs=20)).jobs:
            for job in jobs:
                yield scrapy.Request(
                    job.url, self.parse, errback=self.failed, cb_kwargs={"job": job}, dont_filter=True
                )

    async def parse(self, response, job):
        try:
            found = extract(response.body, response.url, rule_set=job.rule_set)
        except CrawlError as error:
            found = error
        await self.plane.submit([outcome_of(job, found, response.meta["download_latency"])])

    async def failed(self, failure):
        await self.plane.submit([outcome_of(failure.request.cb_kwargs["job"], failure.value, 0)])
