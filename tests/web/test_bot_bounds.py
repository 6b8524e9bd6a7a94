"""One bad value or item is refused by name and does not affect others."""

import asyncio
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.web.conftest import Caller, Site

PULL, SUBMIT, BATCH = "/api/crawl/pull/", "/api/crawl/submit/", "/api/crawl/submit/batch/"
GOOD = {"success": True, "price": 9.99, "currency": "USD"}
OUT_OF_RANGE = [
    "1e5000",
    "-1e5000",
    "1e400",
    "1e-20000",
    "1e99999999999999999999",
    "9" * 101,
    "0." + "3" * 101,
]


async def jobs(site: Site, bot: Caller, count: int, bot_id: str = "bot-1") -> list[Any]:
    for n in range(count):
        await site.policy(f"https://shop.example/{n}")
    await site.opilio.scheduler.create_due()
    pulled = await bot.ok("POST", PULL, {"bot_id": bot_id, "max_jobs": count})
    assert pulled["count"] == count
    return list(pulled["jobs"])


def result(job: Any, **fields: Any) -> dict[str, Any]:
    return {"job_id": job["job_id"], "lock_token": job["lock_token"], **fields}


async def post_text(caller: Caller, method: str, path: str, text: str) -> Any:
    """A body as written: numbers that Python's own JSON encoder cannot write."""
    headers = {"authorization": f"Bearer {caller.token}", "content-type": "application/json"}
    return await caller.http.request(method, path, content=text, headers=headers)


async def execute(site: Site, sql: str, *args: Any) -> Any:
    async with site.opilio.database.session() as session:
        return await session.connection.execute(sql, *args)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", OUT_OF_RANGE)
async def test_a_number_out_of_range_in_data(site: Site, number: str) -> None:
    bot = await site.bot()
    (job,) = await jobs(site, bot, 1)
    body = f'{{"bot_id": "bot-1", "job_id": "{job["job_id"]}", "success": true, "data": {{"x": {number}}}}}'
    answer = await post_text(bot, "POST", SUBMIT, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "validation_error"), answer.text
    await bot.ok("POST", SUBMIT, {"bot_id": "bot-1", **result(job, **GOOD)})


@pytest.mark.parametrize("field", ["crawl_config", "rule_set"])
@pytest.mark.parametrize("number", ["1e5000", "1e-20000"])
async def test_a_number_out_of_range_in_a_policy(site: Site, field: str, number: str) -> None:
    policy = await site.policy("https://shop.example/old")
    new = f'{{"url": "https://shop.example/new", "{field}": {{"x": {number}}}}}'
    answer = await post_text(site.writer, "POST", "/api/v1/policies", new)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["details"][0]["field"] == field
    path = f"/api/v1/policies/{policy['id']}"
    answer = await post_text(site.writer, "PATCH", path, f'{{"{field}": {{"x": [{number}]}}}}')
    assert answer.status_code == 400, answer.text
    assert len((await site.reader.ok("GET", "/api/v1/policies"))["items"]) == 1, "nothing was stored"


@pytest.mark.parametrize("number", ["1e308", "-1e-300", "9" * 100, "0.1", "-0", "12345678901234567890"])
async def test_numbers_within_range_are_stored(site: Site, number: str) -> None:
    bot = await site.bot()
    (job,) = await jobs(site, bot, 1)
    body = f'{{"bot_id": "bot-1", "job_id": "{job["job_id"]}", "success": true, "data": {{"x": {number}}}}}'
    assert (await post_text(bot, "POST", SUBMIT, body)).status_code == 200
    assert (await site.reader.call("GET", "/api/v1/results")).status_code == 200


