"""What the types of a submit cannot check; the server and the fake control plane refuse alike."""

import hashlib
import re
from decimal import Decimal
from operator import attrgetter

import msgspec

from opilio.bounded_json import check_json
from opilio.contracts.bot_api import Outcome
from opilio.contracts.price import read_price
from opilio.errors import Invalid

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_EMPTY = hashlib.blake2b(digest_size=16)
_encode = msgspec.json.Encoder().encode
_compared = attrgetter(*(name for name in Outcome.__struct_fields__ if name != "lock_token"))


def check_outcome(outcome: Outcome) -> Decimal | None:
    """Names the first wrong field, and answers the price."""
    try:
        price = read_price(outcome.price)
    except ValueError as error:
        raise Invalid("price", str(error)) from None
    if outcome.title is not None:
        _text("title", outcome.title)
    if outcome.error_msg is not None:
        _text("error_msg", outcome.error_msg)
    if outcome.error_code is not None:
        _text("error_code", outcome.error_code)
    if outcome.html_hash is not None:
        _text("html_hash", outcome.html_hash)
    if outcome.data is not None:
        check_json("data", outcome.data)
    if outcome.validators:
        _text("validators.etag", outcome.validators.etag or "")
        _text("validators.last_modified", outcome.validators.last_modified or "")
    if outcome.not_modified:
        _unmodified(outcome, price)
    elif outcome.success:
        _complete(outcome, price)
    return price


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


def _text(field: str, value: str) -> None:
    if not value.isprintable() and _CONTROL.search(value):  # printable text, as most is, has none of them
        raise Invalid(field, "contains a control character")


def digest(outcome: Outcome) -> bytes:
    """A fingerprint of the content, the same for any lock token, alone or in a batch."""
    found = _EMPTY.copy()  # which takes less time than a new one
    found.update(_encode(_compared(outcome)))
    return found.digest()
