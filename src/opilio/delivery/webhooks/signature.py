"""Signatures of Standard Webhooks: secrets, and the headers of an attempt."""

import base64
import binascii
import secrets
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from standardwebhooks import Webhook

from opilio.errors import Invalid

PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64  # bytes, as the standard asks


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def checked_secret(secret: str) -> str:
    """Refuses a secret that a receiver's library would not accept."""
    if not secret.startswith(PREFIX):
        raise Invalid("secret", "must begin with %(prefix)s", prefix=PREFIX)
    try:
        size = len(base64.b64decode(secret.removeprefix(PREFIX), validate=True))
    except binascii.Error:
        raise Invalid("secret", "must be base64 after %(prefix)s", prefix=PREFIX) from None
    if not _SHORTEST <= size <= _LONGEST:
        raise Invalid(
            "secret",
            "must hold %(shortest)s to %(longest)s random bytes, this one holds %(size)s",
            shortest=_SHORTEST,
            longest=_LONGEST,
            size=size,
        )
    return secret


@lru_cache(maxsize=20_000)
def _signer(secret: str) -> Webhook:
    return Webhook(secret)


def headers(webhook_id: str, at: datetime, body: bytes, valid_secrets: Sequence[str]) -> dict[str, str]:
    """The headers of one attempt over the exact bytes sent: one signature for each valid secret."""
    text = body.decode()
    signatures = [_signer(secret).sign(webhook_id, at, text) for secret in valid_secrets]
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
