"""Fetches one page over HTTP, with limits on size and time; every redirect is checked."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx2

from opilio.bot.error_codes import of_status
from opilio.bot.errors import CrawlError
from opilio.bot.reference.options import CrawlConfig
from opilio.contracts.bot_api import Validators
from opilio.contracts.codes import ErrorCode

Check = Callable[[str], Awaitable[None]]

_MOST_REDIRECTS = 10
_REDIRECTS = {301, 302, 303, 307, 308}
_READABLE = ("text/", "application/xhtml", "application/xml", "application/json", "application/ld+json")
_SECRET_HEADERS = {"authorization", "cookie", "proxy-authorization"}
_ACCEPT = {
    "accept": "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.5",
    "accept-language": "en;q=0.8,vi;q=0.7,*;q=0.5",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A fetched page; `url` is the one after redirects."""

    url: str
    body: bytes
    content_type: str | None
    validators: Validators | None = None


class NotModified(Exception):
    """The page is what the validators stand for."""


class Fetcher:
    """Fetches with one connection pool for all jobs; cookies are kept for one fetch."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def fetch(
        self, url: str, config: CrawlConfig, check: Check, validators: Validators | None = None
    ) -> Page:
        """`check` is called before each request and raises if the bot may not fetch the URL; `NotModified` for a 304."""
        async with asyncio.timeout(config.timeout_seconds):
            cookies, headers = httpx2.Cookies(), {**_ACCEPT, **_conditions(validators), **config.headers}
            address = checked_url(url)
            for _ in range(_MOST_REDIRECTS + 1):
                await check(str(address))
                request = self._client.build_request(
                    "GET", address, headers=headers, timeout=config.timeout_seconds
                )
                cookies.set_cookie_header(request)
                response = await self._client.send(request, stream=True, follow_redirects=False)
                try:
                    cookies.extract_cookies(response)
                    if response.status_code not in _REDIRECTS or "location" not in response.headers:
                        return await _page(response, config.max_bytes)
                finally:
                    await response.aclose()
                target = checked_url(str(address.join(response.headers["location"])))
                if target.netloc != address.netloc:
                    headers = {name: value for name, value in headers.items() if name not in _SECRET_HEADERS}
                address = target
        raise CrawlError(ErrorCode.INVALID_RESPONSE, f"more than {_MOST_REDIRECTS} redirects")


def checked_url(url: str) -> httpx2.URL:
    """A URL that a bot may fetch: http or https, with a host, without credentials."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise CrawlError(ErrorCode.INVALID_URL, f"{url!r} is not a URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise CrawlError(ErrorCode.INVALID_URL, f"{url!r} is not an http or https URL")
    if parsed.userinfo:
        raise CrawlError(ErrorCode.INVALID_URL, "the URL must not contain credentials")
    return parsed


_CONDITIONS = {"if-none-match", "if-modified-since"}


def _conditions(validators: Validators | None) -> dict[str, str]:
    found = {}
    if validators and validators.etag:
        found["if-none-match"] = validators.etag
    if validators and validators.last_modified:
        found["if-modified-since"] = validators.last_modified
    return found


def _validators(headers: httpx2.Headers) -> Validators | None:
    """What the page may be asked by next time; values that the server would refuse are left out."""
    etag, modified = headers.get("etag"), headers.get("last-modified")
    found = Validators(
        etag=etag if etag and len(etag) <= 1024 and etag.isprintable() else None,
        last_modified=modified if modified and len(modified) <= 64 and modified.isprintable() else None,
    )
    return found if found != Validators() else None


async def _page(response: httpx2.Response, max_bytes: int) -> Page:
    if response.status_code == 304 and _CONDITIONS & response.request.headers.keys():
        raise NotModified
    if not response.is_success:
        failed = of_status(response.status_code, response.headers)
        raise CrawlError(failed.code, failed.message, retry_after=failed.retry_after)
    content_type = response.headers.get("content-type")
    if content_type and not content_type.strip().lower().startswith(_READABLE):
        raise CrawlError(ErrorCode.MEDIA_FORMAT_ERROR, f"the host sent {content_type}, which is not a page")
    body = await read_limited(response, max_bytes)
    return Page(str(response.url), body, content_type, _validators(response.headers))


async def read_limited(response: httpx2.Response, max_bytes: int) -> bytes:
    """The decompressed body; stops reading as soon as it is too large."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > max_bytes:
            raise CrawlError(ErrorCode.MEDIA_TOO_LARGE, f"the page has more than {max_bytes} bytes")
    return bytes(body)
