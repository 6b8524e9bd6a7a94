"""The pages of the demo shop: a path and a time in, a page out. No I/O."""

import html
import json
import re
from dataclasses import dataclass, field
from decimal import Decimal

from opilio.demo.catalogue import PRODUCTS, Product, Quote, product, quote

_HTML = {"content-type": "text/html; charset=utf-8"}
_JSON = {"content-type": "application/json"}
_SLOW_SECONDS = 4.0
_GLACIAL_SECONDS = 60.0
_BUSY_RETRY_AFTER = 20


@dataclass(frozen=True, slots=True)
class ShopPage:
    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0


def page(path: str, at: float) -> ShopPage:
    """What the shop answers at a time (seconds since the epoch)."""
    if path == "/":
        return ShopPage(200, _index(), _HTML)
    if path == "/robots.txt":
        return ShopPage(200, "User-agent: *\nDisallow: /private/\n", {"content-type": "text/plain"})
    if match := re.fullmatch(r"/(?:private/)?products/(\d{1,6})", path):
        item = product(int(match[1]))
        return _product_page(item, at) if item else ShopPage(404, "No such product.")
    if match := re.fullmatch(r"/api/products/(\d{1,6})", path):
        item = product(int(match[1]))
        return ShopPage(200, _api(item, quote(item, at)), _JSON) if item else ShopPage(404, "{}", _JSON)
    return ShopPage(404, "No such page.")


def path_of(item: Product) -> str:
    return f"/private/products/{item.number}" if item.mood == "forbidden" else f"/products/{item.number}"


def _product_page(item: Product, at: float) -> ShopPage:
    """The page, unless the product is in a mood."""
    # The busy ones answer now and then, the broken ones are repaired for a while: retries are worth it.
    turn = int(at // 30) + item.number
    if item.mood == "missing":
        return ShopPage(404, "This product is not here.")
    if item.mood == "removed":
        return ShopPage(410, "This product has been removed.")
    if item.mood == "busy" and turn % 3:
        return ShopPage(429, "Too many requests.", {"retry-after": str(_BUSY_RETRY_AFTER)})
    if item.mood == "broken" and turn % 4:
        return ShopPage(500, "Something went wrong.")
    delay = {"slow": _SLOW_SECONDS, "glacial": _GLACIAL_SECONDS}.get(item.mood, 0.0)
    return ShopPage(200, _LAYOUTS[item.layout](item, quote(item, at)), _HTML, delay)


def money(price: Decimal, currency: str) -> str:
    """As people in that country write it."""
    grouped = f"{price:,}"
    if currency in ("VND", "EUR"):
        grouped = grouped.translate(str.maketrans(",.", ".,"))
    return {"VND": f"{grouped} ₫", "EUR": f"{grouped} €", "USD": f"${grouped}", "JPY": f"¥{grouped}"}[
        currency
    ]


def _document(item: Product, head: str, main: str) -> str:
    lang = {"VND": "vi", "EUR": "de-DE", "USD": "en-US", "JPY": "ja-JP"}[item.currency]
    title = html.escape(item.title)
    return (
        f'<!doctype html>\n<html lang="{lang}">\n<head>\n<meta charset="utf-8">\n<title>{title} · Chợ Opilio</title>\n'
        f'{head}\n</head>\n<body>\n<header><a href="/">Chợ Opilio</a></header>\n<main>\n{main}\n</main>\n'
        f"<footer>A demo shop. Nothing here is for sale.</footer>\n</body>\n</html>\n"
    )


def _json_ld(item: Product, now: Quote) -> str:
    node = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": item.title,
        "sku": f"OP-{item.number:04}",
        "offers": {
            "@type": "Offer",
            "price": str(now.price),
            "priceCurrency": item.currency,
            "availability": f"https://schema.org/{'InStock' if now.in_stock else 'OutOfStock'}",
        },
    }
    # Every fifth shop page wraps its data in a graph, as many real ones do.
    data = (
        {"@context": "https://schema.org", "@graph": [{"@type": "WebPage"}, node]}
        if item.number % 5 == 0
        else node
    )
    block = f'<script type="application/ld+json">{json.dumps(data, ensure_ascii=False)}</script>'
    return _document(item, block, _visible(item, now))


