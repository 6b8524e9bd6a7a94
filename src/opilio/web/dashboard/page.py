"""What every page shares: the operator's request, the routes of a section, and how errors are shown."""

import base64
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote, urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from litestar import Response
from litestar.datastructures import Cookie
from litestar.handlers import HTTPRouteHandler, route
from litestar.response import Redirect

from opilio import audit
from opilio.access.identity import SCOPES, Operator
from opilio.adapters.postgres.unavailable import does_not_answer
from opilio.contracts.envelope import STATUS_OF
from opilio.errors import Invalid, Refused
from opilio.insights.dashboard import Watched
from opilio.runtime.bootstrap import Opilio
from opilio.runtime.instance_file import has_demo
from opilio.web.codec import AnyRequest, refuse
from opilio.web.dashboard.forms import Form, clean, is_local, read_form, uuid_of, with_query
from opilio.web.dashboard.i18n import Locale, choose_language
from opilio.web.dashboard.page_data import as_data, split_format
from opilio.web.dashboard.render import render, render_plain, zone_of
from opilio.web.login import current_operator

FLASH = "opilio_flash"
SHOW_ONCE = "opilio_once"
_FORM_BYTES = 4 * 2**20


_DATE = len("2030-01-31")
MAX_PAGE = 10_000  # the last page that a list shows; filters lead further


@dataclass(slots=True)
class PageRequest:
    """One request of an operator who is logged in."""

    opilio: Opilio
    http: AnyRequest
    operator: Operator
    locale: Locale
    form: Form = field(default_factory=dict)
    # For the headings of a table: the column, and whether it is reversed.
    sorted_by: tuple[str, bool] = ("", False)

    @property
    def app(self) -> Any:
        return self.http.app.state

    @property
    def actor(self) -> str:
        return self.operator.actor

    def can(self, scope: str) -> bool:
        return SCOPES.index(self.operator.scope) >= SCOPES.index(scope)

    def query(self, name: str) -> str | None:
        """A parameter of the query string; None if it is missing or empty."""
        return clean(self.http.query_params.get(name))

    def flag(self, name: str) -> bool | None:
        return {"yes": True, "no": False}.get(self.query(name) or "")

    def moment(self, name: str, *, is_end: bool = False) -> datetime | None:
        """A date or a time of the query string, in the viewer's zone if it has none; a date as an end includes its day."""
        text = self.query(name)
        if text is None:
            return None
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise Invalid(name, "must be a date, such as 2030-01-31") from None
        found = found + timedelta(days=1) if is_end and len(text) == _DATE else found
        return found if found.tzinfo else found.replace(tzinfo=ZoneInfo(zone_of(self.http) or "UTC"))

    def page_number(self) -> int:
        text = self.query("page") or "1"
        return min(max(int(text), 1), MAX_PAGE) if text.isascii() and text.isdigit() and len(text) < 6 else 1

    def sort(self, names: Sequence[str]) -> tuple[str, bool]:
        """The order of a list, by default the first of its names; `-` before a name reverses its usual direction."""
        wanted = self.query("sort") or ""
        name = wanted.removeprefix("-")
        self.sorted_by = (name, wanted.startswith("-")) if name in names else (names[0], False)
        return self.sorted_by

    def field(self, name: str) -> str | None:
        """A field of the form; None if it is missing or empty."""
        return clean(next(iter(self.form.get(name, [])), None))

    def name(self, parameter: str = "id") -> str:
        """A parameter of the path, without a data format behind it."""
        name = split_format(str(self.http.path_params[parameter]))[0]
        if "\x00" in name:
            raise Invalid(parameter, "contains the character U+0000")
        return name

    def id(self, parameter: str = "id") -> UUID:
        return uuid_of(self.name(parameter))

    def url_with(self, **changes: Any) -> str:
        """The same page with other parameters; None removes one."""
        return with_query(self.path, dict(self.http.query_params.items()) | changes)

    def return_path(self, default: str) -> str:
        """Where the form was sent from."""
        given = self.field("back")
        return str(given) if is_local(given) else default

    @property
    def path(self) -> str:
        return split_format(self.http.url.path)[0]

    @property
    def data_format(self) -> str:
        return split_format(self.http.url.path)[1]

    @property
    def server(self) -> str:
        """The address under which programs reach this server."""
        return self.opilio.settings.public_url or str(self.http.base_url).rstrip("/")

    @property
    def is_demo(self) -> bool:
        """Whether this data directory has the demo's made-up history in it."""
        return has_demo(self.opilio.settings)

    def shown_once(self) -> dict[str, Any]:
        """What the action before this page wants shown, and nothing else does: a new token, the result of a test."""
        try:
            found = msgspec.json.decode(base64.urlsafe_b64decode(self.http.cookies.get(SHOW_ONCE, "")))
        except (ValueError, msgspec.DecodeError):
            return {}
        return found if isinstance(found, dict) and found.pop("path", "") == self.path else {}

    async def watch(
        self, *, jobs: Iterable[UUID] = (), policies: Iterable[UUID] = (), projects: Iterable[str] = ()
    ) -> str:
        """What the live stream watches for a detail page; called before its data is read, so that no change is missed."""
        watched = Watched(frozenset(jobs), frozenset(policies), frozenset(projects))
        seen = watched.version(await self.opilio.figures.marks(watched))
        names = {"jobs": watched.jobs, "policies": watched.policies, "projects": watched.projects}
        return urlencode(
            {name: ",".join(map(str, ids)) for name, ids in names.items() if ids} | {"seen": seen}
        )

    async def audit(self, action: str, subject: str, details: Any = None) -> None:
        await audit.record(self.opilio.database, self.actor, action, subject, details)


