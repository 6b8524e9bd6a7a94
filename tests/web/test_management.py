"""The management API: what programs and operators do."""

from typing import Any
from uuid import uuid4

import pytest

POLICIES = "/api/v1/policies"


async def job_of(site, bot, **fields: Any) -> Any:
    return await site.locked(bot, **fields)


async def test_a_policy_has_its_defaults(site) -> None:
    policy = await site.policy("HTTPS://Shop.Example:443/a?b=1#frag")
    assert policy["url"] == "https://shop.example/a?b=1"
    wanted = {
        "enabled": True, "frequency_hours": 24, "priority": 50, "max_retries": 3, "retry_backoff_minutes": 5,
        "timeout_minutes": 10, "queue": "http", "hot": False, "labels": {}, "crawl_config": {}, "rule_set": {},
        "failure_count": 0, "last_success_at": None, "host": "shop.example",
    }  # fmt: skip
    assert {key: policy[key] for key in wanted} == wanted
    assert await site.reader.ok("GET", f"{POLICIES}/{policy['id']}") == policy


async def test_the_rule_engine_chooses_the_queue_unless_it_is_set(site) -> None:
    assert (await site.policy("https://a.example/", crawl_config={"js_required": True}))["queue"] == "js"
    chosen = await site.policy("https://b.example/", crawl_config={"js_required": True}, queue="special")
    assert chosen["queue"] == "special"


async def test_a_second_policy_for_a_url_is_a_conflict(site) -> None:
    first = await site.policy()
    error = await site.writer.refused("conflict", 409, "POST", POLICIES, {"url": "https://SHOP.example/1"})
    assert error["details"]["id"] == first["id"]


async def test_patch_changes_what_it_names(site) -> None:
    policy = await site.policy(labels={"team": "a"})
    path = f"{POLICIES}/{policy['id']}"
    changed = await site.writer.ok(
        "PATCH", path, {"priority": 0, "enabled": False, "next_run_at": "2030-01-01T00:00:00Z"}
    )
    assert (changed["priority"], changed["enabled"], changed["next_run_at"]) == (
        0,
        False,
        "2030-01-01T00:00:00Z",
    )
    assert changed["labels"] == {"team": "a"}
    moved = await site.writer.ok("PATCH", path, {"url": "https://other.example/x", "queue": "js"})
    assert (moved["host"], moved["queue"]) == ("other.example", "js")
    await site.policy("https://taken.example/")
    await site.writer.refused("conflict", 409, "PATCH", path, {"url": "https://taken.example/"})
    await site.writer.refused("validation_error", 400, "PATCH", path, {"id": str(uuid4())})


async def test_delete_takes_the_waiting_job_along(site) -> None:
    policy = await site.policy()
    job = await site.writer.ok("POST", f"{POLICIES}/{policy['id']}/run")
    await site.writer.ok("DELETE", f"{POLICIES}/{policy['id']}")
    await site.reader.refused("not_found", 404, "GET", f"{POLICIES}/{policy['id']}")
    await site.reader.refused("job_not_found", 404, "GET", f"/api/v1/jobs/{job['id']}")
    await site.writer.refused("not_found", 404, "DELETE", f"{POLICIES}/{policy['id']}")
    assert (await site.policy())["id"] != policy["id"]


async def test_run_now_answers_the_active_job(site) -> None:
    policy = await site.policy(next_run_at="2099-01-01T00:00:00Z")
    job = await site.writer.ok("POST", f"{POLICIES}/{policy['id']}/run")
    assert (job["status"], job["policy_id"]) == ("pending", policy["id"])
    assert (await site.writer.ok("POST", f"{POLICIES}/{policy['id']}/run"))["id"] == job["id"]


async def test_lists_go_on_behind_their_cursor(site) -> None:
    made = [(await site.policy(f"https://shop.example/{n}"))["id"] for n in range(5)]
    seen, cursor = [], None
    while True:
        page = await site.reader.ok(
            "GET", POLICIES, params={"limit": 2} | ({"cursor": cursor} if cursor else {})
        )
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]


