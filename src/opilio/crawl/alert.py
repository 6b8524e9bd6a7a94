"""When a value alert fires: a pure rule over the last known values of a page and those just crawled.

`below` and `above` hold or do not hold: they fire when they begin to hold, and again after they stopped holding or
after the cool-down. `changed` and `changed_percent` have no other side: they fire at most once per cool-down.
`back_in_stock` fires whenever stock returns. Prices in different currencies are never compared.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from opilio.contracts.alerts import AlertCondition, AlertInput
from opilio.crawl.history import Values
from opilio.errors import Invalid

_LEVELS = ("below", "above")
_WITH_VALUE = (*_LEVELS, "changed_percent")
_CENT = Decimal("0.01")
_MOST_DIGITS = 20  # more than this cannot be rounded to two decimals in the default precision


class Alert(msgspec.Struct, frozen=True):
    """What to look for; `value` is a limit or a percentage."""

    id: UUID
    name: str
    field: str
    when: AlertCondition
    value: Decimal | None
    currency: str | None
    cooldown: timedelta


class AlertState(msgspec.Struct, frozen=True):
    """What an alert knows of one policy; `seen` is the last value of a data field."""

    fired_at: datetime | None = None
    holding: bool = False
    seen: Any = None


class CrawledPage(msgspec.Struct, frozen=True):
    """What a crawl found on a page, beside what was known of it."""

    policy_id: UUID
    url: str
    old: Values
    new: Values


class Firing(msgspec.Struct, frozen=True):
    old: Any
    new: Any
    percent: Decimal | None


def check(alert: AlertInput) -> None:
    """Refuses combinations that could never fire."""
    scope = [
        name for name in alert.scope.__struct_fields__ if getattr(alert.scope, name) is not msgspec.UNSET
    ]
    if len(scope) != 1:
        raise Invalid("scope", "needs exactly one of policy_id, host, labels, all")
    if alert.when == "back_in_stock" and alert.field != "in_stock":
        raise Invalid("when", "back_in_stock is for the field in_stock")
    if alert.when in _WITH_VALUE and alert.field in ("in_stock", "title"):
        raise Invalid("when", "%(when)s needs a number: use the field price or data.<path>", when=alert.when)
    if alert.value is None and alert.when in _WITH_VALUE:
        raise Invalid("value", "is required with %(when)s", when=alert.when)
    if alert.value is not None and alert.when not in _WITH_VALUE:
        raise Invalid("value", "has no meaning with %(when)s", when=alert.when)
    if alert.value is not None and not alert.value.is_finite():
        raise Invalid("value", "must be a number")
    if alert.when == "changed_percent" and alert.value is not None and alert.value <= 0:
        raise Invalid("value", "must be a percentage above 0")
    if alert.currency is not None and alert.field != "price":
        raise Invalid("currency", "has a meaning with the field price only")


def judge(
    alert: Alert, old: Values, new: Values, state: AlertState, now: datetime
) -> tuple[Firing | None, AlertState]:
    """Whether the alert fires for what a crawl found, and what it knows afterwards."""
    found = _reading(alert.field, new)
    if found is None or not _same_currency(alert, new.currency):
        return None, state
    before = _before(alert, old, new, state)
    seen = msgspec.structs.replace(state, seen=found if alert.field.startswith("data.") else None)
    if alert.when in _LEVELS:
        return _judge_level(alert, before, found, seen, now)
    # Stock that returns was out before: it was on the other side, so no cool-down applies.
    throttled = alert.when != "back_in_stock" and _cooling(alert, state, now)
    if throttled or not _happened(alert, before, found):
        return None, seen
    return _fire(before, found, seen, now)


def _judge_level(
    alert: Alert, before: Any, found: Any, state: AlertState, now: datetime
) -> tuple[Firing | None, AlertState]:
    holds = _beyond(alert, found)
    if not holds or (state.holding and _cooling(alert, state, now)):
        return None, msgspec.structs.replace(state, holding=holds)
    return _fire(before, found, state, now)


def _fire(before: Any, found: Any, state: AlertState, now: datetime) -> tuple[Firing, AlertState]:
    return (
        Firing(before, found, _percent(before, found)),
        msgspec.structs.replace(state, fired_at=now, holding=True),
    )


def _happened(alert: Alert, before: Any, found: Any) -> bool:
    if before is None:
        return False
    if alert.when == "back_in_stock":
        return before is False and found is True
    if alert.when == "changed_percent":
        percent = _percent(before, found)
        return percent is not None and alert.value is not None and abs(percent) >= alert.value
    return bool(_comparable(before) != _comparable(found))


def _beyond(alert: Alert, found: Any) -> bool:
    number = _number(found)
    if number is None or alert.value is None:
        return False
    return number < alert.value if alert.when == "below" else number > alert.value


def _cooling(alert: Alert, state: AlertState, now: datetime) -> bool:
    return state.fired_at is not None and now < state.fired_at + alert.cooldown


def _before(alert: Alert, old: Values, new: Values, state: AlertState) -> Any:
    """The last known value; a price in another currency is not one."""
    if alert.field == "price" and old.currency != new.currency:
        return None
    known = _reading(alert.field, old)
    return known if known is not None else state.seen


def _same_currency(alert: Alert, currency: str | None) -> bool:
    return alert.currency is None or (currency or "").upper() == alert.currency.upper()


def _reading(field: str, values: Values) -> Any:
    match field:
        case "price":
            return values.price
        case "in_stock":
            return values.in_stock
        case "title":
            return values.title
        case _:
            return _at(values.data, field.removeprefix("data."))


def _at(data: Mapping[str, Any] | None, path: str) -> Any:
    """A plain value by its key, or by a path through nested objects."""
    if not data:
        return None
    found: Any = data.get(path)
    if found is None:
        found = data
        for key in path.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
    return None if isinstance(found, Mapping | list) else found


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _comparable(value: Any) -> tuple[bool, Any]:
    """1 is not true, but 10.0 is 10.00."""
    number = _number(value)
    return isinstance(value, bool), value if number is None else number


def _percent(before: Any, found: Any) -> Decimal | None:
    was, now = _number(before), _number(found)
    if not was or now is None:
        return None
    percent = (now - was) / abs(was) * 100
    return percent.quantize(_CENT) if percent.adjusted() < _MOST_DIGITS else percent
