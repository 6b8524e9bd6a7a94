"""The bot that ships with Opilio: fetches politely and safely, reads pages by rules or by their own data."""

from opilio.bot.reference.crawler import ReferenceCrawler
from opilio.bot.reference.options import Options
from opilio.bot.reference.reference_bot import reference_bot

__all__ = ["Options", "ReferenceCrawler", "reference_bot"]
