"""The frame of every page: who looks, in which language, what may be done; pages and their twins as data."""

import csv
import hmac
import io
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode
from uuid import UUID

import asyncpg
import msgspec
from litestar import Response
from litestar.datastructures import Cookie
from litestar.handlers import HTTPRouteHandler, route
from litestar.response import Redirect

from opilio import audit
from opilio.access.identity import SCOPES, Operator
from opilio.contracts.envelope import STATUS_OF
from opilio.errors import Invalid, NotFound, Refused, Unavailable
from opilio.runtime.bootstrap import Opilio
from opilio.web.codec import AnyRequest, read_body, refuse
from opilio.web.dashboard.i18n import Words, choose
from opilio.web.dashboard.render import plain, render
from opilio.web.login import current_operator

FLASH = "opilio_flash"
_FORM_BYTES = 4 * 2**20
_encode = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
_AWAY = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    Unavailable,
)


@dataclass(slots=True)
class Visit:
    """One request of an operator."""

    opilio: Opilio
    request: AnyRequest
    operator: Operator
    words: Words
    form: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def app(self) -> Any:
        return self.request.app.state

    @property
    def actor(self) -> str:
        return self.operator.actor

    def can(self, scope: str) -> bool:
        return SCOPES.index(self.operator.scope) >= SCOPES.index(scope)

    def arg(self, name: str) -> str | None:
        """A parameter of the query; empty is not said."""
        return _clean(self.request.query_params.get(name))

    def flag(self, name: str) -> bool | None:
        return {"yes": True, "no": False}.get(self.arg(name) or "")

    def page_number(self) -> int:
        text = self.arg("page") or "1"
        return min(max(int(text), 1), 200) if text.isdigit() and len(text) < 6 else 1

    def said(self, name: str) -> str | None:
        """A field of the form; empty is not said."""
        return _clean(next(iter(self.form.get(name, [])), None))

    def name(self, of: str = "id") -> str:
        """What the path says is looked at, without the ending of its twin."""
        return twin_of(str(self.request.path_params[of]))[0]

    def id(self, name: str = "id") -> UUID:
        return uuid_of(self.name(name))

    def here(self, **changes: Any) -> str:
        """The same page with other parameters; None takes one away."""
        query = dict(self.request.query_params.items()) | changes
        return with_query(self.path, query)

    def back(self, usual: str) -> str:
        """Where the form was sent from, or where such forms usually stand."""
        said = self.said("back")
        return str(said) if is_local(said) else usual

    @property
    def path(self) -> str:
        return twin_of(self.request.url.path)[0]

    @property
    def twin(self) -> str:
        return twin_of(self.request.url.path)[1]

    async def note(self, action: str, subject: str, details: Any = None) -> None:
        await audit.record(self.opilio.database, self.actor, action, subject, details)


@dataclass(frozen=True, slots=True)
class Page:
    """What a view answers: a template with its values, and the same as data for the twins."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    data: Any = None
    rows: Sequence[Any] | None = None
    charts: bool = False
    frames: bool = False
    watch: str = ""
    status: int = 200
    commands: Any = None


View = Callable[[Visit], Awaitable[Page | Response[Any]]]


@dataclass(slots=True)
class Site:
    """The pages and actions of one part of the dashboard."""

    routes: list[HTTPRouteHandler] = field(default_factory=list)

    def page(self, path: str, *, need: str = "read", twins: bool = True) -> Callable[[View], View]:
        """GET; a view without a parameter at its end gets `.json` and `.csv` beside it."""

        def register(view: View) -> View:
            paths = [path]
            if twins and not path.endswith("}") and path != "/":
                paths += [f"{path}.json", f"{path}.csv"]
            self._add(paths, "GET", need, view)
            return view

        return register

    def action(self, path: str, *, need: str = "write", largest: int = _FORM_BYTES) -> Callable[[View], View]:
        """POST of a form with the session's token in it."""

        def register(view: View) -> View:
            self._add([path], "POST", need, view, largest)
            return view

        return register

    def _add(self, paths: list[str], method: Any, need: str, view: View, largest: int = 0) -> None:
        async def handle(request: AnyRequest) -> Response[Any]:
            began = time.perf_counter()
            response = await _answer(request, need, view, largest)
            spent = (time.perf_counter() - began) * 1000
            response.headers["server-timing"] = f"app;dur={spent:.1f}"
            return response

        self.routes.append(
            route(paths, http_method=[method], status_code=200, request_max_body_size=None)(handle)
        )


async def _answer(request: AnyRequest, need: str, view: View, largest: int) -> Response[Any]:
    words = Words(choose(request.cookies.get("opilio_lang"), request.headers.get("accept-language", "")))
    twin = twin_of(request.url.path)[1]
    visit: Visit | None = None
    try:
        operator = await current_operator(request)
        if operator is None:
            return _to_login(request, twin)
        visit = Visit(request.app.state.opilio, request, operator, words)
        if request.method == "POST":
            visit.form = await _read_form(request, operator, largest)
        operator.must_have(need)
        answered = await view(visit)
    except Refused as refusal:
        if twin or visit is None:
            return refuse(refusal)
        return _refused(visit, refusal)
    except _AWAY as error:
        return _away(words, error)
    if isinstance(answered, Response):
        return answered
    if twin:
        return _twin(answered, twin)
    return _html(visit, answered)


