"""A simulated platform: seeded posts, and crawlers with the faults of real ones."""

from opilio.crawler.simulator.faults import NO_FAULTS, Faults, SimulatedCrawler
from opilio.crawler.simulator.platform import Platform

__all__ = ["NO_FAULTS", "Faults", "Platform", "SimulatedCrawler"]