async def test_policies_are_filtered(site) -> None:
    await site.policy("https://a.example/kettle", enabled=False)
    await site.policy("https://b.example/Teapot")

    async def urls(**params: Any) -> list[str]:
        return [item["url"] for item in (await site.reader.ok("GET", POLICIES, params=params))["items"]]

    assert await urls(enabled="false") == ["https://a.example/kettle"]
    assert await urls(host="b.example") == ["https://b.example/Teapot"]
    assert await urls(q="teapot") == ["https://b.example/Teapot"]
    assert await urls(q="%") == []


CSV = 'url,priority,labels\nhttps://a.example/1,70,"{""team"": ""x""}"\nhttps://a.example/2,,\nnonsense,5,\n'
JSONL = (
    '{"url": "https://a.example/1", "priority": 70}\n{"url": "https://a.example/2"}\n{"url": "nonsense"}\n'
)
SITEMAP = """<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc>https://a.example/1</loc></url><url><loc>https://a.example/2</loc></url><url><loc>nonsense</loc></url></urlset>"""


@pytest.mark.parametrize(
    ("kind", "body"), [("text/csv", CSV), ("application/x-ndjson", JSONL), ("application/xml", SITEMAP)]
)
async def test_import_answers_every_row(site, kind, body) -> None:
    async def imported(query: str = "") -> Any:
        return await site.writer.ok(
            "POST", f"{POLICIES}/import{query}", content=body, headers={"content-type": kind}
        )

    dry = await imported("?dry_run=true")
    first, second = await imported(), await imported()
    assert dry == first
    assert (first["created"], first["updated"], first["rejected"]) == (2, 0, 1)
    assert (second["created"], second["updated"], second["rejected"]) == (0, 2, 1)
    assert [(row["row"], row["status"]) for row in first["rows"]] == [
        (1, "created"),
        (2, "created"),
        (3, "rejected"),
    ]
    assert "url" in first["rows"][2]["error"]


async def test_import_of_something_else_says_what_it_takes(site) -> None:
    error = await site.writer.refused(
        "unsupported_media_type",
        415,
        "POST",
        f"{POLICIES}/import",
        content="x",
        headers={"content-type": "text/plain"},
    )
    assert "text/csv" in error["message"]


@pytest.mark.parametrize(("form", "kind"), [("jsonl", "application/x-ndjson"), ("csv", "text/csv")])
async def test_an_export_can_be_imported(site, form, kind) -> None:
    await site.policy(
        "https://a.example/1", labels={"team": "x"}, rule_set={"price": ".p"}, queue="js", hot=True
    )
    await site.policy("https://a.example/2", enabled=False)
    before = (await site.reader.ok("GET", POLICIES))["items"]
    exported = await site.reader.call("GET", f"{POLICIES}/export", params={"format": form})
    for item in before:
        await site.writer.ok("DELETE", f"{POLICIES}/{item['id']}")
    answer = await site.writer.ok(
        "POST", f"{POLICIES}/import", content=exported.content, headers={"content-type": kind}
    )
    assert (answer["created"], answer["rejected"]) == (2, 0)
    after = (await site.reader.ok("GET", POLICIES))["items"]
    moving = {"id", "created_at", "updated_at"}

    def kept(items: list[Any]) -> list[Any]:
        return sorted(([(k, v) for k, v in item.items() if k not in moving] for item in items), key=str)

    assert kept(after) == kept(before)


