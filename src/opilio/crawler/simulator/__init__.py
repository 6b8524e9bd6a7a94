"""A platform that does not exist: seeded posts, and crawlers with the troubles of real ones."""

from opilio.crawler.simulator.platform import Platform
from opilio.crawler.simulator.troubles import Calm, SimulatedCrawler, Troubles

__all__ = ["Calm", "Platform", "SimulatedCrawler", "Troubles"]
