"""The error code of a failed crawl: from an exception, or from the HTTP status of the page. No I/O."""

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import httpx2
import msgspec

from opilio.bot.errors import CrawlError
from opilio.contracts.codes import ErrorCode
from opilio.net.guarded_connect import AddressRefused

_C = ErrorCode
_OF_STATUS: dict[int, ErrorCode] = {
    401: _C.AUTH_FAILED,
    403: _C.ACCESS_DENIED,
    404: _C.CONTENT_NOT_FOUND,
    407: _C.ACCESS_DENIED,
    408: _C.TIMEOUT,
    410: _C.CONTENT_REMOVED,
    429: _C.RATE_LIMITED,
    451: _C.CONTENT_UNAVAILABLE,
    503: _C.RATE_LIMITED,
    504: _C.TIMEOUT,
}
# By type, the most specific first; the causes of an exception are looked up too.
_OF_TYPE: tuple[tuple[tuple[type[BaseException], ...], ErrorCode], ...] = (
    ((TimeoutError, httpx2.TimeoutException), _C.TIMEOUT),
    ((socket.gaierror,), _C.DNS_ERROR),
    ((ConnectionRefusedError,), _C.CONNECTION_REFUSED),
    ((httpx2.InvalidURL, httpx2.UnsupportedProtocol), _C.INVALID_URL),
    ((httpx2.DecodingError, httpx2.TooManyRedirects), _C.INVALID_RESPONSE),
    ((json.JSONDecodeError, msgspec.DecodeError, UnicodeDecodeError), _C.PARSE_ERROR),
    ((httpx2.TransportError, ssl.SSLError, OSError), _C.NETWORK_ERROR),
)
# By name for clients that are not dependencies (httpx, requests, aiohttp, Playwright).
_OF_NAME: dict[str, ErrorCode] = {
    "Timeout": _C.TIMEOUT,
    "TimeoutError": _C.TIMEOUT,
    "TimeoutException": _C.TIMEOUT,
    "InvalidURL": _C.INVALID_URL,
    "UnsupportedProtocol": _C.INVALID_URL,
    "TooManyRedirects": _C.INVALID_RESPONSE,
    "TransportError": _C.NETWORK_ERROR,
    "ClientConnectionError": _C.NETWORK_ERROR,
}


class Failure(NamedTuple):
    code: str
    message: str
    retry_after: float | None = None


def of_exception(error: BaseException, now: datetime | None = None) -> Failure:
    """The error code and message for an exception of a handler."""
    if isinstance(error, CrawlError):
        return Failure(error.code, error.message, error.retry_after)
    if (answer := _answer_of(error)) is not None:
        return of_status(*answer, now=now)
    chain = list(_causes(error))
    if (refused := next((cause for cause in chain if isinstance(cause, AddressRefused)), None)) is not None:
        return Failure(_C.INVALID_URL, f"{refused}; start the bot with --allow-private to permit it")
    for types, code in _OF_TYPE:
        if any(isinstance(cause, types) for cause in chain):
            return Failure(code, _sentence(error))
    for name in (cls.__name__ for cause in chain for cls in type(cause).__mro__):
        if name in _OF_NAME:
            return Failure(_OF_NAME[name], _sentence(error))
    return Failure(_C.INTERNAL_ERROR, _sentence(error))


def of_status(status: int, headers: Mapping[str, str], now: datetime | None = None) -> Failure:
    """The error code and message for an HTTP status other than 2xx."""
    wait = retry_after(headers.get("retry-after"), now or datetime.now(UTC)) if status in (429, 503) else None
    return Failure(_code_of_status(status), f"the host answered {status}", wait)


def retry_after(value: str | None, now: datetime) -> float | None:
    """The seconds of a `Retry-After` header, which holds seconds or a date; None if there are none."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())


def _code_of_status(status: int) -> ErrorCode:
    if status in _OF_STATUS:
        return _OF_STATUS[status]
    if status >= 500:
        return _C.NETWORK_ERROR
    return _C.CONTENT_UNAVAILABLE if status >= 400 else _C.INVALID_RESPONSE


def _answer_of(error: BaseException) -> tuple[int, Mapping[str, str]] | None:
    """The status and headers that a client's own status error carries (httpx, requests, aiohttp, Scrapy)."""
    for holder in (getattr(error, "response", None), error):
        status = getattr(holder, "status_code", None) or getattr(holder, "status", None)
        if isinstance(status, int) and not isinstance(status, bool):
            headers: Any = getattr(holder, "headers", None) or {}
            return status, {_text(name).lower(): _text(value) for name, value in headers.items()}
    return None


def _text(value: Any) -> str:
    """Text of a header; Scrapy has bytes and lists of values."""
    if isinstance(value, list):
        value = value[0] if value else ""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, then what caused it, and the members of groups (a connection tried at two addresses)."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        current = todo.pop(0)
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        todo += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            todo += current.exceptions


def _sentence(error: BaseException) -> str:
    text = str(error).strip()
    name = type(error).__name__
    return f"{name}: {text}" if text else name
