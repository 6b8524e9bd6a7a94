"""Reads stock status from schema.org terms and shop text. No I/O."""

import re

_TERMS = {
    "instock": True,
    "instoreonly": True,
    "onlineonly": True,
    "limitedavailability": True,
    "madetoorder": True,
    "outofstock": False,
    "soldout": False,
    "discontinued": False,
    "backorder": False,
    "preorder": False,
    "presale": False,
    "reserved": False,
    # OpenGraph's product:availability
    "oos": False,
    "pending": False,
    "availablefororder": True,
}
# Checked first: "not in stock" and "hết hàng" must not match "in stock" and "hàng".
_NO = re.compile(
    r"out[ -]of[ -]stock|sold[ -]?out|not (?:in stock|available)|unavailable|discontinued|no longer|pre-?order|"
    r"back-?order|hết hàng|tạm hết|ngừng kinh doanh|ngừng bán|không còn|sắp về|chưa có hàng|"
    r"ausverkauft|nicht (?:auf lager|verfügbar|lieferbar)|épuisé|rupture|indisponible|agotado|sin existencias|"
    r"esgotado|niedostępny|slutsåld|нет в наличии|品切れ|在庫なし|売り切れ|缺货|품절",
    re.IGNORECASE,
)
_YES = re.compile(
    r"in stock|available|add to (?:cart|basket|bag)|buy now|còn hàng|có hàng|sẵn hàng|mua ngay|thêm vào giỏ|"
    r"auf lager|lieferbar|verfügbar|en stock|disponible|disponível|dostępny|i lager|в наличии|"
    r"在庫あり|有货|재고 있음|\b\d+ (?:left|items? left|pieces?)\b|chỉ còn \d+",
    re.IGNORECASE,
)


def parse_availability(value: object) -> bool | None:
    """True, False, or None when unknown."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return value > 0
    if not isinstance(value, str):
        return None
    term = re.sub(r"[^a-z]", "", value.strip().rstrip("/").rsplit("/", 1)[-1].lower())
    if term in _TERMS:
        return _TERMS[term]
    text = " ".join(value.split())
    if _NO.search(text):
        return False
    if _YES.search(text):
        return True
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(text.lower())
