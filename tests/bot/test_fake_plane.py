"""The fake control plane answers as the real one does."""

import httpx2
import pytest

from opilio.bot.testing import FakeControlPlane


@pytest.fixture
async def api(plane: FakeControlPlane):
    async with httpx2.AsyncClient(
        transport=plane.transport,
        base_url=plane.server,
        headers={"authorization": f"Bearer {plane.token('bot-1')}"},
    ) as client:
        yield client


async def pull(api, **options) -> list[dict]:
    answer = await api.post("/api/crawl/pull/", json={"bot_id": "bot-1", **options})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["jobs"]


def outcome(job: dict, **fields) -> dict:
    return {
        "job_id": job["job_id"],
        "lock_token": job["lock_token"],
        "success": True,
        "price": 1.10,
        "currency": "EUR",
        **fields,
    }


async def submit(api, job: dict, bot_id: str = "bot-1", **fields):
    return await api.post("/api/crawl/submit/", json={"bot_id": bot_id, **outcome(job, **fields)})


async def test_it_works(plane, api):
    plane.add("https://shop.example/1", crawl_config={"headers": {}}, rule_set={"price": "b"})
    [job] = await pull(api)
    assert job["crawl_config"] == {"headers": {}}
    answer = (await submit(api, job)).json()
    assert answer["success"] is True
    assert answer["data"]["status"] == "done"
    assert {"result_id", "job_id", "price", "currency", "policy_next_run"} <= set(answer["data"])


async def test_both_forms_of_the_path(plane, api):
    assert (await api.post("/api/crawl/pull", json={"bot_id": "bot-1"})).status_code == 200


async def test_the_higher_priority_comes_first(plane, api):
    for priority in (10, 90, 50):
        plane.add(f"https://shop.example/{priority}", priority=priority)
    assert [job["priority"] for job in await pull(api, max_jobs=2)] == [90, 50]


async def test_a_domain_means_its_subdomains_too(plane, api):
    for host in ("shop.example", "www.shop.example", "notshop.example"):
        plane.add(f"https://{host}/")
    assert len(await pull(api, domain="shop.example")) == 2


async def test_the_same_submit_gets_the_same_answer(plane, api):
    plane.add("https://shop.example/1")
    [job] = await pull(api)
    first, second = await submit(api, job), await submit(api, job)
    assert first.json() == second.json()


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"price": None}, 400, "validation_error"),
        ({"currency": "EURO"}, 400, "validation_error"),
        ({"colour": "red"}, 400, "validation_error"),
        ({"job_id": "00000000-0000-0000-0000-000000000000"}, 404, "job_not_found"),
        ({"bot_id": "bot-2"}, 403, "forbidden"),
    ],
)
async def test_refusals_of_submit(plane, api, change, status, code):
    plane.add("https://shop.example/1")
    [job] = await pull(api)
    answer = await submit(api, job, **change)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_another_body_for_a_finished_job_is_refused(plane, api):
    plane.add("https://shop.example/1")
    [job] = await pull(api)
    await submit(api, job)
    assert (await submit(api, job, price=2)).json()["error"]["code"] == "invalid_state"


async def test_after_the_ttl_a_submit_is_late(plane, api):
    job_id = plane.add("https://shop.example/1")
    [job] = await pull(api)
    plane.skip(601)
    assert (await submit(api, job)).json()["error"]["code"] == "lock_expired"
    assert len(plane.job(job_id).late) == 1


async def test_a_foreign_bot_is_refused(plane, api):
    plane.add("https://shop.example/1")
    [job] = await pull(api)
    api.headers["authorization"] = f"Bearer {plane.token('bot-2')}"
    job["lock_token"] = "00000000-0000-0000-0000-000000000000"
    answer = await submit(api, job, bot_id="bot-2")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_assigned")


async def test_retries_end(plane, api):
    plane.add("https://shop.example/1", max_retries=1)
    said = []
    for _ in range(2):
        [job] = await pull(api)
        answer = await submit(api, job, success=False, price=None, error_code="TIMEOUT")
        said.append(answer.json()["data"]["status"])
    assert said == ["pending", "failed"]


async def test_a_final_code_fails_at_once(plane, api):
    plane.add("https://shop.example/1")
    [job] = await pull(api)
    answer = await submit(api, job, success=False, price=None, error_code="CONTENT_REMOVED")
    assert answer.json()["data"]["status"] == "failed"


async def test_a_lock_is_extended_ten_times_its_life_at_most(plane, api):
    plane.add("https://shop.example/1", timeout_seconds=1000)  # the clock goes on between the skips
    [job] = await pull(api)
    held = {"bot_id": "bot-1", "jobs": [{"job_id": job["job_id"], "lock_token": job["lock_token"]}]}
    for _ in range(11):
        plane.skip(900)
        answer = (await api.post("/api/crawl/heartbeat/", json=held)).json()["data"]["jobs"][0]
    assert answer["success"] is True
    plane.skip(900)
    answer = (await api.post("/api/crawl/heartbeat/", json=held)).json()["data"]["jobs"][0]
    assert answer["error"]["code"] == "lock_expired"


async def test_a_released_job_can_be_pulled_at_once(plane, api):
    plane.add("https://shop.example/1")
    [job] = await pull(api)
    held = {"bot_id": "bot-1", "jobs": [{"job_id": job["job_id"], "lock_token": job["lock_token"]}]}
    await api.post("/api/crawl/release/", json=held)
    [again] = await pull(api)
    assert again["retry_count"] == 0
    assert again["lock_token"] != job["lock_token"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"bot_id": 1}', b'{"bot_id": "bot-1", "max_jobs": 101}']
)
async def test_bodies_that_are_wrong(api, body):
    answer = await api.post("/api/crawl/pull/", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "validation_error")


async def test_held_jobs_are_counted_as_skipped(plane, api):
    plane.add("https://shop.example/1")
    await pull(api)
    api.headers["authorization"] = f"Bearer {plane.token('bot-2')}"
    answer = (await api.post("/api/crawl/pull/", json={"bot_id": "bot-2"})).json()["data"]
    assert (answer["count"], answer["skipped"], answer["retry_after"]) == (0, 1, 60.0)
