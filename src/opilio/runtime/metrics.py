"""What a process counts."""

from prometheus_client import Counter, Histogram, generate_latest

from opilio.insights.crawl import CrawlInsights

BOT_PULLS = Counter("bot_pulls", "Pulls by bots.")
JOBS_DONE = Counter("jobs_done", "Jobs that ended with a result.")
JOBS_FAILED = Counter("jobs_failed", "Jobs that ended without a result.")
JOBS_RETRIED = Counter("jobs_retried", "Failed crawls that will be tried again.")
CRAWL_DURATION = Histogram("crawl_duration_seconds", "How long crawls took.")


async def render(insights: CrawlInsights) -> bytes:
    del insights
    return generate_latest()