@dataclass(frozen=True, slots=True)
class Page:
    """What a view returns: a template with its values, and the same as data; without a template, data alone."""

    template: str | None
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    data: Any = None
    rows: Sequence[Any] | None = None
    charts: bool = False
    frames: bool = False
    watch: str = ""
    status: int = 200
    commands: Any = None


@dataclass(frozen=True, slots=True)
class Found:
    """The rows that a list shows, and how it goes on: behind a cursor, or on another numbered page."""

    items: Sequence[Any]
    next_cursor: str | None = None
    more: bool = False

    async def total(self, request: PageRequest, count: Callable[[], Awaitable[int]]) -> int:
        """How many rows the filter has: those on the first page if there is no other, or else they are counted."""
        is_first = request.query("cursor") is None and request.page_number() == 1
        if is_first and self.next_cursor is None and not self.more:
            return len(self.items)
        return await count()


View = Callable[[PageRequest], Awaitable[Page | Response[Any]]]


@dataclass(slots=True)
class Section:
    """The pages and actions of one part of the dashboard."""

    routes: list[HTTPRouteHandler] = field(default_factory=list)

    def page(self, path: str, *, need: str = "read", as_data: bool = True) -> Callable[[View], View]:
        """GET; a path that does not end with a parameter also gets `.json` and `.csv`."""

        def register(view: View) -> View:
            paths = [path]
            if as_data and not path.endswith("}") and path != "/":
                paths += [f"{path}.json", f"{path}.csv"]
            self._add(paths, "GET", need, view)
            return view

        return register

    def action(
        self, path: str, *, need: str = "write", max_bytes: int = _FORM_BYTES
    ) -> Callable[[View], View]:
        """POST of a form with the session's CSRF token."""

        def register(view: View) -> View:
            self._add([path], "POST", need, view, max_bytes)
            return view

        return register

    def _add(self, paths: list[str], method: Any, need: str, view: View, max_bytes: int = 0) -> None:
        async def handle(request: AnyRequest) -> Response[Any]:
            began = time.perf_counter()
            response = await _respond(request, need, view, max_bytes)
            spent = (time.perf_counter() - began) * 1000
            response.headers["server-timing"] = f"app;dur={spent:.1f}"
            return response

        self.routes.append(
            route(paths, http_method=[method], status_code=200, request_max_body_size=None)(handle)
        )


