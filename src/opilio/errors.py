"""The errors that Opilio raises on purpose.

OpilioError
├── Refused                  the caller did something that is not possible; carries the wire code
│   ├── Invalid              validation_error: a field is wrong, and which one
│   ├── NotFound             not_found, job_not_found
│   └── Conflict             conflict, invalid_state, not_assigned, lock_expired
└── Unavailable              something that Opilio needs is not there; says what to do
"""

from typing import Any


class OpilioError(Exception):
    """Whatever Opilio raises on purpose; its text is meant for a person."""


class Refused(OpilioError):
    """A request that cannot be carried out, with the code a program can act on."""

    def __init__(self, code: str, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class Invalid(Refused):
    """One or more fields are wrong; `details` names them."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__("validation_error", f"{field}: {message}", [{"field": field, "message": message}])
        self.field = field


class NotFound(Refused):
    def __init__(self, message: str, code: str = "not_found") -> None:
        super().__init__(code, message)


class Conflict(Refused):
    def __init__(self, message: str, code: str = "conflict", details: Any = None) -> None:
        super().__init__(code, message, details)


class Unavailable(OpilioError):
    """A thing that Opilio needs is missing or down; the text says what to do about it."""