def _html(visit: Visit, page: Page) -> Response[Any]:
    flash = unquote(visit.request.cookies.get(FLASH, ""))
    response = render(page.template, visit, page, flash=flash)
    if flash:
        response.delete_cookie(FLASH)
    return response


def _to_login(request: AnyRequest, twin: str) -> Response[Any]:
    if twin or request.method != "GET" or request.headers.get("hx-request"):
        return refuse(Refused("unauthorized", "log in first"), {"hx-redirect": "/login"})
    wanted = request.url.path + _question(request.url.query)
    return Redirect(with_query("/login", {"next": "" if wanted == "/" else wanted}), status_code=303)


def _refused(visit: Visit, refusal: Refused) -> Response[Any]:
    """A form that was refused goes back to where it came from, with the reason on top."""
    back = visit.said("back")
    if visit.request.method == "POST" and is_local(back) and not visit.request.headers.get("hx-request"):
        return go(str(back), f"!{visit.words.tell(refusal.message)}")
    status = STATUS_OF.get(refusal.code, 400)
    page = Page("refused.html", visit.words.say("Not possible"), {"refusal": refusal}, status=status)
    return _html(visit, page)


def _away(words: Words, error: Exception) -> Response[Any]:
    response = plain("down.html", words, status=503, reason=str(error) or type(error).__name__)
    response.headers["retry-after"] = "2"
    return response


def wants_html(request: AnyRequest) -> bool:
    """A person in front of a browser, not a program."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")


def show_fault(request: AnyRequest, refusal: Refused) -> Response[Any]:
    """What went wrong, outside of any page: a page that does not exist, or one that broke."""
    words = Words(choose(request.cookies.get("opilio_lang"), request.headers.get("accept-language", "")))
    status = STATUS_OF.get(refusal.code, 400)
    return plain("fault.html", words, status=status, code=refusal.code, message=words.tell(refusal.message))


async def _read_form(request: AnyRequest, operator: Operator, largest: int) -> Mapping[str, list[str]]:
    """Refuses what another site sent: the token must be in the form or the header, and the browser must agree."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refused("forbidden", "this form was sent from another site")
    form: dict[str, list[str]] = {}
    if "multipart" not in request.headers.get("content-type", ""):
        body = await read_body(request, largest)
        for name, value in parse_qsl(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20_000
        ):
            form.setdefault(name, []).append(value)
    given = request.headers.get("x-csrf-token") or next(iter(form.get("csrf", [])), "")
    if not hmac.compare_digest(given.encode(), str(operator.csrf_token).encode()):
        raise Refused("forbidden", "this form is too old: go back, reload the page and send it again")
    return form


# ── twins: every view is data too ────────────────────────────────────────────────────────────────


def twin_of(path: str) -> tuple[str, str]:
    for twin in ("json", "csv"):
        if path.endswith(f".{twin}"):
            return path.removesuffix(f".{twin}"), twin
    return path, ""


def _twin(page: Page, twin: str) -> Response[Any]:
    rows = [msgspec.to_builtins(row, builtin_types=_KEEP, enc_hook=dict) for row in page.rows or []]
    if twin == "json":
        data = page.data if page.data is not None else {"items": rows}
        return Response(msgspec.json.format(_encode(data)), media_type="application/json")
    if page.rows is None:
        raise NotFound("this page has no rows; ask for its .json")
    return Response(_csv(rows), media_type="text/csv; charset=utf-8")


_KEEP = (UUID,)


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    if rows:
        table.writerow(rows[0].keys())
    table.writerows([_cell(value) for value in row.values()] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> str:
    """A cell that a spreadsheet takes for a formula is given a quote: titles come from strangers."""
    if value is None:
        return ""
    text = _encode(value).decode() if isinstance(value, dict | list | bool) else str(value)
    return f"'{text}" if text[:1] in "=+-@\t\r" and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ── small things ─────────────────────────────────────────────────────────────────────────────────


def go(path: str, message: str = "") -> Response[Any]:
    """On to another page, which shows the message; one that begins with ! is bad news."""
    response: Redirect = Redirect(path, status_code=303)
    if message:
        response.cookies = [
            Cookie(key=FLASH, value=quote(message[:800]), max_age=60, httponly=True, samesite="lax", path="/")
        ]
    return response


def is_local(path: str | None) -> bool:
    """A path of this site; one that begins with two slashes of either kind is an address of another."""
    return bool(path) and str(path).startswith("/") and not str(path).startswith(("//", "/\\"))


def with_query(path: str, query: Mapping[str, Any]) -> str:
    said = {key: value for key, value in query.items() if value not in (None, "")}
    return path + _question(urlencode(said))


def _question(query: str) -> str:
    return f"?{query}" if query else ""


def uuid_of(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid("id", "must be a UUID") from None


def _clean(text: str | None) -> str | None:
    text = (text or "").replace("\x00", "").strip()
    return text[:4096] or None
