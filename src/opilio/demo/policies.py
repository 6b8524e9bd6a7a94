"""The policies that have the demo shop crawled. No I/O."""

from collections.abc import Iterator
from typing import Any

from opilio.demo.catalogue import PRODUCTS, Product, product
from opilio.demo.shop import path_of

DEMO_LABELS = {"demo": "true"}

_PLAIN_RULES = {"price": ".price", "title": "h1", "in_stock": ".stock"}
_RULES: dict[str, dict[str, Any]] = {
    "plain": _PLAIN_RULES,
    "javascript": _PLAIN_RULES,
    "state": {
        "price": {"json": "$.product.cents", "css": "#state", "transform": [{"multiply": 0.01}]},
        "currency": {"value": "VND"},
        "title": {"json": "$.product.title", "css": "#state"},
        "in_stock": {"json": "$.product.available", "css": "#state"},
    },
}


def demo_policies(address: str, busy_address: str | None = None) -> Iterator[dict[str, Any]]:
    """One policy a product, ready for import; labelled, so that one command can remove them."""
    # The pages with problems come first, so that a list of the newest begins with those that work.
    for number in range(PRODUCTS, 0, -1):
        item = product(number)
        assert item is not None
        host = (busy_address or address) if item.mood == "busy" else address
        yield _policy(item, host + path_of(item))


def _policy(item: Product, url: str) -> dict[str, Any]:
    policy: dict[str, Any] = {
        "url": url,
        # Two to eleven minutes: prices move while one watches, and the pages do not all come at once.
        "frequency_hours": round((2 + item.number % 10) / 60, 4),
        "priority": 20 + item.number % 7 * 10,
        "retry_backoff_minutes": 0.2,
        "labels": {**DEMO_LABELS, "layout": item.layout},
        "crawl_config": _crawl_config(item),
    }
    if item.layout in _RULES:
        policy["rule_set"] = _RULES[item.layout]
    if item.mood == "broken":
        policy["max_retries"] = 2
    if item.mood == "glacial":
        # Its lock runs out before the page comes, however often it is extended: a job that expires.
        policy |= {"timeout_minutes": 0.05, "max_retries": 0, "priority": 100}
    return policy


def _crawl_config(item: Product) -> dict[str, Any]:
    if item.layout == "javascript":
        return {"js_required": True, "wait_for": ".price"}
    return {"timeout_hint": 90} if item.mood == "glacial" else {}
