"""Options of the reference bot, and the `crawl_config` of a job. No I/O."""

import re
from dataclasses import dataclass, field
from typing import Any

from opilio.bot.errors import CrawlError
from opilio.bot.extract import MAX_BYTES
from opilio.contracts.codes import ErrorCode
from opilio.net.allowed_addresses import AllowList

AGENT = "OpilioBot"
_USER_AGENT = f"Mozilla/5.0 (compatible; {AGENT}/1)"
_LONGEST_SECONDS = 300.0
# Headers of the connection, which a job cannot set.
_NOT_SETTABLE = {"host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer"}


@dataclass(frozen=True, slots=True)
class Options:
    """How this bot fetches, for all jobs."""

    allow: AllowList = field(default_factory=AllowList)
    user_agent: str = _USER_AGENT
    timeout_seconds: float = 30.0
    keep_html: bool = False
    browser: str | None = None
    pages_at_once: int = 4


@dataclass(frozen=True, slots=True)
class CrawlConfig:
    """The checked `crawl_config` of a job; unknown keys are ignored, other bots may use them."""

    headers: dict[str, str] = field(default_factory=dict)
    js_required: bool = False
    timeout_seconds: float = 30.0
    max_bytes: int = MAX_BYTES
    keep_html: bool = False
    wait_for: str | None = None


def parse_config(config: dict[str, Any], options: Options) -> CrawlConfig:
    return CrawlConfig(
        headers=_headers(config.get("headers")),
        js_required=_typed(config, "js_required", bool, default=False),
        timeout_seconds=_bounded(config, "timeout_hint", options.timeout_seconds, _LONGEST_SECONDS),
        max_bytes=int(_bounded(config, "max_bytes", MAX_BYTES, MAX_BYTES)),
        keep_html=_typed(config, "keep_html", bool, default=options.keep_html),
        wait_for=_typed(config, "wait_for", str, default=None),
    )


def _headers(headers: Any) -> dict[str, str]:
    if headers is None:
        return {}
    if not isinstance(headers, dict):
        raise _wrong("headers must be an object")
    for name, value in headers.items():
        if not isinstance(value, str) or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise _wrong(f"the header {name!r} must have a token as its name and text as its value")
        if "\r" in value or "\n" in value or name.lower() in _NOT_SETTABLE:
            raise _wrong(f"the header {name!r} cannot be set")
    return {name.lower(): value for name, value in headers.items()}


def _typed(config: dict[str, Any], key: str, kind: type, *, default: Any) -> Any:
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise _wrong(f"{key} must be {'true or false' if kind is bool else 'text'}")
    return value


def _bounded(config: dict[str, Any], key: str, default: float, most: float) -> float:
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise _wrong(f"{key} must be a number above 0")
    return min(float(value), most)


def _wrong(message: str) -> CrawlError:
    # A retry cannot repair a policy, so the code is one that is not retried.
    return CrawlError(ErrorCode.PARSE_ERROR, f"crawl_config: {message}")