async def _respond(http: AnyRequest, need: str, view: View, max_bytes: int) -> Response[Any]:
    locale = _locale(http)
    data_format = split_format(http.url.path)[1]
    request: PageRequest | None = None
    try:
        operator = await current_operator(http)
        if operator is None:
            return _to_login(http, data_format)
        request = PageRequest(http.app.state.opilio, http, operator, locale)
        if http.method == "POST":
            request.form = await read_form(http, operator, max_bytes)
        operator.must_have(need)
        result = await view(request)
    except Refused as refusal:
        if data_format or request is None:
            return refuse(refusal)
        return _show_refusal(request, refusal)
    except Exception as error:
        if not does_not_answer(error) or data_format:
            raise
        return _show_unavailable(locale, error)
    if isinstance(result, Response):
        return result
    if data_format or result.template is None:
        return as_data(result.data, result.rows, data_format or "json")
    return _html(request, result)


def _html(request: PageRequest, page: Page) -> Response[Any]:
    flash = unquote(request.http.cookies.get(FLASH, ""))
    assert page.template is not None
    response = render(page.template, request, page, flash=flash)
    for name in (FLASH, SHOW_ONCE):
        if name in request.http.cookies:
            response.delete_cookie(name)
    return response


def _to_login(http: AnyRequest, data_format: str) -> Response[Any]:
    if data_format or http.method != "GET" or http.headers.get("hx-request"):
        return refuse(Refused("unauthorized", "log in first"), {"hx-redirect": "/login"})
    wanted = http.url.path + (f"?{http.url.query}" if http.url.query else "")
    return Redirect(with_query("/login", {"next": "" if wanted == "/" else wanted}), status_code=303)


def _show_refusal(request: PageRequest, refusal: Refused) -> Response[Any]:
    """A refused form returns to the page that it came from, with the reason on top."""
    back = request.field("back")
    if request.http.method == "POST" and is_local(back) and not request.http.headers.get("hx-request"):
        return redirect(str(back), f"!{request.locale.refusal(refusal)}")
    status = STATUS_OF.get(refusal.code, 400)
    title = request.locale.gettext("Not possible")
    return _html(request, Page("refused.html", title, {"refusal": refusal}, status=status))


def _show_unavailable(locale: Locale, error: Exception) -> Response[Any]:
    reason = str(error) or type(error).__name__
    response = render_plain("unavailable.html", locale, status=503, reason=reason)
    response.headers["retry-after"] = "2"
    return response


def wants_html(request: AnyRequest) -> bool:
    """A person in front of a browser, not a program."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")


def show_error(request: AnyRequest, refusal: Refused) -> Response[Any]:
    """An error outside of any page: one that does not exist, or one that crashed."""
    locale = _locale(request)
    status = STATUS_OF.get(refusal.code, 400)
    message = locale.refusal(refusal)
    return render_plain("error.html", locale, status=status, code=refusal.code, message=message)


def _locale(request: AnyRequest) -> Locale:
    chosen = request.cookies.get("opilio_lang")
    return Locale(choose_language(chosen, request.headers.get("accept-language", "")))


def redirect(path: str, message: str = "", show_once: Mapping[str, Any] | None = None) -> Response[Any]:
    """On to another page, which shows the message (`!` at its start marks an error) and what is shown only once.

    After a redirect the page can be reloaded without sending the form again.
    """
    response: Redirect = Redirect(path, status_code=303)
    if message:
        response.cookies.append(_short_cookie(FLASH, quote(message[:800])))
    if show_once:
        content = msgspec.json.encode({"path": path.partition("?")[0].partition("#")[0], **show_once})
        response.cookies.append(_short_cookie(SHOW_ONCE, base64.urlsafe_b64encode(content).decode()))
    return response


def _short_cookie(name: str, value: str) -> Cookie:
    return Cookie(key=name, value=value, max_age=60, httponly=True, samesite="strict", path="/")
