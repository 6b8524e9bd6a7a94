"""A bot's day over HTTP: pull, submit, and everything that can be refused."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

PULL, SUBMIT = "/api/crawl/pull/", "/api/crawl/submit/"
GOOD = {"success": True, "price": 99.99, "currency": "USD", "title": "Kettle", "in_stock": True}


def result_of(job: Any, bot_id: str = "bot-1", **fields: Any) -> dict[str, Any]:
    return {"bot_id": bot_id, "job_id": job["job_id"], "lock_token": job["lock_token"]} | fields


async def test_it_works(site) -> None:
    bot = await site.bot()
    await site.policy(
        crawl_config={"headers": {"accept": "text/html"}}, rule_set={"price": {"css": ".price"}}
    )
    await site.opilio.scheduler.create_due()
    pulled = await bot.ok("POST", PULL, {"bot_id": "bot-1"})
    assert pulled["count"] == 1
    job = pulled["jobs"][0]
    assert set(job) == {
        "job_id", "url", "priority", "queue", "crawl_config", "rule_set", "max_retries", "retry_count",
        "timeout_seconds", "locked_until", "lock_token",
    }  # fmt: skip
    assert job["rule_set"] == {"price": {"css": ".price"}}
    done = await bot.ok("POST", SUBMIT, result_of(job, **GOOD))
    assert (done["status"], done["price"], done["currency"]) == ("done", 99.99, "USD")
    stored = await site.reader.ok("GET", f"/api/v1/results/{done['result_id']}")
    assert (stored["title"], stored["in_stock"], stored["job_id"]) == ("Kettle", True, job["job_id"])


@pytest.mark.parametrize("path", ["/api/crawl/pull", "/api/crawl/pull/"])
async def test_both_forms_of_the_path_are_accepted(site, path) -> None:
    assert (await (await site.bot()).ok("POST", path, {"bot_id": "bot-1"}))["count"] == 0


async def test_an_empty_pull_says_when_to_ask_again(site) -> None:
    answer = await (await site.bot()).ok("POST", PULL, {"bot_id": "bot-1"})
    assert (answer["jobs"], answer["count"], answer["skipped"]) == ([], 0, 0)
    assert answer["retry_after"] >= 1


async def test_a_long_poll_is_answered_when_work_appears(site) -> None:
    bot = await site.bot()
    waiting = asyncio.create_task(bot.ok("POST", PULL, {"bot_id": "bot-1", "wait_seconds": 20}))
    policy = await site.policy(next_run_at="2099-01-01T00:00:00Z")
    await site.writer.ok("POST", f"/api/v1/policies/{policy['id']}/run")
    assert (await asyncio.wait_for(waiting, 10))["count"] == 1


async def test_jobs_held_by_another_bot_are_counted_as_skipped(site) -> None:
    await site.locked(await site.bot())
    other = await site.bot("bot-2")
    assert (await other.ok("POST", PULL, {"bot_id": "bot-2"}))["skipped"] == 1


async def test_ten_jobs_of_one_domain_go_to_one_bot(site) -> None:
    bot = await site.bot()
    for n in range(12):
        await site.policy(f"https://shop.example/{n}")
    await site.opilio.scheduler.create_due()
    assert (await bot.ok("POST", PULL, {"bot_id": "bot-1"}))["count"] == 10


async def test_the_same_submit_again_gets_the_same_answer(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot)
    first = await bot.ok("POST", SUBMIT, result_of(job, **GOOD))
    assert await bot.ok("POST", SUBMIT, result_of(job, **GOOD)) == first
    without_token = {key: value for key, value in result_of(job, **GOOD).items() if key != "lock_token"}
    assert await bot.ok("POST", SUBMIT, without_token) == first


async def test_a_different_result_for_a_finished_job_changes_nothing(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot)
    done = await bot.ok("POST", SUBMIT, result_of(job, **GOOD))
    await bot.refused("invalid_state", 409, "POST", SUBMIT, result_of(job, **GOOD | {"price": 1}))
    assert (await site.reader.ok("GET", f"/api/v1/results/{done['result_id']}"))["price"] == 99.99


async def test_a_failure_is_tried_again_and_repeats_its_answer(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot, max_retries=2)
    body = result_of(job, success=False, error_msg="Timeout: page did not load", error_code="TIMEOUT")
    first = await bot.ok("POST", SUBMIT, body)
    assert (first["status"], first["retry_count"], first["max_retries"]) == ("pending", 1, 2)
    assert await bot.ok("POST", SUBMIT, body) == first


async def test_a_code_that_cannot_get_better_ends_the_job(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot)
    body = result_of(job, success=False, error_code="CONTENT_REMOVED", error_msg="gone")
    answer = await bot.ok("POST", SUBMIT, body)
    assert answer["status"] == "failed"
    assert answer["policy_next_run"]


async def test_no_retries_left_is_the_end(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot, max_retries=0)
    answer = await bot.ok("POST", SUBMIT, result_of(job, success=False))
    assert (answer["status"], answer["retry_count"], answer["max_retries"]) == ("failed", 0, 0)


async def test_data_alone_is_a_result(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot)
    done = await bot.ok(
        "POST", SUBMIT, result_of(job, success=True, data={"rating": 4.5, "nested": {"a": [1]}})
    )
    stored = await site.reader.ok("GET", f"/api/v1/results/{done['result_id']}")
    assert stored["parsed_data"] == {"rating": 4.5, "nested": {"a": [1]}}


async def test_a_price_keeps_every_digit(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot)
    body = f'{{"bot_id":"bot-1","job_id":"{job["job_id"]}","success":true,"price":123456789012345.123456,"currency":"vnd"}}'
    answer = await bot.call("POST", SUBMIT, content=body.encode())
    assert '"price":123456789012345.123456' in answer.text
    result_id = answer.json()["data"]["result_id"]
    stored = await site.reader.call("GET", f"/api/v1/results/{result_id}")
    assert '"price":123456789012345.123456' in stored.text
    assert '"currency":"VND"' in stored.text


async def test_a_large_page_comes_back_whole(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot)
    html = "<p>xin chào</p>" * 40_000
    done = await bot.ok("POST", SUBMIT, result_of(job, **GOOD, raw_html=html))
    assert (await site.reader.ok("GET", f"/api/v1/results/{done['result_id']}"))["raw_html"] == html


async def test_a_batch_is_answered_one_by_one_in_order(site) -> None:
    bot = await site.bot()
    for n in range(3):
        await site.policy(f"https://shop.example/{n}")
    await site.opilio.scheduler.create_due()
    jobs = (await bot.ok("POST", PULL, {"bot_id": "bot-1"}))["jobs"]
    items = [{key: value for key, value in result_of(job, **GOOD).items() if key != "bot_id"} for job in jobs]
    items[1] |= {"price": -1}
    items.append({"job_id": str(uuid4()), "success": False})
    answer = await bot.ok("POST", "/api/crawl/submit/batch/", {"bot_id": "bot-1", "results": items})
    outcomes = [(row["job_id"], row["success"]) for row in answer["results"]]
    assert outcomes == [(item["job_id"], n in (0, 2)) for n, item in enumerate(items)]
    assert answer["results"][1]["error"]["details"][0]["field"] == "price"
    assert answer["results"][3]["error"]["code"] == "job_not_found"


async def test_heartbeat_and_release(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot)
    held = {"bot_id": "bot-1", "jobs": [{"job_id": job["job_id"], "lock_token": job["lock_token"]}]}
    beat = await bot.ok("POST", "/api/crawl/heartbeat/", held)
    assert beat["jobs"][0]["data"]["locked_until"] >= job["locked_until"]
    released = await bot.ok("POST", "/api/crawl/release/", held)
    assert released["jobs"][0] == {"job_id": job["job_id"], "success": True, "data": {"status": "pending"}}
    again = await bot.ok("POST", PULL, {"bot_id": "bot-1"})
    assert [(j["job_id"], j["retry_count"], j["priority"]) for j in again["jobs"]] == [
        (job["job_id"], 0, job["priority"])
    ]
    assert again["jobs"][0]["lock_token"] != job["lock_token"]
    late = await bot.ok("POST", "/api/crawl/heartbeat/", held)
    assert late["jobs"][0]["error"]["code"] == "lock_expired"


async def test_another_bots_job_is_not_assigned(site) -> None:
    job = await site.locked(await site.bot())
    other = await site.bot("bot-2")
    await other.refused("not_assigned", 409, "POST", SUBMIT, result_of(job, "bot-2", **GOOD))


async def test_a_bot_cannot_speak_for_another(site) -> None:
    bot = await site.bot()
    await bot.refused("forbidden", 403, "POST", PULL, {"bot_id": "bot-2"})


async def test_authentication_comes_before_validation(site) -> None:
    await site.nobody.refused("unauthorized", 401, "POST", PULL, {"nonsense": True})
    await site.admin.refused("forbidden", 403, "POST", PULL, {"nonsense": True})


async def test_a_revoked_token_is_out_at_once(site) -> None:
    bot = await site.bot()
    await bot.ok("POST", PULL, {"bot_id": "bot-1"})
    await site.admin.ok("DELETE", "/api/v1/bots/bot-1/tokens")
    await bot.refused("unauthorized", 401, "POST", PULL, {"bot_id": "bot-1"})


async def test_a_late_result_is_kept_aside(site) -> None:
    bot = await site.bot()
    job = await site.locked(bot, timeout_minutes=0.0001)
    await asyncio.sleep(0.05)  # the lock lasts 6 ms
    await bot.refused("lock_expired", 409, "POST", SUBMIT, result_of(job, **GOOD))
    assert (await site.opilio.lock_expiry.run_once()).total == 1
    await bot.refused("lock_expired", 409, "POST", SUBMIT, result_of(job, **GOOD | {"price": 5}))
    late = (await site.reader.ok("GET", f"/api/v1/jobs/{job['job_id']}/late"))["items"]
    assert [row["submission"]["price"] for row in late] == [99.99, 5]
    assert (await site.reader.ok("GET", "/api/v1/results"))["items"] == []


BAD_BODIES = [
    ("bot_id", {"max_jobs": 1}),
    ("max_jobs", {"bot_id": "bot-1", "max_jobs": 0}),
    ("max_jobs", {"bot_id": "bot-1", "max_jobs": 101}),
    ("max_jobs", {"bot_id": "bot-1", "max_jobs": "5"}),
    ("max_jobs", {"bot_id": "bot-1", "max_jobs": 1.5}),
    ("wait_seconds", {"bot_id": "bot-1", "wait_seconds": 31}),
    ("capabilities", {"bot_id": "bot-1", "capabilities": []}),
    ("capabilities[0]", {"bot_id": "bot-1", "capabilities": ["telnet"]}),
    ("domain", {"bot_id": "bot-1", "domain": "https://x/"}),
    ("colour", {"bot_id": "bot-1", "colour": "red"}),
    ("body", ["bot-1"]),
]


@pytest.mark.parametrize(("field", "body"), BAD_BODIES)
async def test_a_wrong_pull_names_its_field(site, field, body) -> None:
    bot = await site.bot()
    error = await bot.refused("validation_error", 400, "POST", PULL, body)
    assert error["details"][0]["field"] == field


BAD_RESULTS = [
    ("price", {"success": True}),
    ("price", {"success": True, "price": "about 99", "currency": "USD"}),
    ("price", {"success": True, "price": -1, "currency": "USD"}),
    ("price", {"success": True, "price": True, "currency": "USD"}),
    ("price", {"success": True, "price": 10**30, "currency": "USD"}),
    ("currency", {"success": True, "price": 1}),
    ("currency", {"success": True, "price": 1, "currency": "US"}),
    ("currency", {"success": True, "price": 1, "currency": "DOLLAR"}),
    ("price", {"success": True, "data": {}}),
    ("title", {"success": True, "data": {"a": 1}, "title": "bell\x07"}),
    ("data", {"success": True, "data": {"a": "nul\x00"}}),
    ("in_stock", {"success": True, "data": {"a": 1}, "in_stock": "yes"}),
    ("success", {"success": "true"}),
    ("crawl_duration", {"success": False, "crawl_duration": -1}),
    ("status", {"success": True, "status": "ok"}),
]


@pytest.mark.parametrize(("field", "fields"), BAD_RESULTS)
async def test_a_wrong_result_names_its_field(site, field, fields) -> None:
    bot = await site.bot()
    body = {"bot_id": "bot-1", "job_id": str(uuid4())} | fields
    error = await bot.refused("validation_error", 400, "POST", SUBMIT, body)
    assert error["details"][0]["field"] == field


HOSTILE = [
    b"",
    b"nonsense",
    b'{"bot_id": "bot-1", "price": NaN}',
    b"[" * 100_000,
    b'{"bot_id":' * 5000,
    b'{"bot_id": "\xff\xfe"}',
    b'{"bot_id": "bot-1", "job_id": "x", "success": true, "data": {"a": 1e999}}',
    b'{"bot_id": "bot-1", "job_id": "x", "success": true, "data": {"a": "\\ud800"}}',
]


@pytest.mark.parametrize("body", HOSTILE)
async def test_hostile_bodies_are_refused_clearly(site, body) -> None:
    bot = await site.bot()
    for path in (PULL, SUBMIT, "/api/crawl/submit/batch/", "/api/crawl/heartbeat/", "/api/crawl/release/"):
        answer = await bot.call("POST", path, content=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["code"] == "validation_error"


async def test_a_body_that_is_too_large_is_refused(site) -> None:
    bot = await site.bot()
    body = b'{"bot_id": "bot-1", "raw_html": "' + b"x" * (17 * 2**20) + b'"}'
    answer = await bot.call("POST", SUBMIT, content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")