def _microdata(item: Product, now: Quote) -> str:
    state = "InStock" if now.in_stock else "OutOfStock"
    return _document(
        item,
        "",
        f'<div itemscope itemtype="https://schema.org/Product"><h1 itemprop="name">{html.escape(item.title)}</h1>\n'
        f'<div itemprop="offers" itemscope itemtype="https://schema.org/Offer">'
        f'<span itemprop="price" content="{now.price}">{money(now.price, item.currency)}</span>'
        f'<meta itemprop="priceCurrency" content="{item.currency}">'
        f'<link itemprop="availability" href="https://schema.org/{state}"></div></div>',
    )


def _open_graph(item: Product, now: Quote) -> str:
    tags = {
        "og:type": "product",
        "og:title": item.title,
        "product:price:amount": str(now.price),
        "product:price:currency": item.currency,
        "product:availability": "in stock" if now.in_stock else "out of stock",
    }
    head = "\n".join(
        f'<meta property="{name}" content="{html.escape(value)}">' for name, value in tags.items()
    )
    return _document(item, head, _visible(item, now))


def _plain(item: Product, now: Quote) -> str:
    return _document(item, "", _visible(item, now))


def _state(item: Product, now: Quote) -> str:
    """The values in a script's JSON, the price in hundredths, as many shop systems keep it."""
    data = {"product": {"title": item.title, "cents": int(now.price * 100), "available": now.in_stock}}
    block = f'<script type="application/json" id="state">{json.dumps(data, ensure_ascii=False)}</script>'
    return _document(item, block, f"<h1>{html.escape(item.title)}</h1>")


def _javascript(item: Product, _: Quote) -> str:
    """Empty until its script has fetched the values."""
    return _document(
        item,
        "",
        '<div id="product">Loading…</div>\n<script>\n'
        f"fetch('/api/products/{item.number}').then(answer => answer.json()).then(it => {{\n"
        "  document.getElementById('product').innerHTML = '<h1>' + it.title + '</h1>' +\n"
        "    '<p class=\"price\">' + it.price_text + '</p><p class=\"stock\">' + it.stock_text + '</p>'\n"
        "})\n</script>",
    )


def _visible(item: Product, now: Quote) -> str:
    was = money(now.price * 5 / 4, item.currency) if item.currency == "VND" else ""
    return (
        f'<h1>{html.escape(item.title)}</h1>\n<p><s class="was">{was}</s> '
        f'<b class="price">{money(now.price, item.currency)}</b></p>\n<p class="stock">{_stock_text(item, now)}</p>'
    )


def _stock_text(item: Product, now: Quote) -> str:
    if item.currency == "VND":
        return "Còn hàng" if now.in_stock else "Hết hàng"
    return "In stock" if now.in_stock else "Out of stock"


def _api(item: Product, now: Quote) -> str:
    return json.dumps(
        {
            "title": item.title,
            "price_text": money(now.price, item.currency),
            "stock_text": _stock_text(item, now),
        },
        ensure_ascii=False,
    )


def _index() -> str:
    items = [item for number in range(1, PRODUCTS + 1) if (item := product(number))]
    links = "\n".join(f'<li><a href="{path_of(item)}">{html.escape(item.title)}</a></li>' for item in items)
    return f'<!doctype html>\n<html lang="vi"><head><meta charset="utf-8"><title>Chợ Opilio</title></head>\n<body><h1>Chợ Opilio</h1>\n<ul>\n{links}\n</ul></body></html>\n'


_LAYOUTS = {
    "json-ld": _json_ld,
    "microdata": _microdata,
    "opengraph": _open_graph,
    "plain": _plain,
    "state": _state,
    "javascript": _javascript,
}
