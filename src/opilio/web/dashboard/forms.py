"""Forms and query strings: read, cleaned, and converted to the types that pages need."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from opilio.access.identity import Operator
from opilio.errors import Invalid
from opilio.web.codec import AnyRequest, read_body
from opilio.web.dashboard.csrf import check_origin, check_token

Form = Mapping[str, list[str]]
_MAX_FIELDS = 20_000
_MAX_TEXT = 4096


async def read_form(request: AnyRequest, operator: Operator, max_bytes: int) -> Form:
    """The submitted fields, after the CSRF checks; an upload is read by the page itself, from the stream."""
    check_origin(request)
    form: dict[str, list[str]] = {}
    if "multipart" not in request.headers.get("content-type", ""):
        body = (await read_body(request, max_bytes)).decode("utf-8", "replace")
        for name, value in parse_qsl(body, keep_blank_values=True, max_num_fields=_MAX_FIELDS):
            form.setdefault(name, []).append(value)
    check_token(request, operator, form)
    return form


def clean(text: str | None) -> str | None:
    """Trimmed and bounded; None if nothing is left."""
    text = (text or "").replace("\x00", "").strip()
    return text[:_MAX_TEXT] or None


def uuid_of(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid("id", "must be a UUID") from None


def is_local(path: str | None) -> bool:
    """A path of this site; one that begins with two slashes of either kind is an address of another."""
    return bool(path) and str(path).startswith("/") and not str(path).startswith(("//", "/\\"))


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """The path with a query string, without the empty parameters."""
    given = urlencode({key: value for key, value in query.items() if value not in (None, "")})
    return f"{path}?{given}" if given else path
