"""Secrets that Opilio hands out: random, shown once, kept as a hash."""

import hashlib
import secrets

BOT, KEY, LINK, SESSION = "opb_", "opk_", "opl_", "ops_"


def new_secret(prefix: str) -> str:
    return prefix + secrets.token_urlsafe(32)


def digest(secret: str) -> bytes:
    """These secrets are 256 random bits: a plain hash is enough, and fast enough for every request."""
    return hashlib.sha256(secret.encode()).digest()
