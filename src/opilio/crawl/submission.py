"""What a bot may submit: parsed and bounded."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from opilio.contracts.bot_api import Outcome, Validators
from opilio.contracts.outcome_checks import check_outcome, digest
from opilio.crawl.history import Values
from opilio.lock_rules import Claim

_NO_VALIDATORS = Validators()


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
    validators: Validators = _NO_VALIDATORS
    changed_at: datetime | None = None


def parse(bot_id: str, outcome: Outcome) -> Submission:
    """Checks what the types cannot; the first wrong field is named."""
    price = check_outcome(outcome)
    currency = outcome.currency.upper() if outcome.currency else None
    return Submission(
        claim=Claim(bot_id, outcome.job_id, outcome.lock_token, digest(outcome)),
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
        validators=outcome.validators or _NO_VALIDATORS,
        changed_at=outcome.changed_at,
    )
