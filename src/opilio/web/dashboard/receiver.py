"""The demo's test receiver: what arrived there, and a webhook to it by one click."""

from datetime import datetime
from typing import Any

import msgspec

from opilio.contracts.webhooks import EndpointCreate
from opilio.demo.receiver import RECEIVE, RECEIVED
from opilio.errors import NotFound
from opilio.runtime.instance_file import demo_address
from opilio.web.dashboard.page import Page, PageRequest, Section, redirect

RECEIVER = Section()
_PATIENCE = 2.0


@RECEIVER.page("/webhooks/receiver")
async def show_received(request: PageRequest) -> Page:
    address = _address(request)
    hooks = (await request.opilio.webhooks.page(limit=200)).items
    hook = next((hook for hook in hooks if hook.url == address + RECEIVE), None)
    rows, fault = await _received(address)
    values = {"rows": rows, "fault": fault, "url": address + RECEIVE, "hook": hook}
    return Page("receiver.html", request.locale.gettext("Test receiver"), values, rows=rows)


@RECEIVER.action("/webhooks/receiver")
async def send_here(request: PageRequest) -> Any:
    url = _address(request) + RECEIVE
    wanted = EndpointCreate(url=url, events=["*"], description=request.locale.gettext("Test receiver"))
    await request.opilio.webhooks.create(wanted, actor=request.actor)
    return redirect("/webhooks/receiver", request.locale.gettext("Webhook created: events arrive here."))


def _address(request: PageRequest) -> str:
    address = demo_address(request.opilio.settings.data_dir)
    if address is None:
        raise NotFound("the test receiver belongs to the demo of `opilio up`")
    return address


async def _received(address: str) -> tuple[list[dict[str, Any]], str]:
    """What arrived, newest first; or why it cannot be seen."""
    import httpx2  # noqa: PLC0415 - a tenth of all that the API loads, for a page of the demo

    try:
        async with httpx2.AsyncClient(timeout=_PATIENCE, trust_env=False) as client:
            found = msgspec.json.decode((await client.get(address + RECEIVED)).content)
    except (httpx2.HTTPError, msgspec.DecodeError) as error:
        return [], str(error) or type(error).__name__
    return [_shown(item) for item in found], ""


def _shown(item: dict[str, Any]) -> dict[str, Any]:
    try:
        event = msgspec.json.decode(item["body"])
    except msgspec.DecodeError:
        event = item["body"]
    named = event if isinstance(event, dict) else {}
    return {
        "at": datetime.fromisoformat(item["at"]),
        "id": item["id"],
        "signed": item["signed"],
        "type": named.get("type", ""),
        "subject": named.get("subject", ""),
        "event": event,
    }
