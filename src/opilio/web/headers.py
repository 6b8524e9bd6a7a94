"""Headers that every response has."""

import random

from litestar.types import Scope

SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
)
_LONGEST_ID = 100


def request_id(scope: Scope) -> bytes:
    """The id that the client gave its request, or a new one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given if 0 < len(given) <= _LONGEST_ID and given.isascii() else b"%032x" % random.getrandbits(128)
