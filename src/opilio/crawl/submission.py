"""What a bot may submit: parsed and bounded."""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from opilio.bounded_json import check_json
from opilio.contracts.bot_api import Outcome, Validators
from opilio.contracts.price import read_price
from opilio.crawl.claims import Claim
from opilio.crawl.history import Values
from opilio.errors import Invalid

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_COMPARED = tuple(name for name in Outcome.__struct_fields__ if name != "lock_token")


class Submission(msgspec.Struct, frozen=True):
    """One checked submission."""

    claim: Claim
    success: bool
    values: Values
    data: Mapping[str, Any] | None
    html_hash: str | None
    crawl_duration: float | None
    raw_html: str | None
    error_msg: str | None
    error_code: str | None
    retry_after: float | None
    not_modified: bool = False
    validators: Validators = Validators()
    changed_at: datetime | None = None


def parse(bot_id: str, outcome: Outcome) -> Submission:
    """Checks what the types cannot; the first wrong field is named."""
    price = _price(outcome.price)
    _text("title", outcome.title)
    _text("error_msg", outcome.error_msg)
    _text("error_code", outcome.error_code)
    _text("html_hash", outcome.html_hash)
    check_json("data", outcome.data)
    if outcome.validators:
        _text("validators.etag", outcome.validators.etag)
        _text("validators.last_modified", outcome.validators.last_modified)
    if outcome.not_modified:
        _unmodified(outcome, price)
    elif outcome.success:
        _complete(outcome, price)
    currency = outcome.currency.upper() if outcome.currency else None
    return Submission(
        claim=Claim(bot_id, outcome.job_id, outcome.lock_token, _digest(outcome)),
        success=outcome.success,
        values=Values(price, currency, outcome.title, outcome.in_stock, outcome.data),
        data=outcome.data,
        html_hash=outcome.html_hash,
        crawl_duration=outcome.crawl_duration,
        # HTML itself reads U+0000 as U+FFFD, and PostgreSQL cannot store the former.
        raw_html=outcome.raw_html.replace("\x00", "\ufffd") if outcome.raw_html else None,
        error_msg=outcome.error_msg,
        error_code=outcome.error_code,
        retry_after=outcome.retry_after,
        not_modified=outcome.not_modified,
        validators=outcome.validators or Validators(),
        changed_at=outcome.changed_at,
    )


def _unmodified(outcome: Outcome, price: Decimal | None) -> None:
    if not outcome.success:
        raise Invalid("not_modified", "goes with success: true; a failed crawl cannot tell")
    if price is not None or outcome.data or outcome.raw_html:
        raise Invalid(
            "not_modified", "goes without price, data and raw_html; leave it out to store new values"
        )


def _complete(outcome: Outcome, price: Decimal | None) -> None:
    if price is not None and outcome.currency is None:
        raise Invalid("currency", "is required with a price: three letters such as USD or VND")
    if price is None and not outcome.data:
        raise Invalid("price", "a successful result needs price and currency, or a non-empty data object")


def _price(raw: msgspec.Raw) -> Decimal | None:
    try:
        return read_price(raw)
    except ValueError as error:
        raise Invalid("price", str(error)) from None


def _text(field: str, value: str | None) -> None:
    if value is not None and _CONTROL.search(value):
        raise Invalid(field, "contains a control character")


def _digest(outcome: Outcome) -> bytes:
    """A fingerprint of the content, the same for any lock token, alone or in a batch."""
    content = msgspec.json.encode([getattr(outcome, name) for name in _COMPARED])
    return hashlib.blake2b(content, digest_size=16).digest()
