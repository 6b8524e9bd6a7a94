"""Refuses forms that another site sent: the session's token must be in the form or in a header."""

import hmac
from collections.abc import Mapping

from opilio.access.identity import Operator
from opilio.errors import Refused
from opilio.web.codec import AnyRequest

FIELD = "csrf"
HEADER = "x-csrf-token"


def check_origin(request: AnyRequest) -> None:
    """Browsers say where a form was sent from; a program without a browser says nothing."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refused("forbidden", "this form was sent from another site")


def check_token(request: AnyRequest, operator: Operator, form: Mapping[str, list[str]]) -> None:
    given = request.headers.get(HEADER) or next(iter(form.get(FIELD, [])), "")
    if not hmac.compare_digest(given.encode(), str(operator.csrf_token).encode()):
        raise Refused("forbidden", "this form has expired; go back, reload the page and submit it again")
