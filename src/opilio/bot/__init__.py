"""The bot SDK: you write one function that crawls a page; pulling, locks, retries and submits are done for you."""

from opilio.bot.bot import Bot
from opilio.bot.client import ControlPlane
from opilio.bot.errors import (
    BotError,
    CrawlError,
    Misconfigured,
    NotAllowed,
    Refused,
    ServerAway,
    ServerError,
)
from opilio.bot.job_report import JobReport
from opilio.bot.result import Result, outcome_of
from opilio.contracts.bot_api import PulledJob as Job
from opilio.contracts.codes import ErrorCode

__all__ = [
    "Bot",
    "BotError",
    "ControlPlane",
    "CrawlError",
    "ErrorCode",
    "Job",
    "JobReport",
    "Misconfigured",
    "NotAllowed",
    "Refused",
    "Result",
    "ServerAway",
    "ServerError",
    "outcome_of",
]
