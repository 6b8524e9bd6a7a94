"""A platform that does not exist: seeded posts, and crawlers with the troubles of real ones."""

from opilio.crawler.simulator.faults import Calm, SimulatedCrawler, Troubles
from opilio.crawler.simulator.platform import Platform

__all__ = ["Calm", "Platform", "SimulatedCrawler", "Troubles"]