async def test_values_stored_by_older_versions_are_still_read(site: Site) -> None:
    bot = await site.bot()
    first, second = await jobs(site, bot, 2)
    await execute(site, 'update policy_state set last_data = \'{"x": 1e5000, "y": 1e-9000}\'')
    await execute(site, "update policy set rule_set = '{\"x\": 1e5000}', crawl_config = '{\"x\": 1e5000}'")
    done = await bot.ok("POST", SUBMIT, {"bot_id": "bot-1", **result(first, **GOOD, data={"x": 1})})
    await execute(site, "update result set parsed_data = '{\"x\": 1e5000}'")
    policy_id = (await site.reader.ok("GET", f"/api/v1/jobs/{first['job_id']}"))["policy_id"]
    for path in ("results", f"results/{done['result_id']}", "policies", f"policies/{policy_id}/history"):
        assert (await site.reader.call("GET", f"/api/v1/{path}")).status_code == 200, path
    assert (await site.reader.call("GET", "/api/v1/policies/export")).status_code == 200
    await execute(site, "update job_active set locked_until = now() - interval '1 second'")
    assert (await site.opilio.lock_expiry.run_once()).total == 1
    assert second["job_id"]


# ── durations ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("duration", [1.7e308, 86_400.5, -1])
async def test_a_crawl_of_more_than_a_day(site: Site, duration: float) -> None:
    bot = await site.bot()
    (job,) = await jobs(site, bot, 1)
    body = {"bot_id": "bot-1", **result(job, **GOOD, crawl_duration=duration)}
    error = await bot.refused("validation_error", 400, "POST", SUBMIT, body)
    assert error["details"][0]["field"] == "crawl_duration"


async def test_stored_durations_are_clamped(site: Site) -> None:
    bot = await site.bot()
    for job in await jobs(site, bot, 3):
        await bot.ok("POST", SUBMIT, {"bot_id": "bot-1", **result(job, **GOOD, crawl_duration=1)})
    await site.opilio.dispatcher.write_activity()
    await execute(site, "update job_archive set crawl_duration = 1.7e308")
    await execute(site, "update bot_activity set duration_seconds = 1.7e308")
    await execute(site, "insert into bot_activity (bot_id, hour, done, duration_seconds)"
                        " values ('bot-1', now() - interval '2 hours', 1, 1.7e308)")  # fmt: skip
    assert (await site.reader.ok("GET", "/api/v1/stats"))["mean_duration_seconds"] == 86_400
    assert (await site.reader.ok("GET", "/api/v1/bots"))["items"][0]["mean_duration_seconds"] == 86_400
    page = (await site.http.get("/metrics")).text
    assert "\noldest_due_job_seconds " in page


# ── one bad item ─────────────────────────────────────────────────────────────────────────────────


async def test_a_bad_item_of_a_batch_is_refused_alone(site: Site) -> None:
    bot = await site.bot()
    good, bad = await jobs(site, bot, 2)
    items = [
        result(good, **GOOD),
        result(bad, **GOOD | {"currency": "US"}),
        {"job_id": "no uuid"},
        17,
        result(bad, success=False, unknown=1),
    ]
    answer = await bot.ok("POST", BATCH, {"bot_id": "bot-1", "results": items})
    assert [item["success"] for item in answer["results"]] == [True, False, False, False, False]
    assert [item["job_id"] for item in answer["results"]][:2] == [good["job_id"], bad["job_id"]]
    assert answer["results"][1]["error"]["details"][0]["field"] == "currency"
    assert {item["error"]["code"] for item in answer["results"][1:]} == {"validation_error"}


@pytest.mark.parametrize("results", ["[]", "{}", "null", '"x"', "[" + "1," * 100 + "1]"])
async def test_no_batch_at_all(site: Site, results: str) -> None:
    bot = await site.bot()
    answer = await post_text(bot, "POST", BATCH, f'{{"bot_id": "bot-1", "results": {results}}}')
    assert (answer.status_code, answer.json()["error"]["details"][0]["field"]) == (400, "results")