async def test_jobs_can_be_found_and_explained(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot)
    for params in ({"status": "locked"}, {"host": "shop.example"}, {"bot_id": "bot-1"}, {}):
        items = (await site.reader.ok("GET", "/api/v1/jobs", params=params))["items"]
        assert [item["id"] for item in items] == [job["job_id"]]
    assert (await site.reader.ok("GET", "/api/v1/jobs", params={"status": "done"}))["items"] == []
    shown = await site.reader.ok("GET", f"/api/v1/jobs/{job['job_id']}")
    assert (shown["status"], shown["locked_by"]) == ("locked", "bot-1")
    why = await site.reader.ok("GET", f"/api/v1/jobs/{job['job_id']}/why")
    assert (why["running"], why["reasons"][0]["code"]) == (True, "locked")
    timeline = (await site.reader.ok("GET", f"/api/v1/jobs/{job['job_id']}/timeline"))["items"]
    assert [(row["from"], row["to"]) for row in timeline] == [(None, "pending"), ("pending", "locked")]
    assert set(timeline[0]) == {"from", "to", "at", "by", "reason"}


async def test_actions_are_answered_per_id(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot, max_retries=0)
    missing = str(uuid4())
    body = {"action": "expire", "ids": [job["job_id"], missing]}
    rows = (await site.writer.ok("POST", "/api/v1/jobs/actions", body))["items"]
    assert [(row["id"], row["success"]) for row in rows] == [(job["job_id"], True), (missing, False)]
    assert rows[0]["status"] == "expired"
    assert rows[1]["error"]["code"] == "job_not_found"
    reset = {"action": "reset", "ids": [job["job_id"]]}
    assert (await site.writer.ok("POST", "/api/v1/jobs/actions", reset))["items"][0]["status"] == "pending"
    again = (await bot.ok("POST", "/api/crawl/pull/", {"bot_id": "bot-1"}))["jobs"]
    assert [j["job_id"] for j in again] == [job["job_id"]]
    release = {"action": "release", "ids": [job["job_id"]]}
    assert (await site.writer.ok("POST", "/api/v1/jobs/actions", release))["items"][0]["status"] == "pending"
    assert (await site.writer.ok("POST", "/api/v1/jobs/actions", release))["items"][0]["error"][
        "code"
    ] == "invalid_state"


async def test_done_is_final(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot)
    sent = {"bot_id": "bot-1", "job_id": job["job_id"], "success": True, "price": 1, "currency": "EUR"}
    await bot.ok("POST", "/api/crawl/submit/", sent)
    reset = {"action": "reset", "ids": [job["job_id"]]}
    row = (await site.writer.ok("POST", "/api/v1/jobs/actions", reset))["items"][0]
    assert row["error"]["code"] == "invalid_state"


async def test_history_shows_what_changed(site) -> None:
    bot = await site.bot()
    policy = await site.policy()
    for price, stock in ((10, True), (12.5, True), (12.5, False)):
        await site.writer.ok("POST", f"{POLICIES}/{policy['id']}/run")
        job = (await bot.ok("POST", "/api/crawl/pull/", {"bot_id": "bot-1"}))["jobs"][0]
        sent = {
            "bot_id": "bot-1",
            "job_id": job["job_id"],
            "success": True,
            "price": price,
            "currency": "EUR",
        }
        await bot.ok("POST", "/api/crawl/submit/", sent | {"in_stock": stock, "data": {"stars": price}})
    rows = (await site.reader.ok("GET", f"{POLICIES}/{policy['id']}/history"))["items"]
    prices = [(row["old"], row["new"]) for row in rows if row["field"] == "price"]
    assert prices == [(10, 12.5), (None, 10)]
    assert [(row["old"], row["new"]) for row in rows if row["field"] == "in_stock"] == [
        (True, False),
        (None, True),
    ]
    assert [row["new"] for row in rows if row["field"] == "data.stars"] == [12.5, 10]
    one = await site.reader.ok(
        "GET", f"{POLICIES}/{policy['id']}/history", params={"field": "price", "limit": 1}
    )
    assert (len(one["items"]), one["next_cursor"] is not None) == (1, True)
    found = (await site.reader.ok("GET", "/api/v1/results", params={"url": "https://SHOP.example/1"}))[
        "items"
    ]
    assert [row["price"] for row in found] == [12.5, 12.5, 10]


