"""Reads a page's structured data: JSON-LD, microdata, OpenGraph. No I/O."""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import jstyleson
from extruct.w3cmicrodata import MicrodataExtractor
from lxml import etree

from opilio.bot.extract.availability import parse_availability
from opilio.bot.extract.currency import as_code
from opilio.bot.extract.document import Document, parsed_json
from opilio.bot.extract.offers import best_offer
from opilio.bot.extract.shapes import first, last_word, listed, same_page, text_of

log = logging.getLogger("opilio.bot.extract")

_PRODUCT_TYPES = {
    "product",
    "productgroup",
    "productmodel",
    "individualproduct",
    "someproducts",
    "vehicle",
    "car",
    "book",
    "mobileapplication",
    "softwareapplication",
}
# Values under these keys are other products.
_OTHER_PRODUCTS = {
    "isrelatedto",
    "issimilarto",
    "isaccessoryorsparepartfor",
    "isconsumablefor",
    "itemlistelement",
    "review",
    "itemreviewed",
}
_MOST_NODES = 5000
_MOST_PRODUCTS = 50


@dataclass(frozen=True, slots=True)
class Found:
    """Fields found in one source; any may be missing."""

    source: str
    price: Decimal | None = None
    currency: str | None = None
    title: str | None = None
    in_stock: bool | None = None
    sku: str | None = None
    brand: str | None = None


def sources(document: Document) -> Iterator[Found]:
    """The page's sources, most trusted first."""
    for source, products in (("json-ld", json_ld(document)), ("microdata", microdata(document))):
        if (product := _main_product(products, document)) is not None:
            yield _of_product(source, product, document)
    yield open_graph(document)


class _Microdata(MicrodataExtractor):  # type: ignore[misc]
    """Builds the item ids once per page instead of once per product."""

    _numbers: dict[Any, int] | None = None

    def _build_itemids(self, document: Any) -> dict[Any, int]:
        if self._numbers is None:
            self._numbers = super()._build_itemids(document)
        return self._numbers


def json_ld(document: Document) -> list[dict[str, Any]]:
    """The nodes of all JSON-LD blocks as a flat list; a malformed block is skipped."""
    nodes: list[dict[str, Any]] = []
    for script in document.tree.xpath('//script[contains(@type, "ld+json")]/text()').getall():
        data = parsed_json(script)
        nodes += _nodes(data if data is not None else parsed_json(_repaired(script)))
    return nodes


def microdata(document: Document) -> list[dict[str, Any]]:
    """Products in microdata, in the shape of JSON-LD."""
    roots = document.tree.xpath('//*[@itemscope][contains(@itemtype, "schema.org/")]')[:_MOST_PRODUCTS]
    found: list[dict[str, Any]] = []
    extractor = _Microdata()
    for root in roots:
        if not _types({"@type": root.attrib["itemtype"]}) & _PRODUCT_TYPES:
            continue
        try:
            items = extractor.extract_items(root.root, document.url)
        except (etree.LxmlError, AttributeError, ValueError, TypeError, RecursionError) as error:
            log.info("the microdata of %s cannot be read: %s", document.url, error)
            continue
        found += [_as_json_ld(item) for item in items[:1]]
    return found


def open_graph(document: Document) -> Found:
    """Reads `og:` and `product:` meta tags anywhere on the page."""
    tags: dict[str, str] = {}
    for tag in document.tree.xpath("//meta[(@property or @name) and @content]")[:_MOST_NODES]:
        name = (tag.attrib.get("property") or tag.attrib.get("name", "")).strip().lower()
        tags.setdefault(name, tag.attrib["content"].strip())
    offer = {
        "price": tags.get("product:sale_price:amount")
        or tags.get("product:price:amount")
        or tags.get("og:price:amount"),
        "priceCurrency": tags.get("product:sale_price:currency")
        or tags.get("product:price:currency")
        or tags.get("og:price:currency"),
    }
    chosen = best_offer([offer], document.url, document.regions)
    return Found(
        "opengraph",
        price=chosen.price if chosen else None,
        currency=chosen.currency if chosen else as_code(offer["priceCurrency"]),
        title=text_of(tags.get("og:title") or tags.get("twitter:title")),
        in_stock=parse_availability(tags.get("product:availability") or tags.get("og:availability")),
        brand=text_of(tags.get("product:brand")),
    )


def _main_product(nodes: list[dict[str, Any]], document: Document) -> dict[str, Any] | None:
    """The page's product: the one with its URL, else the first with a price, else the first."""
    products = [node for node in nodes if _types(node) & _PRODUCT_TYPES][:_MOST_PRODUCTS]
    if not products:
        # Some shops publish the offer alone.
        products = [node for node in nodes if _types(node) & {"offer", "aggregateoffer"}][:1]
    return min(
        products,
        key=lambda node: (
            not same_page(first(node.get("url")) or node.get("@id"), document.url),
            best_offer(_offers(node), document.url, document.regions) is None,
        ),
        default=None,
    )


def _of_product(source: str, product: dict[str, Any], document: Document) -> Found:
    offer = best_offer(_offers(product), document.url, document.regions)
    brand = first(product.get("brand"))
    return Found(
        source,
        price=offer.price if offer else None,
        currency=offer.currency if offer else None,
        title=text_of(product.get("name")),
        in_stock=offer.in_stock if offer else None,
        sku=text_of(product.get("sku")),
        brand=text_of(brand.get("name") if isinstance(brand, dict) else brand),
    )


def _offers(product: dict[str, Any]) -> list[Any]:
    if _types(product) & {"offer", "aggregateoffer"}:
        return [product]
    offers = listed(product.get("offers") or product.get("Offers"))
    for variant in listed(product.get("hasVariant")):
        if isinstance(variant, dict):
            offers += [
                {"url": variant.get("url"), **offer}
                for offer in listed(variant.get("offers"))
                if isinstance(offer, dict)
            ]
    return offers


def _nodes(data: Any) -> list[dict[str, Any]]:
    """All objects of a JSON-LD document that may be the page's product, in document order."""
    found: list[dict[str, Any]] = []
    todo: list[Any] = [data]
    while todo and len(found) < _MOST_NODES:
        current = todo.pop(0)
        if isinstance(current, list):
            todo = current[:_MOST_NODES] + todo
        elif isinstance(current, dict):
            found.append(current)
            product = bool(_types(current) & _PRODUCT_TYPES)
            todo += [
                value
                for key, value in current.items()
                # Children of a product are part of it, not other candidates.
                if isinstance(value, (dict, list)) and not product and key.lower() not in _OTHER_PRODUCTS
            ]
    return found


def _types(node: dict[str, Any]) -> set[str]:
    names = listed(node.get("@type"))
    return {last_word(word) for name in names if isinstance(name, str) for word in name.split()}


def _as_json_ld(item: Any) -> Any:
    if isinstance(item, list):
        return [_as_json_ld(part) for part in item]
    if not isinstance(item, dict):
        return item
    properties = item.get("properties") or {}
    return {"@type": item.get("type", ""), **{key: _as_json_ld(value) for key, value in properties.items()}}


def _repaired(script: str) -> str:
    """Removes comments, CDATA, HTML comment marks and trailing commas from JSON."""
    script = re.sub(r"<!--|-->|//\s*<!\[CDATA\[|//\s*\]\]>|<!\[CDATA\[|\]\]>", "", script).strip().rstrip(";")
    try:
        text: str = jstyleson.dispose(script)
    except (ValueError, IndexError):
        return script
    return re.sub(r",(\s*[}\]])", r"\1", text)
