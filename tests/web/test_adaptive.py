"""The adaptive schedule over HTTP: switched on and off, taught by a bot, explained."""

from typing import Any

PULL, SUBMIT = "/api/crawl/pull/", "/api/crawl/submit/"


async def pulled(site: Any, bot: Any) -> Any:
    await site.opilio.scheduler.create_due()
    (job,) = (await bot.ok("POST", PULL, {"bot_id": "bot-1", "max_jobs": 1}))["jobs"]
    return job


async def test_it_works(site: Any) -> None:
    policy = await site.policy(schedule="adaptive", min_interval_hours=1, max_interval_hours=48)
    shown = await site.reader.ok("GET", f"/api/v1/policies/{policy['id']}")
    assert (shown["schedule"], shown["min_interval_hours"], shown["max_interval_hours"]) == (
        "adaptive", 1, 48,
    )  # fmt: skip
    await site.opilio.budgets.refit()
    bot = await site.bot()
    first = await pulled(site, bot)
    assert "validators" not in first
    sent = {
        "bot_id": "bot-1",
        "success": True,
        "validators": {"etag": '"1"'},
        "price": 9.5,
        "currency": "EUR",
    }
    await bot.ok("POST", SUBMIT, sent | {"job_id": first["job_id"], "lock_token": first["lock_token"]})
    await site.writer.ok("POST", f"/api/v1/policies/{policy['id']}/run")
    (again,) = (await bot.ok("POST", PULL, {"bot_id": "bot-1", "max_jobs": 1}))["jobs"]
    assert again["validators"]["etag"] == '"1"'
    done = await bot.ok(
        "POST",
        SUBMIT,
        {
            "bot_id": "bot-1",
            "success": True,
            "not_modified": True,
            "job_id": again["job_id"],
            "lock_token": again["lock_token"],
        },
    )
    assert done["status"] == "done"
    learnt = await site.reader.ok("GET", f"/api/v1/policies/{policy['id']}/recrawl")
    assert (learnt["visits"], learnt["changes_seen"]) == (1, 0)
    assert learnt["changes_per_day_low"] < learnt["changes_per_day"] < learnt["changes_per_day_high"]
    assert 1 / 24 <= learnt["interval_days"] <= 2
    assert 0 < learnt["expected_freshness"] <= 1
    assert learnt["why"].startswith("changes about every")
    (pool,) = (await site.reader.ok("GET", "/api/v1/recrawl"))["items"]
    assert (pool["pool"], pool["pages"], pool["budget_per_day"]) == ("", 1, 1.0)
    why = await site.reader.ok("GET", f"/api/v1/policies/{policy['id']}/why")
    assert "adaptive" in str(why).lower() or "worth" in str(why)


async def test_switched_by_patch_and_import_and_back(site: Any) -> None:
    policy = await site.policy()
    path = f"/api/v1/policies/{policy['id']}"
    assert policy["schedule"] == "fixed"
    assert (await site.writer.ok("PATCH", path, {"schedule": "adaptive"}))["schedule"] == "adaptive"
    assert (await site.writer.ok("PATCH", path, {"schedule": "fixed"}))["schedule"] == "fixed"
    assert await site.reader.ok("GET", f"{path}/recrawl") is None
    answer = await site.writer.call(
        "POST",
        "/api/v1/policies/import",
        content=f"url,schedule,max_interval_hours\n{policy['url']},adaptive,72\nhttps://b.example/,hourly,\n",
        headers={"content-type": "text/csv"},
    )
    found = answer.json()["data"]
    assert (found["updated"], found["rejected"]) == (1, 1), found
    shown = await site.reader.ok("GET", path)
    assert (shown["schedule"], shown["max_interval_hours"]) == ("adaptive", 72)


async def test_what_is_refused(site: Any) -> None:
    post = ("POST", "/api/v1/policies")
    await site.writer.refused(
        "validation_error", 400, *post, {"url": "https://a.example/", "schedule": "hourly"}
    )
    wrong = {
        "url": "https://a.example/",
        "schedule": "adaptive",
        "min_interval_hours": 5,
        "max_interval_hours": 2,
    }
    error = await site.writer.refused("validation_error", 400, *post, wrong)
    assert "min_interval_hours" in str(error)