async def test_limits_of_a_host_hold_at_the_next_pull(site) -> None:
    bot = await site.bot()
    for n in range(3):
        await site.policy(f"https://shop.example/{n}")
    host = await site.writer.ok("PUT", "/api/v1/hosts/Shop.Example", {"max_concurrent": 1})
    assert (host["host"], host["max_concurrent"], host["min_delay_seconds"]) == ("shop.example", 1, None)
    await site.opilio.scheduler.create_due()
    first = await bot.ok("POST", "/api/crawl/pull/", {"bot_id": "bot-1"})
    assert first["count"] == 1
    other = await site.bot("bot-2")
    second = await other.ok("POST", "/api/crawl/pull/", {"bot_id": "bot-2"})
    assert (second["count"], second["skipped"]) == (0, 3)
    waiting = (await site.reader.ok("GET", "/api/v1/jobs", params={"status": "pending"}))["items"][0]
    why = await site.reader.ok("GET", f"/api/v1/jobs/{waiting['id']}/why")
    assert [reason["code"] for reason in why["reasons"]] == ["host_at_cap"]
    await site.writer.ok("PUT", "/api/v1/hosts/shop.example", {})
    third = await other.ok("POST", "/api/crawl/pull/", {"bot_id": "bot-2"})
    assert third["count"] == 2


async def test_a_rate_limited_host_is_left_alone_by_everyone(site) -> None:
    bot = await site.bot()
    await site.policy("https://shop.example/2")
    job = await site.locked(bot)
    sent = {
        "bot_id": "bot-1",
        "job_id": job["job_id"],
        "success": False,
        "error_code": "RATE_LIMITED",
        "retry_after": 120,
    }
    await bot.ok("POST", "/api/crawl/submit/", sent)
    pulled = await bot.ok("POST", "/api/crawl/pull/", {"bot_id": "bot-1"})
    assert pulled["count"] == 0
    host = await site.reader.ok("GET", "/api/v1/hosts/shop.example")
    assert host["cooling_until"] is not None
    assert [period["until"] for period in host["cooling_periods"]] == [host["cooling_until"]]
    jobs = (await site.reader.ok("GET", "/api/v1/jobs"))["items"]
    other = next(found for found in jobs if found["id"] != job["job_id"])
    why = await site.reader.ok("GET", f"/api/v1/jobs/{other['id']}/why")
    assert "host_cooling" in [reason["code"] for reason in why["reasons"]]


async def test_why_for_a_policy(site) -> None:
    later = await site.policy("https://a.example/", next_run_at="2099-01-01T00:00:00Z")
    off = await site.policy("https://b.example/", enabled=False)

    async def codes(policy: Any) -> list[str]:
        why = await site.reader.ok("GET", f"{POLICIES}/{policy['id']}/why")
        assert why["running"] is False
        return [reason["code"] for reason in why["reasons"]]

    assert await codes(later) == ["not_due", "no_capable_bot"]
    assert await codes(off) == ["disabled", "no_capable_bot"]
    await (await site.bot()).ok("POST", "/api/crawl/pull/", {"bot_id": "bot-1"})
    assert await codes(later) == ["not_due"]


async def test_bots_and_their_tokens(site) -> None:
    made = await site.admin.ok("POST", "/api/v1/bots/crawler-7/tokens", status=201)
    other = await site.admin.ok("POST", "/api/v1/bots/crawler-7/tokens", status=201)
    assert made["token"] != other["token"]
    await site.admin.ok("DELETE", f"/api/v1/bots/crawler-7/tokens/{made['id']}")
    rows = (await site.admin.ok("GET", "/api/v1/bots/crawler-7/tokens"))["items"]
    assert {row["id"]: row["revoked_at"] is None for row in rows} == {made["id"]: False, other["id"]: True}
    assert [bot["bot_id"] for bot in (await site.reader.ok("GET", "/api/v1/bots"))["items"]] == ["crawler-7"]
    await site.admin.refused("not_found", 404, "DELETE", "/api/v1/bots/nobody/tokens")
    await site.admin.refused("validation_error", 400, "POST", "/api/v1/bots/a%20b/tokens")


