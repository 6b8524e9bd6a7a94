"""Texts, numbers and times in the viewer's language."""

import io
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from importlib.resources import files
from typing import Any

from babel.core import UnknownLocaleError
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import (
    format_compact_decimal,
    format_currency,
    format_decimal,
    format_percent,
    get_group_symbol,
)
from babel.support import Translations

from opilio.errors import Invalid, Refused

LANGUAGES = {"en": "English", "vi": "Tiếng Việt"}
NOTHING = "\u2013"


@lru_cache(maxsize=8)
def translations(language: str) -> Translations:
    """The catalogue of a language, compiled when it is first asked for; English is what the source says."""
    source = files("opilio.web.dashboard") / "locale" / f"{language}.po"
    if not source.is_file():
        return Translations()
    compiled = io.BytesIO()
    with source.open("rb") as file:
        write_mo(compiled, read_po(file, locale=language))
    compiled.seek(0)
    return Translations(compiled)


def choose_language(wanted: str | None, accept: str) -> str:
    """The language that the viewer chose, else the first of the browser's that there is."""
    if wanted in LANGUAGES:
        return str(wanted)
    preferred = (part.partition(";")[0].strip()[:2].lower() for part in accept.split(","))
    return next((code for code in preferred if code in LANGUAGES), "en")


class Locale:
    """What templates and messages are made with."""

    def __init__(self, language: str) -> None:
        self.language = language
        catalogue = translations(language)
        self._one: Callable[[str], str] = catalogue.gettext
        self._group = get_group_symbol(language)
        self._many: Callable[[str, str, int], str] = catalogue.ngettext

    def gettext(self, text: str, **values: Any) -> str:
        found = self._one(text)
        return found % values if values else found

    def refusal(self, refusal: Refused) -> str:
        """The message of an error; a wrong field is named before it."""
        text = self.fill(refusal.template, refusal.params)
        return f"{refusal.field}: {text}" if isinstance(refusal, Invalid) else text

    def reason(self, reason: Any) -> str:
        """One answer to "why is it not running?"."""
        return self.fill(getattr(reason, "template", reason.message), getattr(reason, "params", {}))

    def fill(self, template: str, params: Mapping[str, Any]) -> str:
        """A template of another part, translated and filled in; one without parameters is taken literally."""
        found = self._one(template)
        if kind := params.get("kind"):
            params = {**params, "kind": self._one(kind)}
        return found % params if params else found

    def ngettext(self, one: str, many: str, n: int, **values: Any) -> str:
        return self._many(one, many, n) % {"n": self.number(n), **values}

    def number(self, value: float | Decimal | None, digits: int | None = None) -> str:
        if value is None:
            return NOTHING
        if isinstance(value, int) and digits is None:  # a table has hundreds of these
            return f"{value:,}".replace(",", self._group)
        pattern = None if digits is None else "#,##0" + ("." + "0" * digits if digits else "")
        return format_decimal(value, format=pattern, locale=self.language)

    def short(self, value: float | None) -> str:
        """12345 → 12K: for tiles; the exact number stands in its title."""
        if value is None:
            return NOTHING
        if value < 100_000:
            return self.number(value)
        return format_compact_decimal(value, locale=self.language, fraction_digits=1)

    def percent(self, share: float | None) -> str:
        return NOTHING if share is None else format_percent(share, format="#,##0.#%", locale=self.language)

    def money(self, price: Decimal | None, currency: str | None) -> str:
        if price is None:
            return ""
        if not currency:
            return self.number(price)
        try:
            return format_currency(price, currency.upper(), locale=self.language, decimal_quantization=False)
        except (ValueError, UnknownLocaleError):
            return f"{price} {currency}"

    def span(self, seconds: float | timedelta | None) -> str:
        """A length of time in its largest sensible unit: 40 s, 12 min, 2.5 h, 3 d."""
        if seconds is None:
            return NOTHING
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        if 0 < seconds < 0.1:
            return self.gettext("%(n)s ms", n=self.number(max(1, round(seconds * 1000))))
        if seconds < 10:
            return self.gettext("%(n)s s", n=self.number(round(seconds, 1)))
        if seconds < 100:
            return self.gettext("%(n)s s", n=self.number(round(seconds)))
        if seconds < 6000:
            return self.gettext("%(n)s min", n=self.number(round(seconds / 60)))
        if seconds < 48 * 3600:
            return self.gettext("%(n)s h", n=self.number(round(seconds / 3600, 1)))
        return self.gettext("%(n)s d", n=self.number(round(seconds / 86400, 1)))

    def since(self, moment: datetime, now: datetime | None = None) -> str:
        return self.span(((now or datetime.now(UTC)) - moment).total_seconds())

    def every(self, hours: float) -> str:
        return self.span(hours * 3600)
