"""The envelope of every HTTP answer."""

from typing import Any

import msgspec


class ErrorBody(msgspec.Struct, omit_defaults=True):
    """What went wrong: a code for programs, a sentence for people."""

    code: str
    message: str
    details: Any = None


class Failure(msgspec.Struct):
    error: ErrorBody
    success: bool = False


class Success(msgspec.Struct):
    data: Any
    success: bool = True


# The codes of HTTP answers and their status, for the bot API and the management API alike.
STATUS_OF: dict[str, int] = {
    "validation_error": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "job_not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "conflict": 409,
    "not_assigned": 409,
    "lock_expired": 409,
    "invalid_state": 409,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "rate_limited": 429,
    "internal_error": 500,
    "unavailable": 503,
}
