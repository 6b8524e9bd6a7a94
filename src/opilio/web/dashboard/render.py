"""Renders templates to HTML, with a content security policy that forbids foreign scripts."""

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import available_timezones

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from litestar import Response
from markupsafe import Markup

import opilio
from opilio.web.dashboard.i18n import LANGUAGES, Locale, translations
from opilio.web.documents import asset

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_encode = msgspec.json.Encoder(decimal_format="number").encode
THEMES = ("auto", "light", "dark")
STATES = ("pending", "locked", "done", "failed", "expired")


@lru_cache(maxsize=8)
def environment(language: str) -> Environment:
    locale = Locale(language)
    made = Environment(
        loader=PackageLoader("opilio.web"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        extensions=["jinja2.ext.i18n", "jinja2.ext.do"],
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.install_gettext_translations(translations(language), newstyle=True)  # type: ignore[attr-defined]
    made.globals["_"] = made.globals["gettext"] = _translate(language)
    made.policies["json.dumps_kwargs"] = {"sort_keys": False}
    made.filters |= {
        "number": locale.number,
        "short": locale.short,
        "percent": locale.percent,
        "span": locale.span,
        "every": locale.every,
        "exact": exact,
        "decimal": lambda number: Decimal(str(number)),
        "web_link": web_link,
        "iso": lambda moment: moment.isoformat() if moment else "",
    }
    made.globals |= {
        "locale": locale,
        "lang": language,
        "languages": LANGUAGES,
        "version": opilio.__version__,
        "states": STATES,
        "money": locale.money,
        "asset": asset,
    }
    return made


def _translate(language: str) -> Callable[..., Markup]:
    """As Jinja's own, but a text without values is looked up once: a list says the same words in each of its rows."""
    found = translations(language)

    @lru_cache(maxsize=4096)
    def plain(text: str) -> Markup:
        return Markup(found.gettext(text)) % {}  # noqa: S704 - texts of templates and catalogues are ours

    def gettext(text: str, /, **values: Any) -> Markup:
        return Markup(found.gettext(text)) % values if values else plain(text)  # noqa: S704

    return gettext


def render(template: str, request: Any, page: Any, *, flash: str = "") -> Response[Any]:
    html = (
        environment(request.locale.language)
        .get_template(template)
        .render(
            request=request,
            page=page,
            title=page.title,
            theme=theme_of(request.http),
            zone=zone_of(request.http),
            flash=flash,
            csrf=request.operator.csrf_token,
            **page.values,
        )
    )
    return _html(html, page.status, f"{_CSP}; frame-src 'self'" if page.frames else _CSP)


def render_plain(template: str, locale: Locale, *, status: int = 200, **values: Any) -> Response[Any]:
    """A page without an operator: login, and the error page while the database is away."""
    html = environment(locale.language).get_template(template).render(theme="auto", zone="", **values)
    return _html(html, status, _CSP)


def fragment(template: str, locale: Locale, **values: Any) -> str:
    return environment(locale.language).get_template(template).render(**values)


def _html(html: str, status: int, csp: str) -> Response[Any]:
    headers = {"content-security-policy": csp, "cache-control": "no-store"}
    return Response(html.encode(), status_code=status, media_type="text/html; charset=utf-8", headers=headers)


def theme_of(request: Any) -> str:
    chosen = request.cookies.get("opilio_theme", "auto")
    return chosen if chosen in THEMES else "auto"


@lru_cache(maxsize=1)
def time_zones() -> tuple[str, ...]:
    """Time zones to choose from, by the names of places."""
    places = (name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))
    return ("UTC", *sorted(places))


def zone_of(request: Any) -> str:
    """The time zone that the viewer chose; empty is that of the browser."""
    chosen = request.cookies.get("opilio_zone", "")
    return chosen if chosen in time_zones() else ""


def exact(value: Any) -> str:
    """JSON for reading, with every digit that was stored."""
    return msgspec.json.format(_encode(value), indent=2).decode()


def web_link(address: str | None) -> str:
    """A crawled URL if it is http or https; anything else, such as `javascript:`, is not linked."""
    try:
        parts = urlsplit(address or "")
        return str(address) if parts.scheme in ("http", "https") and parts.hostname else ""
    except ValueError:
        return ""
