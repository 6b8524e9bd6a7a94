"""Value alerts: an event when a price, stock or another value crosses a limit or changes."""

from typing import Any

from opilio.contracts.alerts import AlertInput, AlertPatch, ValueAlert
from opilio.web.api.shared import ListQuery
from opilio.web.routes import Call, Registry

ALERTS = Registry()
_PATH = "/api/v1/alerts"


@ALERTS.add(
    "POST",
    _PATH,
    "write",
    "Add a value alert",
    body=AlertInput,
    answer=ValueAlert,
    status=201,
    tag="alerts",
)
async def create_alert(call: Call) -> Any:
    return await call.opilio.alerts.create(call.body, call.actor)


@ALERTS.add("GET", _PATH, "read", "List value alerts", query=ListQuery, answer=list[ValueAlert], tag="alerts")
async def list_alerts(call: Call) -> Any:
    return await call.opilio.alerts.page(limit=call.query.limit, cursor=call.query.cursor)


@ALERTS.add(
    "GET",
    f"{_PATH}/{{id:str}}",
    "read",
    "One value alert",
    answer=ValueAlert,
    errors=("not_found",),
    tag="alerts",
)
async def get_alert(call: Call) -> Any:
    return await call.opilio.alerts.get(call.uuid())


@ALERTS.add(
    "PATCH",
    f"{_PATH}/{{id:str}}",
    "write",
    "Change a value alert; a changed condition starts afresh",
    body=AlertPatch,
    answer=ValueAlert,
    errors=("not_found",),
    tag="alerts",
)
async def patch_alert(call: Call) -> Any:
    return await call.opilio.alerts.change(call.uuid(), call.body, call.actor)


@ALERTS.add(
    "DELETE",
    f"{_PATH}/{{id:str}}",
    "write",
    "Delete a value alert",
    answer=dict[str, str],
    errors=("not_found",),
    tag="alerts",
)
async def delete_alert(call: Call) -> Any:
    alert_id = call.uuid()
    await call.opilio.alerts.delete(alert_id, call.actor)
    return {"id": str(alert_id), "status": "deleted"}
