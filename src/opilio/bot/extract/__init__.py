"""Extracts price, currency, title and availability from a page, by rules or from its structured data. No I/O."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from opilio.bot.errors import CrawlError
from opilio.bot.extract.availability import parse_availability
from opilio.bot.extract.currency import as_code
from opilio.bot.extract.document import MAX_BYTES, Document
from opilio.bot.extract.money import Money, parse_money
from opilio.bot.extract.rules import RuleSet, compile_rules
from opilio.bot.extract.structured import Found, sources
from opilio.bot.result import Result
from opilio.contracts.codes import ErrorCode

__all__ = ["MAX_BYTES", "Document", "Money", "compile_rules", "extract", "parse_availability", "parse_money"]


def extract(body: bytes, url: str = "", content_type: str | None = None, rule_set: Any = None) -> Result:
    """Returns the extracted result; raises a `CrawlError` with a code when there is no price and no data."""
    rules = compile_rules(rule_set)
    document = Document(body, url, content_type)
    fields, data = rules.find(document)
    found = _by_rules(fields, document)
    if rules.auto:
        found = _completed(found, document)
    _check(found, data, rules)
    return Result(
        price=found.price if found.currency else None,
        currency=found.currency if found.price is not None else None,
        title=found.title,
        in_stock=found.in_stock,
        data={**_extras(found), **_as_json(data)} or None,
        html_hash=document.content_hash,
    )


def _by_rules(fields: dict[str, Any], document: Document) -> Found:
    currency = as_code(str(fields["currency"]), document.regions) if "currency" in fields else None
    price = None
    if "price" in fields:
        money = _money(fields["price"], currency, document)
        price, currency = money.amount, currency or money.currency
    return Found(
        "rules",
        price=price,
        currency=currency,
        title=" ".join(str(fields["title"]).split()) if "title" in fields else None,
        in_stock=parse_availability(fields.get("in_stock")),
    )


def _money(value: Any, currency: str | None, document: Document) -> Money:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return Money(Decimal(str(value)), currency)
    money = parse_money(str(value), currency, document.regions)
    if money is None:
        raise CrawlError(
            ErrorCode.PARSE_ERROR, f"rule_set: price found {str(value)[:80]!r}, which is not a price"
        )
    return money


def _completed(found: Found, document: Document) -> Found:
    """Fills fields that no rule found from structured data; a price and its currency come from the same source."""
    for source in sources(document):
        if found.price is None and source.price is not None:
            found = replace(
                found, price=source.price, currency=found.currency or source.currency, source=source.source
            )
        elif found.price is not None and found.currency is None:
            found = replace(found, currency=source.currency)
        found = replace(
            found,
            title=found.title or source.title,
            in_stock=source.in_stock if found.in_stock is None else found.in_stock,
            sku=found.sku or source.sku,
            brand=found.brand or source.brand,
        )
    return found if found.title else replace(found, title=_visible_title(document))


def _visible_title(document: Document) -> str | None:
    for path in ("string(//h1)", "string(//title)"):
        text = " ".join((document.tree.xpath(path).get() or "").split())
        if text:
            return text
    return None


def _check(found: Found, data: dict[str, Any], rules: RuleSet) -> None:
    if data or (found.price is not None and found.currency):
        return
    if found.price is not None:
        raise CrawlError(
            ErrorCode.PARSE_ERROR,
            f"the price {found.price} has no clear currency; set it in the rule_set: "
            '{"currency": {"value": "USD"}}',
        )
    where = "by the rule_set" if rules.fields else "in JSON-LD, microdata or OpenGraph"
    raise CrawlError(ErrorCode.PARSE_ERROR, f"no price was found {where}")


def _extras(found: Found) -> dict[str, Any]:
    extras = {
        "source": found.source if found.price is not None else None,
        "sku": found.sku,
        "brand": found.brand,
    }
    return {name: value for name, value in extras.items() if value is not None}


def _as_json(value: Any) -> Any:
    """Converts decimals to strings, which are exact in JSON."""
    if isinstance(value, dict):
        return {key: _as_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_as_json(part) for part in value]
    return str(value) if isinstance(value, Decimal) else value
