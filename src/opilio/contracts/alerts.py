"""The bodies of the management API about value alerts."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

AlertField = Annotated[
    str,
    Meta(
        max_length=200,
        pattern=r"^(?:price|in_stock|title|data\..+)\Z",
        description="`price`, `in_stock`, `title`, or `data.<path>` for a value of the result's data.",
    ),
]
AlertCondition = Literal["below", "above", "changed", "changed_percent", "back_in_stock"]
AlertName = Annotated[str, Meta(min_length=1, max_length=200)]
AlertValue = Annotated[
    Decimal, Meta(description="The limit of below and above, or the percentage of changed_percent.")
]
AlertCurrency = Annotated[str, Meta(pattern=r"^[A-Za-z]{3}\Z")]
CooldownHours = Annotated[float, Meta(ge=0, le=8784)]


class AlertScope(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Exactly one of: a policy, a host, labels (all of them must match), or everything."""

    policy_id: UUID | UnsetType = UNSET
    host: Annotated[str, Meta(min_length=1, max_length=253)] | UnsetType = UNSET
    labels: Annotated[dict[str, str], Meta(min_length=1)] | UnsetType = UNSET
    all: Literal[True] | UnsetType = UNSET


class AlertInput(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A new value alert."""

    name: AlertName
    scope: AlertScope
    field: AlertField
    when: AlertCondition
    value: AlertValue | None = None
    currency: AlertCurrency | None = None
    cooldown_hours: CooldownHours = 24
    enabled: bool = True


class AlertPatch(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Any of the fields of an alert; what is left out stays as it is."""

    name: AlertName | UnsetType = UNSET
    scope: AlertScope | UnsetType = UNSET
    field: AlertField | UnsetType = UNSET
    when: AlertCondition | UnsetType = UNSET
    value: AlertValue | UnsetType | None = UNSET
    currency: AlertCurrency | UnsetType | None = UNSET
    cooldown_hours: CooldownHours | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class ValueAlert(msgspec.Struct, kw_only=True):
    """A value alert as the API shows it."""

    id: UUID
    name: str
    scope: AlertScope
    field: str
    when: AlertCondition
    value: Decimal | None
    currency: str | None
    cooldown_hours: float
    enabled: bool
    last_fired_at: datetime | None
    created_at: datetime
    updated_at: datetime
