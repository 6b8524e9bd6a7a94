"""What a bot may submit: parsed and bounded."""

import msgspec

from opilio.contracts.bot_api import Outcome, Validators
from opilio.contracts.outcome_checks import check_outcome, digest
from opilio.crawl.history import Values
from opilio.lock_rules import Claim

_NO_VALIDATORS = Validators()


class Submission(msgspec.Struct, frozen=True):
    """One checked submission."""

    claim: Claim
    outcome: Outcome
    """As it was sent."""
    values: Values
    page: str | None = None
    """Its `raw_html`, as PostgreSQL can store it."""

    @property
    def validators(self) -> Validators:
        return self.outcome.validators or _NO_VALIDATORS


def parse(bot_id: str, outcome: Outcome) -> Submission:
    """Checks what the types cannot; the first wrong field is named."""
    price = check_outcome(outcome)
    currency, html = outcome.currency, outcome.raw_html
    # By position: names would be looked up one by one, for every result.
    return Submission(
        Claim(bot_id, outcome.job_id, outcome.lock_token, digest(outcome)),
        outcome,
        Values(price, currency and currency.upper(), outcome.title, outcome.in_stock, outcome.data),
        # HTML itself reads U+0000 as U+FFFD, and PostgreSQL cannot store the former.
        html.replace("\x00", "\ufffd") if html else None,
    )
