"""The errors of the bot SDK.

BotError
├── CrawlError               raised by an author's function: the crawl failed, and with which code
├── Misconfigured            the bot cannot work as it was set up
└── ServerError              the control plane did not do what was asked
    ├── ServerAway           no answer, or one that asks to come back later: tried again
    └── Refused              a clear no, with the code of the answer
        └── NotAllowed       the token is wrong, revoked, or belongs to another bot
"""

from typing import Any

from opilio.contracts.codes import ErrorCode


class BotError(Exception):
    """Whatever the SDK raises on purpose; its text is meant for a person."""


class CrawlError(BotError):
    """A crawl failed: `code` decides whether the control plane tries again."""

    def __init__(self, code: ErrorCode | str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = str(code)
        self.message = message
        self.retry_after = retry_after


class Misconfigured(BotError):
    """The bot cannot work as it was set up; the text says what to change."""


class ServerError(BotError):
    """The control plane did not do what was asked."""


class ServerAway(ServerError):
    """The server cannot be reached or asks to come back; `retry_after` says when, if it said so."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Refused(ServerError):
    """The server said no; `code` is the one in its answer."""

    def __init__(self, status: int, code: str, message: str, details: Any = None) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.details = details


class NotAllowed(Refused):
    """The token is wrong, revoked, or belongs to another bot."""
