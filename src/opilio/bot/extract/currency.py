"""Maps a sign, word or code to its ISO currency; ambiguous signs are resolved by region, never guessed."""

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
    """Longer signs first; a sign made of letters must not touch another letter, but may touch a digit."""
    return "|".join(
        rf"(?<![^\W\d_]){re.escape(sign)}(?![^\W\d_])" if any(map(str.isalpha, sign)) else re.escape(sign)
        for sign in sorted(signs, key=len, reverse=True)
    )


# Words such as `ft` and `tl` have other meanings too: a sign or code anywhere in the text is preferred.
_WORDS = [sign for sign in _SIGNS if sign.isascii() and "$" not in sign]
_CLEAR = re.compile(
    _alternatives([sign for sign in _SIGNS if sign not in _WORDS] + ["$", "¥"])
    + "|(?i:\\b(?:vnd|usd|eur|gbp)(?![^\\W\\d_]))"
)
_CODE = re.compile(rf"(?<![^\W\d_])(?:{'|'.join(_CODES)})(?![^\W\d_])")
_WORD = re.compile(_alternatives([*_WORDS, "kr"]))

# To find the number next to a sign: without and with the words that have other meanings.
CLEAR_SIGN = f"(?:(?i:{_CLEAR.pattern})|{_CODE.pattern})"
ANY_SIGN = f"(?:(?i:{_alternatives([*_SIGNS, *_BY_REGION, 'vnd', 'usd', 'eur', 'gbp'])})|{_CODE.pattern})"


def currency_in(text: str, regions: Sequence[str] = ()) -> str | None:
    """The first unambiguous currency in the text."""
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
    """Reads a currency field such as `usd`, `VND` or `₫`; None when it holds something else."""
    if text is None:
        return None
    text = text.strip()
    if re.fullmatch(r"[A-Za-z]{3}", text):
        return text.upper()
    return currency_in(text, regions)