async def test_stats_count_by_state(site) -> None:
    bot = await site.bot()
    await site.locked(bot)
    await site.policy("https://shop.example/2")
    await site.opilio.scheduler.create_due()
    stats = await site.reader.ok("GET", "/api/v1/stats")
    assert stats["jobs"] == {"pending": 1, "locked": 1, "done": 0, "failed": 0, "expired": 0}
    assert stats["policies"] == {"total": 2, "enabled": 2}


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
async def test_a_read_key_cannot_write(site, method) -> None:
    path = POLICIES if method == "POST" else f"{POLICIES}/{uuid4()}"
    await site.reader.refused("forbidden", 403, method, path, None if method == "DELETE" else {"nonsense": 1})


async def test_a_bot_token_opens_no_management(site) -> None:
    await (await site.bot()).refused("forbidden", 403, "GET", POLICIES)


BAD_POLICIES = [
    ("url", {}),
    ("url", {"url": 5}),
    ("url", {"url": "ftp://x.example/"}),
    ("url", {"url": "https://u:p@x.example/"}),
    ("url", {"url": "http://10.0.0.1/"}),
    ("url", {"url": "http://169.254.169.254/latest"}),
    ("url", {"url": "http://[::ffff:127.0.0.1]/"}),
    ("url", {"url": "http://localhost/"}),
    ("url", {"url": "https://x.example/" + "a" * 2031}),
    ("url", {"url": "https://x.example/a\u0001"}),
    ("frequency_hours", {"url": "https://x.example/", "frequency_hours": 0}),
    ("frequency_hours", {"url": "https://x.example/", "frequency_hours": "24"}),
    ("frequency_hours", {"url": "https://x.example/", "frequency_hours": 1e300}),
    ("priority", {"url": "https://x.example/", "priority": 101}),
    ("priority", {"url": "https://x.example/", "priority": 50.5}),
    ("max_retries", {"url": "https://x.example/", "max_retries": -1}),
    ("queue", {"url": "https://x.example/", "queue": "fast"}),
    ("labels", {"url": "https://x.example/", "labels": {"a": 1}}),
    ("labels", {"url": "https://x.example/", "labels": {"a": "\u0000"}}),
    ("enabled", {"url": "https://x.example/", "enabled": "yes"}),
    ("next_run_at", {"url": "https://x.example/", "next_run_at": "tomorrow"}),
    ("next_run_at", {"url": "https://x.example/", "next_run_at": "2030-01-01T00:00:00"}),
    ("colour", {"url": "https://x.example/", "colour": "red"}),
]


@pytest.mark.parametrize(("field", "body"), BAD_POLICIES)
async def test_a_wrong_policy_names_its_field(site, field, body) -> None:
    error = await site.writer.refused("validation_error", 400, "POST", POLICIES, body)
    assert error["details"][0]["field"].startswith(field)


async def test_unknown_paths_and_methods_are_answered_in_the_envelope(site) -> None:
    await site.nobody.refused("not_found", 404, "GET", "/api/v1/nothing")
    answer = await site.nobody.call("DELETE", "/api/v1/stats")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")
    assert "GET" in answer.headers["allow"]


async def test_health_and_metrics(site) -> None:
    assert (await site.nobody.ok("GET", "/healthz"))["status"] == "ok"
    assert (await site.nobody.ok("GET", "/readyz"))["status"] == "ready"
    assert "jobs_done_total" in (await site.nobody.call("GET", "/metrics")).text