async def test_one_failing_item_does_not_fail_the_others(site: Site) -> None:
    """A row that no rule can read, in the middle of a batch and beside single submits of honest bots."""
    bot = await site.bot()
    held = await jobs(site, bot, 12)
    poison = held[5]["job_id"]
    await execute(site, "update policy set frequency_hours = 1e300 where policy_id = ("
                        "select policy_id from job_active where job_id = $1::uuid)", poison)  # fmt: skip
    batch = {"bot_id": "bot-1", "results": [result(job, **GOOD) for job in held[:6]]}
    alone = [
        bot.call("POST", SUBMIT, {"bot_id": "bot-1", **result(job, **GOOD)}) for job in [held[5], *held[6:]]
    ]
    together, poisoned, *honest = await asyncio.gather(bot.ok("POST", BATCH, batch), *alone)
    assert [item["success"] for item in together["results"]] == [True] * 5 + [False]
    assert together["results"][5]["error"]["code"] == "internal_error"
    assert poisoned.status_code == 500
    assert [answer.status_code for answer in honest] == [200] * 6


async def test_the_sweeper_goes_on_past_a_lock_that_it_cannot_expire(site: Site) -> None:
    bot = await site.bot()
    held = await jobs(site, bot, 5)
    await execute(site, "update policy set frequency_hours = 1e300 where policy_id = ("
                        "select policy_id from job_active where job_id = $1::uuid)", held[2]["job_id"])  # fmt: skip
    await execute(site, "update job_active set locked_until = now() - interval '1 second'")
    assert (await site.opilio.lock_expiry.run_once()).total == 4
    assert (await site.opilio.lock_expiry.run_once()).total == 0, "the fifth is tried again later"


async def test_a_page_that_cannot_be_stored_fails_its_item_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = await site.bot()
    held = await jobs(site, bot, 3)
    put, uploaded = site.opilio.pages.put_page, []

    async def failing(result_id: Any, html: str) -> str:
        if "bad" in html:
            raise OSError("the store is full")
        uploaded.append(html)
        return await put(result_id, html)

    monkeypatch.setattr(type(site.opilio.pages), "put_page", lambda _, *args: failing(*args))
    pages = ["good" * 100_000, "bad!" * 100_000, "small"]
    items = [result(job, **GOOD, raw_html=page) for job, page in zip(held, pages, strict=True)]
    stranger = {"job_id": str(uuid4()), **GOOD, "raw_html": "late" * 100_000}
    answer = await bot.ok("POST", BATCH, {"bot_id": "bot-1", "results": [*items, stranger]})
    codes = [item.get("error", {}).get("code") for item in answer["results"]]
    assert codes == [None, "unavailable", None, "job_not_found"]
    assert [html[:4] for html in uploaded] == ["good"], "pages of refused submits are not uploaded"
    monkeypatch.undo()
    await bot.ok("POST", SUBMIT, {"bot_id": "bot-1", **items[1]})


async def test_beyond_its_bounds_the_server_says_so_at_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = await site.bot()
    held = await jobs(site, bot, 4)
    monkeypatch.setattr(site.opilio.dispatcher._submits, "_most_waiting", 2)
    submits = [bot.call("POST", SUBMIT, {"bot_id": "bot-1", **result(job, **GOOD)}) for job in held]
    batch = {"bot_id": "bot-1", "results": [result(job, **GOOD) for job in held[:3]]}
    full, *_ = await asyncio.gather(bot.call("POST", BATCH, batch), *submits)
    assert (full.status_code, full.json()["error"]["code"]) == (503, "unavailable")
    assert full.headers["retry-after"] == "1"


# ── texts and times ──────────────────────────────────────────────────────────────────────────────


async def test_a_line_feed_is_no_part_of_a_currency_or_bot_id(site: Site) -> None:
    bot = await site.bot()
    (job,) = await jobs(site, bot, 1)
    body = {"bot_id": "bot-1", **result(job, **GOOD | {"currency": "USD\n"})}
    await bot.refused("validation_error", 400, "POST", SUBMIT, body)
    await bot.refused("validation_error", 400, "POST", PULL, {"bot_id": "bot-1\n"})


