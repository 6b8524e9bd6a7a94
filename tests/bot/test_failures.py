"""Which code a failed crawl gets."""

import json
import socket
import ssl
from datetime import UTC, datetime

import httpx2
import pytest

from opilio.bot.error_codes import of_exception, of_status, retry_after
from opilio.bot.errors import CrawlError
from opilio.contracts.codes import ErrorCode, worth_retrying

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = httpx2.Request("GET", "https://shop.example/")


def raised_from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def status_error(status: int, **headers: str) -> Exception:
    response = httpx2.Response(status, headers=headers, request=REQUEST)
    return httpx2.HTTPStatusError("no", request=REQUEST, response=response)


class ForeignTimeout(Exception):
    """As Playwright's: no relative of the builtin."""


ForeignTimeout.__name__ = "TimeoutError"


class ForeignStatus(Exception):
    """As aiohttp's: status and headers on the error itself."""

    status = 429

    def __init__(self) -> None:
        self.headers = {"Retry-After": "7"}


class OfScrapy(Exception):
    """As Scrapy's: an answer with a status, its headers in bytes and lists."""

    def __init__(self) -> None:
        self.response = type("Answer", (), {"status": 503, "headers": {b"Retry-After": [b"8"]}})()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TimeoutError(), "TIMEOUT"),
        (httpx2.ReadTimeout("slow"), "TIMEOUT"),
        (httpx2.ConnectTimeout("slow"), "TIMEOUT"),
        (ForeignTimeout(), "TIMEOUT"),
        (raised_from(httpx2.ConnectError("no"), socket.gaierror(-2, "unknown")), "DNS_ERROR"),
        (raised_from(httpx2.ConnectError("no"), ConnectionRefusedError()), "CONNECTION_REFUSED"),
        (
            raised_from(httpx2.ConnectError("no"), ExceptionGroup("both", [ConnectionRefusedError()])),
            "CONNECTION_REFUSED",
        ),
        (httpx2.ConnectError("no"), "NETWORK_ERROR"),
        (ConnectionResetError(), "NETWORK_ERROR"),
        (raised_from(httpx2.ConnectError("no"), ssl.SSLError("bad certificate")), "NETWORK_ERROR"),
        (httpx2.InvalidURL("no"), "INVALID_URL"),
        (httpx2.UnsupportedProtocol("ftp"), "INVALID_URL"),
        (httpx2.TooManyRedirects("round"), "INVALID_RESPONSE"),
        (httpx2.DecodingError("gzip"), "INVALID_RESPONSE"),
        (json.JSONDecodeError("no", "", 0), "PARSE_ERROR"),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "no"), "PARSE_ERROR"),
        (status_error(401), "AUTH_FAILED"),
        (status_error(403), "ACCESS_DENIED"),
        (status_error(404), "CONTENT_NOT_FOUND"),
        (status_error(410), "CONTENT_REMOVED"),
        (status_error(451), "CONTENT_UNAVAILABLE"),
        (status_error(400), "CONTENT_UNAVAILABLE"),
        (status_error(408), "TIMEOUT"),
        (status_error(429), "RATE_LIMITED"),
        (status_error(500), "NETWORK_ERROR"),
        (status_error(503), "RATE_LIMITED"),
        (status_error(504), "TIMEOUT"),
        (ZeroDivisionError(), "INTERNAL_ERROR"),
        (CrawlError("MY_OWN_CODE", "kept"), "MY_OWN_CODE"),
    ],
)
def test_codes(error, code):
    assert of_exception(error, NOW).code == code


def test_a_rate_limit_keeps_what_the_host_asked_for():
    assert of_exception(status_error(429, **{"retry-after": "120"}), NOW).retry_after == 120
    assert (
        of_exception(status_error(503, **{"retry-after": "Thu, 01 Jan 2026 00:01:00 GMT"}), NOW).retry_after
        == 60
    )
    assert of_exception(ForeignStatus(), NOW) == ("RATE_LIMITED", "the host answered 429", 7)
    assert of_exception(OfScrapy(), NOW) == ("RATE_LIMITED", "the host answered 503", 8)
    assert of_status(404, {"retry-after": "5"}, NOW).retry_after is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("0", 0),
        (" 30 ", 30),
        ("Wed, 31 Dec 2025 23:59:00 GMT", 0),
        ("Thu, 01 Jan 2026 00:00:10", 10),
    ],
)
def test_retry_after(value, seconds):
    assert retry_after(value, NOW) == seconds


@pytest.mark.parametrize("status", range(300, 600))
def test_every_status_has_a_known_code(status):
    assert of_status(status, {}, NOW).code in set(ErrorCode)


def test_what_may_pass_is_retried_and_what_cannot_is_not():
    assert worth_retrying(of_status(500, {}, NOW).code)
    assert not worth_retrying(of_status(404, {}, NOW).code)


def test_a_chain_that_bites_its_tail_ends():
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert of_exception(first).code == "INTERNAL_ERROR"
