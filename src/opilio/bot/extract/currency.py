"""Which currency a sign, a word or a code means; what could be several is settled by the region, never guessed."""

import re
from collections.abc import Sequence

_CODES = [
    "AED",
    "ARS",
    "AUD",
    "BDT",
    "BGN",
    "BHD",
    "BRL",
    "CAD",
    "CHF",
    "CLP",
    "CNY",
    "COP",
    "CZK",
    "DKK",
    "EGP",
    "EUR",
    "GBP",
    "HKD",
    "HUF",
    "IDR",
    "ILS",
    "INR",
    "IQD",
    "ISK",
    "JOD",
    "JPY",
    "KES",
    "KHR",
    "KRW",
    "KWD",
    "KZT",
    "LAK",
    "LKR",
    "LYD",
    "MAD",
    "MMK",
    "MXN",
    "MYR",
    "NGN",
    "NOK",
    "NZD",
    "OMR",
    "PEN",
    "PHP",
    "PKR",
    "PLN",
    "QAR",
    "RON",
    "RSD",
    "RUB",
    "SAR",
    "SEK",
    "SGD",
    "THB",
    "TND",
    "TRY",
    "TWD",
    "UAH",
    "USD",
    "UYU",
    "VND",
    "ZAR",
]
# In lower case.
_SIGNS = {
    "us$": "USD",
    "au$": "AUD",
    "a$": "AUD",
    "ca$": "CAD",
    "c$": "CAD",
    "nz$": "NZD",
    "hk$": "HKD",
    "nt$": "TWD",
    "mx$": "MXN",
    "s$": "SGD",
    "r$": "BRL",
    "vnđ": "VND",
    "đồng": "VND",
    "₫": "VND",
    "đ": "VND",
    "€": "EUR",
    "euro": "EUR",
    "£": "GBP",
    "円": "JPY",
    "元": "CNY",
    "rmb": "CNY",
    "₩": "KRW",
    "원": "KRW",
    "₹": "INR",
    "₽": "RUB",
    "руб": "RUB",  # noqa: RUF001  Cyrillic on purpose
    "₴": "UAH",
    "грн": "UAH",
    "₺": "TRY",
    "tl": "TRY",
    "zł": "PLN",
    "kč": "CZK",
    "ft": "HUF",
    "lei": "RON",
    "฿": "THB",
    "บาท": "THB",
    "₱": "PHP",
    "₪": "ILS",
    "₸": "KZT",
    "rp": "IDR",
    "rm": "MYR",
    "fr.": "CHF",
    "sfr": "CHF",
}
_BY_REGION = {
    "$": {
        "US": "USD",
        "AU": "AUD",
        "CA": "CAD",
        "NZ": "NZD",
        "SG": "SGD",
        "HK": "HKD",
        "TW": "TWD",
        "MX": "MXN",
        "AR": "ARS",
        "CL": "CLP",
        "CO": "COP",
    },
    "kr": {"SE": "SEK", "NO": "NOK", "DK": "DKK", "IS": "ISK"},
    "¥": {"JP": "JPY", "CN": "CNY"},
}


def _alternatives(signs: list[str]) -> str:
    """Longer signs first; one made of letters must touch no other letter, a digit it may."""
    return "|".join(
        rf"(?<![^\W\d_]){re.escape(sign)}(?![^\W\d_])" if any(map(str.isalpha, sign)) else re.escape(sign)
        for sign in sorted(signs, key=len, reverse=True)
    )


# Words like `ft` and `tl` mean other things too: a real sign or code beats them wherever it stands.
_WORDS = [sign for sign in _SIGNS if sign.isascii() and "$" not in sign]
_CLEAR = re.compile(
    _alternatives([sign for sign in _SIGNS if sign not in _WORDS] + ["$", "¥"])
    + "|(?i:\\b(?:vnd|usd|eur|gbp)(?![^\\W\\d_]))"
)
_CODE = re.compile(rf"(?<![^\W\d_])(?:{'|'.join(_CODES)})(?![^\W\d_])")
_WORD = re.compile(_alternatives([*_WORDS, "kr"]))

# Any of them, to find the number that stands beside one.
ANY_SIGN = f"(?:(?i:{_alternatives([*_SIGNS, *_BY_REGION, 'vnd', 'usd', 'eur', 'gbp'])})|{_CODE.pattern})"


def currency_in(text: str, regions: Sequence[str] = ()) -> str | None:
    """The first currency that the text names beyond doubt."""
    if match := _CODE.search(text):
        return match[0]
    match = _CLEAR.search(text.lower()) or _WORD.search(text.lower())
    if match is None:
        return None
    sign = match[0]
    if sign in _BY_REGION:
        return next((_BY_REGION[sign][region] for region in regions if region in _BY_REGION[sign]), None)
    return _SIGNS.get(sign, sign.upper())


def as_code(text: str | None, regions: Sequence[str] = ()) -> str | None:
    """A field that is meant to hold a currency: `usd`, `VND`, `₫`; None when it holds something else."""
    if text is None:
        return None
    text = text.strip()
    if re.fullmatch(r"[A-Za-z]{3}", text):
        return text.upper()
    return currency_in(text, regions)
