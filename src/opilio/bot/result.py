"""What a handler returns, and the submit body made from it."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from opilio.bot.error_codes import Failure, of_exception
from opilio.bot.errors import CrawlError
from opilio.contracts.bot_api import Outcome, PulledJob, Validators
from opilio.contracts.codes import ErrorCode

Price = Decimal | int | float | str

_FIELDS = frozenset(
    ("price", "currency", "title", "in_stock", "data", "raw_html", "html_hash", "crawl_duration")
)
_TITLE_LENGTH = 2000
_MESSAGE_LENGTH = 4000


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a crawl: a price with its currency, or `data`, or both."""

    price: Price | None = None
    currency: str | None = None
    title: str | None = None
    in_stock: bool | None = None
    data: dict[str, Any] | None = None
    raw_html: str | None = None
    html_hash: str | None = None
    crawl_duration: float | None = None
    not_modified: bool = False
    """The page is unchanged since `job.validators`: no price, no data."""
    validators: Validators | None = None
    """ETag and Last-Modified of the page, for the next conditional request."""
    changed_at: datetime | None = None
    """When the page changed, where it says so itself; with a time zone."""


def result_of(found: dict[str, Any]) -> Result:
    """A handler's dict: keys that are fields of a result become those fields, all others go into `data`."""
    fields = {name: value for name, value in found.items() if name in _FIELDS}
    rest = {name: value for name, value in found.items() if name not in _FIELDS}
    data = fields.get("data")
    if data is not None and not isinstance(data, dict):
        raise _invalid(f"`data` is {type(data).__name__}, not a dict")
    return Result(**{**fields, "data": {**(data or {}), **rest} or None})


def outcome_of(job: PulledJob, found: Result | Exception, seconds: float) -> Outcome:
    """The submit body of a result, or of the error that the crawl raised."""
    if isinstance(found, Exception):
        return failure(job, of_exception(found), seconds)
    return success(job, found, seconds)


def success(job: PulledJob, result: Result, seconds: float) -> Outcome:
    """The outcome of a crawl that worked; a result that the server would refuse is a `CrawlError`."""
    _check(result)
    return Outcome(
        job_id=job.job_id,
        lock_token=job.lock_token,
        success=True,
        price=exact(result.price),
        currency=result.currency,
        title=result.title[:_TITLE_LENGTH] if result.title else result.title,
        in_stock=result.in_stock,
        data=result.data,
        raw_html=result.raw_html,
        html_hash=result.html_hash,
        crawl_duration=seconds if result.crawl_duration is None else result.crawl_duration,
        not_modified=result.not_modified,
        validators=result.validators,
        changed_at=result.changed_at,
    )


def failure(job: PulledJob, failed: Failure, seconds: float) -> Outcome:
    return Outcome(
        job_id=job.job_id,
        lock_token=job.lock_token,
        success=False,
        error_code=failed.code[:64] or ErrorCode.UNKNOWN_ERROR,
        error_msg=failed.message[:_MESSAGE_LENGTH],
        retry_after=failed.retry_after,
        crawl_duration=seconds,
    )


def exact(price: Price | None) -> msgspec.Raw:
    """The price as JSON digits, so that no float rounds it."""
    if price is None:
        return msgspec.Raw(b"null")
    try:
        number = Decimal(str(price))
    except InvalidOperation:
        raise _invalid(f"the price {price!r} is not a number") from None
    if not number.is_finite() or number < 0:
        raise _invalid(f"the price {price!r} is not a number of 0 or more")
    return msgspec.Raw(format(number, "f").encode())


def _check(result: Result) -> None:
    if result.not_modified:
        if result.price is not None or result.data or result.raw_html:
            raise _invalid("a page that was not modified has no price, data or raw_html")
        return
    priced = result.price is not None and result.currency is not None
    if not priced and not result.data:
        raise _invalid("a result needs a price with its currency, or data")
    if result.currency is not None and not (
        len(result.currency) == 3 and result.currency.isascii() and result.currency.isalpha()
    ):
        raise _invalid(f"the currency {result.currency!r} is not three letters")


def _invalid(message: str) -> CrawlError:
    return CrawlError(ErrorCode.PARSE_ERROR, message)
