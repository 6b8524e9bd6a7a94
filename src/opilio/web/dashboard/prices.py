"""Price changes: the biggest and newest moves of all products, and products compared in one chart."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from litestar import Response
from litestar.response import Stream

from opilio.errors import Invalid
from opilio.insights.export import FORMATS, PRICE_COLUMNS
from opilio.insights.prices import BOUND, MAX_COMPARED, PriceFilter
from opilio.web.dashboard.forms import uuid_of
from opilio.web.dashboard.page import MAX_PAGE, Page, PageRequest, Section

PRICES = Section()
SPANS = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}
SORTS = ("size", "newest", "change", "price", "product")
_SIZE = 50


def price_filter(request: PageRequest) -> PriceFilter:
    key, _, value = (request.query("label") or "").partition("=")
    direction = request.query("direction")
    return PriceFilter(
        host=(request.query("host") or "").lower() or None,
        q=request.query("q"),
        label_key=key or None,
        label_value=value if key else None,
        least=_percent(request.query("least")),
        direction=direction if direction in ("up", "down") else None,
    )


def _percent(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return abs(float(text)) / 100
    except ValueError:
        raise Invalid("least", "must be a number") from None


@PRICES.page("/prices")
async def price_changes(request: PageRequest) -> Page:
    span, (sort, reverse) = _span(request), request.sort(SORTS)
    now = await request.app.live.now()
    since = now - SPANS[span]
    number = request.page_number()
    prices = request.opilio.prices
    chosen = price_filter(request)
    rows, counts = await asyncio.gather(
        prices.changes(chosen, since=since, sort=sort, reverse=reverse, page=number, size=_SIZE),
        prices.count(since),
    )
    shown = rows[:_SIZE]
    values = {
        "rows": shown,
        "more": len(rows) > _SIZE and number < MAX_PAGE,
        "number": number,
        "span": span,
        "spans": list(SPANS),
        "sort": f"{'-' if reverse else ''}{sort}",
        "counts": counts,
        "bound": BOUND,
        "trends": await prices.trends(list({row["id"] for row in shown}), now),
        "max_compared": MAX_COMPARED,
    }
    return Page("prices.html", request.locale.gettext("Price changes"), values, rows=shown)


@PRICES.page("/prices/export", as_data=False)
async def export_changes(request: PageRequest) -> Response[Any]:
    """All changes that the filter chooses, as CSV or Parquet."""
    kind = FORMATS.get(request.query("format") or "csv")
    if kind is None:
        raise Invalid("format", "must be one of %(names)s", names=", ".join(FORMATS))
    kind.check()
    span, (sort, reverse) = _span(request), request.sort(SORTS)
    since = await request.app.live.now() - SPANS[span]
    changes = request.opilio.prices.all_changes(
        price_filter(request), since=since, sort=sort, reverse=reverse
    )
    name = f'attachment; filename="price-changes-{span}.{kind.name}"'
    headers = {"content-disposition": name, "cache-control": "no-store"}
    return Stream(kind.write(changes, PRICE_COLUMNS), media_type=kind.media_type, headers=headers)


def _span(request: PageRequest) -> str:
    wanted = request.query("span") or ""
    return wanted if wanted in SPANS else "7d"


def _first_and_last(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each product with its first and its newest price; its rows are in the order of their times."""
    products: dict[UUID, dict[str, Any]] = {}
    for row in rows:
        product = products.setdefault(row["id"], {**row, "first": row["price"]})
        product["price"] = row["price"]
    for product in products.values():
        first, price = float(product["first"]), float(product["price"])
        product["change"] = price / first - 1 if first else None
    return list(products.values())


@PRICES.page("/prices/compare")
async def compare_prices(request: PageRequest) -> Page:
    ids = [uuid_of(text) for text in request.http.query_params.getall("policy", [])][:MAX_COMPARED]
    rows = await request.opilio.prices.histories(ids)
    values = {"products": _first_and_last(rows), "query": request.http.url.query}
    return Page("compare.html", request.locale.gettext("Compare prices"), values, rows=rows, charts=True)
