"""The errors of the bot SDK.

BotError
├── CrawlError               raised by a handler: the crawl failed, with an error code
├── Misconfigured            the configuration of the bot is wrong
└── ServerError              a request to the server failed
    ├── ServerAway           no answer, or a status that asks to retry: retried
    └── Refused              the server refused, with the code of its answer
        └── NotAllowed       the token is wrong, revoked, or belongs to another bot
"""

from typing import Any

from opilio.contracts.codes import ErrorCode


class BotError(Exception):
    """Base of all errors of the SDK; the text is meant for a person."""


class CrawlError(BotError):
    """A crawl failed; `code` decides whether the server retries the job."""

    def __init__(self, code: ErrorCode | str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = str(code)
        self.message = message
        self.retry_after = retry_after


class Misconfigured(BotError):
    """The configuration of the bot is wrong; the text says what to change."""


class ServerError(BotError):
    """A request to the server failed."""


class ServerAway(ServerError):
    """The server cannot be reached or asks to retry; `retry_after` is its wait in seconds, if given."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Refused(ServerError):
    """The server refused; `code` is the error code of its answer."""

    def __init__(self, status: int, code: str, message: str, details: Any = None) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.details = details


class NotAllowed(Refused):
    """The token is wrong, revoked, or belongs to another bot."""
