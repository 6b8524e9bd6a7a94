"""The errors that Opilio raises for its callers.

OpilioError
├── Refused                  the request cannot be carried out; has the error code of the API
│   ├── Invalid              validation_error: a field is wrong; names it
│   ├── NotFound             not_found, job_not_found
│   └── Conflict             conflict, invalid_state, not_assigned, lock_expired
└── Unavailable              something that Opilio needs is missing or down; says what to do
"""

from typing import Any


class OpilioError(Exception):
    """Base of all errors of Opilio; the text is meant for a person."""


class Refused(OpilioError):
    """A request that cannot be carried out: the code for programs, a template and its parameters for people.

    The message is the template filled in (`%(name)s`); the dashboard translates the template.
    """

    def __init__(self, code: str, template: str, details: Any = None, **params: Any) -> None:
        self.code = code
        self.template = template
        self.params = params
        self.message = template % params if params else template
        self.details = details
        super().__init__(self.message)


class Invalid(Refused):
    """One or more fields are wrong; `details` names them."""

    def __init__(self, field: str, template: str, **params: Any) -> None:
        super().__init__("validation_error", template, **params)
        self.field = field
        self.details = [{"field": field, "message": self.message}]
        self.message = f"{field}: {self.message}"
        self.args = (self.message,)


class NotFound(Refused):
    def __init__(self, template: str, code: str = "not_found", **params: Any) -> None:
        super().__init__(code, template, **params)


class Conflict(Refused):
    def __init__(self, template: str, code: str = "conflict", details: Any = None, **params: Any) -> None:
        super().__init__(code, template, details, **params)


class Unavailable(OpilioError):
    """A thing that Opilio needs is missing or down; the text says what to do about it."""