@pytest.mark.parametrize("price", ['"19.99"', "19.99", "123456789012345678.123456"])
async def test_prices_as_numbers_or_strings(site: Site, price: str) -> None:
    bot = await site.bot()
    (job,) = await jobs(site, bot, 1)
    body = f'{{"bot_id": "bot-1", "job_id": "{job["job_id"]}", "success": true, "currency": "USD", "price": {price}}}'
    answer = await post_text(bot, "POST", SUBMIT, body)
    assert answer.status_code == 200, answer.text
    assert f'"price":{price.strip(chr(34))}' in answer.text


@pytest.mark.parametrize(
    "moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T00:00:00Z"]
)
async def test_a_time_that_cannot_be_stored(site: Site, moment: str) -> None:
    body = {"url": "https://shop.example/", "next_run_at": moment}
    error = await site.writer.refused("validation_error", 400, "POST", "/api/v1/policies", body)
    assert error["details"][0]["field"] == "next_run_at"


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
@pytest.mark.parametrize(
    "path",
    [
        f"/api/v1/analytics/p/{part}"
        for part in ("summary", "trends", "posts", "keywords", "share-of-voice", "errors")
    ],
)
async def test_an_impossible_time_is_refused(site: Site, path: str, moment: str) -> None:
    for field in ("since", "until"):
        address = f"{path}?{field}={quote(moment)}"
        error = await site.reader.refused("validation_error", 400, "GET", address)
        assert error["details"][0]["field"] == field


async def test_the_character_u0000_is_refused_by_name_wherever_it_is_sent(site: Site) -> None:
    webhook = await site.admin.ok(
        "POST", "/api/v1/webhooks", {"url": "https://hook.example/", "events": ["*"]}, status=201
    )
    nul = "a\x00b"
    sent = [
        ("POST", "/api/v1/dry-runs", {"keywords": ["tea", nul]}, "keywords[1]"),
        ("PATCH", f"/api/v1/webhooks/{webhook['id']}", {"description": nul}, "description"),
        ("POST", "/api/v1/policies", {"url": "https://a.example/", "labels": {nul: "x"}}, "labels"),
        ("POST", "/api/v1/projects", {"project_id": "p", "brand_keywords": [nul]}, "brand_keywords[0]"),
    ]
    for method, path, body, field in sent:
        error = await site.admin.refused("validation_error", 400, method, path, body)
        assert error["details"][0]["field"] == field, path
        assert "U+0000" in error["message"]
    literal = {"description": "a\\u0000b"}  # a backslash and five characters
    await site.admin.ok("PATCH", f"/api/v1/webhooks/{webhook['id']}", literal)


@pytest.mark.parametrize("cursor", ["AAAA", "wrI", "²", "OTk5OTk5OTk5OTk5OTk5OTk5OQ"])
@pytest.mark.parametrize("path", ["policies", "jobs", "results", "hosts", "bots", "projects"])
async def test_a_cursor_that_no_list_gave_out(site: Site, path: str, cursor: str) -> None:
    answer = await site.reader.call("GET", f"/api/v1/{path}?cursor={cursor}")
    if answer.status_code != 200:  # a text that happens to be a name is a place in the list
        assert (answer.status_code, answer.json()["error"]["details"][0]["field"]) == (400, "cursor")


async def test_results_are_called_as_the_specification_calls_them(site: Site) -> None:
    bot = await site.bot()
    (job,) = await jobs(site, bot, 1)
    done = await bot.ok("POST", SUBMIT, {"bot_id": "bot-1", **result(job, success=True, data={"rating": 4})})
    assert (await site.reader.ok("GET", f"/api/v1/results/{done['result_id']}"))["parsed_data"] == {
        "rating": 4
    }
    assert (await site.reader.ok("GET", "/api/v1/results"))["items"][0]["parsed_data"] == {"rating": 4}
