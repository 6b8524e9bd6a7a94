"""Random secrets: shown once, stored as a hash."""

import hashlib
import secrets

BOT, KEY, LINK, SESSION = "opb_", "opk_", "opl_", "ops_"


def new_secret(prefix: str) -> str:
    return prefix + secrets.token_urlsafe(32)


def digest(secret: str) -> bytes:
    """A fast hash is safe here, because the secrets are 256 random bits."""
    return hashlib.sha256(secret.encode()).digest()
