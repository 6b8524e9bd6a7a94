"""The reference bot: fetches pages within robots.txt and allowed addresses, and extracts values from them."""

from opilio.bot.reference.crawler import ReferenceCrawler
from opilio.bot.reference.options import Options
from opilio.bot.reference.reference_bot import reference_bot

__all__ = ["Options", "ReferenceCrawler", "reference_bot"]
