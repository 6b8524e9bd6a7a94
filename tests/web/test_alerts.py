"""Value alerts over HTTP: stored, evaluated with each result, published as an event."""

from typing import Any
from uuid import uuid4

import pytest

from tests.web.conftest import Caller, Site

BELOW = {"name": "Below 100", "scope": {"all": True}, "field": "price", "when": "below", "value": 100}


async def crawl(site: Site, bot: Caller, policy_id: str, **result: Any) -> None:
    """One crawl of a page, from run now to the stored result."""
    await site.writer.ok("POST", f"/api/v1/policies/{policy_id}/run")
    jobs = (await bot.ok("POST", "/api/crawl/pull/", {"bot_id": "bot-1"}))["jobs"]
    (job,) = jobs
    body = {"bot_id": "bot-1", "job_id": job["job_id"], "lock_token": job["lock_token"], "success": True}
    await bot.ok("POST", "/api/crawl/submit/", body | {"price": 120, "currency": "USD"} | result)


async def rows(site: Site, sql: str) -> list[Any]:
    async with site.opilio.database.session() as session:
        return [row[0] for row in await session.connection.fetch(sql)]


async def fired(site: Site) -> list[Any]:
    return await rows(site, "select data from event_log where type = 'crawl.value.alert' order by seq")


async def test_it_works(site: Site) -> None:
    bot = await site.bot()
    policy = await site.policy()
    alert = await site.writer.ok("POST", "/api/v1/alerts", BELOW, status=201)
    assert (alert["value"], alert["cooldown_hours"], alert["enabled"]) == (100, 24, True)
    for price in (120, 90, 85, 110, 95):
        await crawl(site, bot, policy["id"], price=price)
    told = await fired(site)
    assert [(event["old"], event["new"], float(event["percent"])) for event in told] == [
        (120, 90, -25),
        (110, 95, -13.64),
    ]
    assert told[0]["alert_id"] == alert["id"]
    assert (told[0]["name"], told[0]["url"], told[0]["field"]) == ("Below 100", policy["url"], "price")
    shown = await site.reader.ok("GET", f"/api/v1/alerts/{alert['id']}")
    assert shown["last_fired_at"] is not None


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({"host": "shop.example"}, 1),
        ({"host": "other.example"}, 0),
        ({"labels": {"team": "a"}}, 1),
        ({"labels": {"team": "b"}}, 0),
        ({"labels": {"team": "a", "region": "eu"}}, 0),
        ({"policy_id": str(uuid4())}, 0),
    ],
)
async def test_an_alert_looks_at_its_scope_only(site: Site, scope: dict[str, Any], expected: int) -> None:
    bot = await site.bot()
    policy = await site.policy(labels={"team": "a"})
    await site.writer.ok("POST", "/api/v1/alerts", BELOW | {"scope": scope}, status=201)
    await crawl(site, bot, policy["id"], price=90)
    assert len(await fired(site)) == expected


async def test_stock_and_data(site: Site) -> None:
    bot = await site.bot()
    policy = await site.policy()
    scope = {"policy_id": policy["id"]}
    back = {"name": "Back", "scope": scope, "field": "in_stock", "when": "back_in_stock"}
    rated = {"name": "Rated", "scope": scope, "field": "data.seller.rating", "when": "below", "value": "4.0"}
    for wanted in (back, rated):
        await site.writer.ok("POST", "/api/v1/alerts", wanted, status=201)
    await crawl(site, bot, policy["id"], in_stock=False, data={"seller": {"rating": 4.5}})
    await crawl(site, bot, policy["id"], in_stock=True, data={"seller": {"rating": 3.5}})
    assert {(event["name"], event["new"]) for event in await fired(site)} == {("Back", True), ("Rated", 3.5)}


async def test_a_disabled_alert_is_silent_and_a_changed_one_starts_afresh(site: Site) -> None:
    bot = await site.bot()
    policy = await site.policy()
    alert = await site.writer.ok("POST", "/api/v1/alerts", BELOW | {"enabled": False}, status=201)
    path = f"/api/v1/alerts/{alert['id']}"
    await crawl(site, bot, policy["id"], price=90)
    assert await fired(site) == []
    await site.writer.ok("PATCH", path, {"enabled": True})
    await crawl(site, bot, policy["id"], price=90)
    await site.writer.ok("PATCH", path, {"value": 95})
    await crawl(site, bot, policy["id"], price=90)
    assert len(await fired(site)) == 2


async def test_kept_listed_and_deleted_with_an_audit_entry_each(site: Site) -> None:
    first = await site.writer.ok("POST", "/api/v1/alerts", BELOW, status=201)
    second = await site.writer.ok("POST", "/api/v1/alerts", BELOW | {"name": "Other"}, status=201)
    page = await site.reader.ok("GET", "/api/v1/alerts?limit=1")
    assert [item["id"] for item in page["items"]] == [second["id"]]
    page = await site.reader.ok("GET", f"/api/v1/alerts?limit=1&cursor={page['next_cursor']}")
    assert ([item["id"] for item in page["items"]], page["next_cursor"]) == ([first["id"]], None)
    await site.writer.ok("DELETE", f"/api/v1/alerts/{first['id']}")
    await site.reader.refused("not_found", 404, "GET", f"/api/v1/alerts/{first['id']}")
    actions = await rows(site, "select action from audit_log where action like 'alert.%'")
    assert sorted(actions) == ["alert.create", "alert.create", "alert.delete"]


@pytest.mark.parametrize(
    "body",
    [
        {"when": "above", "value": None},
        {"field": "colour"},
        {"field": "price\n"},
        {"currency": "dollars"},
        {"scope": {}},
        {"scope": {"all": True, "host": "a.example"}},
        {"cooldown_hours": -1},
        {"nonsense": 1},
    ],
)
async def test_what_makes_no_sense_is_refused(site: Site, body: dict[str, Any]) -> None:
    await site.writer.refused("validation_error", 400, "POST", "/api/v1/alerts", BELOW | body)


async def test_a_reader_cannot_write(site: Site) -> None:
    await site.reader.refused("forbidden", 403, "POST", "/api/v1/alerts", BELOW)
