"""Untrusted text never runs, roles hold on the server, forms need the session's token."""

from typing import Any

import pytest
from httpx2 import AsyncClient
from playwright.async_api import Page, expect

from opilio import audit
from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import PASSWORD, Bot, add_policy

EVIL = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>{{7*7}}\"'><svg onload=window.hacked=1>"
PAGE = (
    f"<html><body><h1>shop</h1>{EVIL}<script>parent.hacked=1; top.location='/logout'</script></body></html>"
)


async def test_payloads_in_every_field_are_text(admin: Page, opilio: Opilio, bot: Bot) -> None:
    policy_id = await add_policy(
        opilio,
        "https://a.example/?q=<script>window.hacked=1</script>",
        labels={EVIL[:80]: EVIL},
        crawl_config={EVIL: EVIL},
        rule_set={"x": [EVIL]},
        max_retries=0,
    )
    job_id = await opilio.operator_actions.run_now(policy_id, EVIL)
    [job] = await bot.pull()
    await bot.submit(job, success=False, error_code="EVIL", error_msg=EVIL)
    await opilio.operator_actions.apply("reset", [job_id], "operator:test")
    [job] = await bot.pull()
    await bot.submit(job, success=True, title=EVIL, data={EVIL: EVIL, "n": 1}, raw_html=PAGE)
    await audit.record(opilio.database, EVIL, EVIL, EVIL, {EVIL: EVIL})
    await opilio.credentials.new_key(EVIL[:100], "read")
    await opilio.operators.invite(EVIL[:90], "viewer")
    await opilio.views.save("policies", EVIL, f"q={EVIL}", EVIL)
    pages = [
        "/", "/policies", f"/policies?q={EVIL}", f"/policies/{policy_id}", f"/policies/{policy_id}/edit", "/jobs", f"/jobs/{job_id}",
        f"/jobs?host={EVIL}", "/results", "/bots", f"/hosts?q={EVIL}", "/settings", "/settings/audit", "/events", f"/events?subject={EVIL}",
        "/webhooks", "/dlq",
    ]  # fmt: skip
    for path in pages:
        await admin.goto(path)
        await expect(admin.locator("main h1")).to_be_visible()
        assert not await hacked(admin), path


async def test_a_crawled_page_is_shown_without_running(admin: Page, opilio: Opilio, bot: Bot) -> None:
    policy_id = await add_policy(opilio, "https://a.example/")
    job_id = await opilio.operator_actions.run_now(policy_id, "test")
    [job] = await bot.pull()
    page = "<h1>shop</h1><script>parent.hacked=1</script><iframe srcdoc='<script>top.hacked=1</script>'></iframe>"
    await bot.submit(job, success=True, data={"n": 1}, raw_html=page)
    await admin.goto(f"/jobs/{job_id}")
    await admin.get_by_text("Page snapshot (scripts").click()
    frame = admin.frame_locator("iframe.safe")
    await expect(frame.get_by_role("heading", name="shop")).to_be_visible()
    assert not await hacked(admin)
    result = (await opilio.insights.job(job_id)).result_id
    answer = await admin.request.get(f"/results/{result}/page")
    assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"


async def hacked(page: Page) -> Any:
    session = await page.context.new_cdp_session(page)
    answer = await session.send("Runtime.evaluate", {"expression": "window.hacked === 1"})
    await session.detach()
    return answer["result"]["value"]


async def test_the_palette_treats_words_as_words(admin: Page) -> None:
    await admin.goto("/")
    await admin.keyboard.press("Control+k")
    await admin.get_by_label("Search", exact=True).fill(EVIL)
    await expect(admin.locator("#palette-results")).to_contain_text("{{7*7}}")
    assert not await hacked(admin)


# ── without a browser: what a stranger could send ────────────────────────────────────────────────


@pytest.fixture
async def http(site: str) -> Any:
    async with AsyncClient(base_url=site) as client:
        yield client


async def enter(http: AsyncClient, opilio: Opilio, name: str, role: str) -> str:
    secret = await opilio.operators.invite(name, role)
    await http.post(f"/login/{secret}", data={"password": PASSWORD, "again": PASSWORD})
    operator = await opilio.operators.session(http.cookies["opilio_session"])
    assert operator is not None
    return str(operator.csrf_token)


POSTS = [
    "/policies/new", "/policies/{id}/edit", "/policies/{id}/run", "/policies/{id}/switch", "/policies/{id}/delete", "/policies/import",
    "/bulk/policies", "/bulk/policies/run", "/bulk/jobs", "/bulk/jobs/run", "/jobs/{id}/act", "/hosts/limits", "/views", "/views/{id}/delete",
    "/projects/new", "/bots/tokens", "/bots/tokens/revoke", "/settings/operators", "/settings/operators/change", "/settings/keys", "/settings/keys/revoke",
    "/webhooks", "/webhooks/{id}/switch", "/webhooks/{id}/test", "/webhooks/{id}/secret", "/webhooks/{id}/replay", "/webhooks/{id}/delete",
    "/dlq/{id}/replay", "/dry-runs/new", "/projects/{id}/close",
    "/alerts", "/alerts/{id}", "/alerts/{id}/switch", "/alerts/{id}/delete", "/analytics/{id}/retry", "/webhooks/receiver",
]  # fmt: skip


async def test_the_list_of_forms_is_whole() -> None:
    from opilio.web.dashboard.routes import dashboard_routes

    known = {
        path.replace("{id:str}", "{id}")
        for route in dashboard_routes()
        if "POST" in {str(method) for method in route.http_methods}
        for path in route.paths
    }
    assert known == {
        *POSTS,
        "/policies/preview",
        "/account/sessions",
    }  # which change nothing but the viewer's own


async def test_a_viewer_can_send_none_of_the_forms(http: AsyncClient, opilio: Opilio) -> None:
    csrf = await enter(http, opilio, "linh", "viewer")
    policy_id = await add_policy(opilio, "https://a.example/1")
    for path in POSTS:
        answer = await http.post(path.format(id=policy_id), data={"csrf": csrf})
        assert answer.status_code == 403, path
    assert (await opilio.insights.policy(policy_id)).enabled


async def test_no_form_is_taken_without_its_token(http: AsyncClient, opilio: Opilio) -> None:
    csrf = await enter(http, opilio, "admin", "admin")
    policy_id = await add_policy(opilio, "https://a.example/1")
    for path in POSTS:
        for sent in ({}, {"csrf": "guess"}):
            answer = await http.post(path.format(id=policy_id), data=sent)
            assert answer.status_code == 403, path
        foreign = await http.post(
            path.format(id=policy_id), data={"csrf": csrf}, headers={"sec-fetch-site": "cross-site"}
        )
        assert foreign.status_code == 403, path


async def test_an_operator_acts_but_makes_no_tokens(http: AsyncClient, opilio: Opilio) -> None:
    csrf = await enter(http, opilio, "linh", "operator")
    policy_id = await add_policy(opilio, "https://a.example/1")
    assert (await http.post(f"/policies/{policy_id}/run", data={"csrf": csrf})).status_code == 303
    assert (await http.post("/bots/tokens", data={"csrf": csrf, "bot_id": "x"})).status_code == 403
    assert (await http.get("/settings")).status_code == 403


async def test_without_login_only_the_login_page_is_shown(http: AsyncClient) -> None:
    for path in ("/", "/policies", "/jobs", "/settings", "/results"):
        answer = await http.get(path)
        assert (answer.status_code, answer.headers["location"].startswith("/login")) == (303, True)
    for path in ("/policies.json", "/jobs.csv", "/live", "/palette?q=a"):
        assert (await http.get(path, headers={"hx-request": "true"})).status_code == 401


async def test_every_page_carries_the_policy(http: AsyncClient, opilio: Opilio) -> None:
    await enter(http, opilio, "admin", "admin")
    for path in ("/", "/policies", "/jobs", "/bots", "/login"):
        csp = (await http.get(path)).headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in csp
        assert "unsafe" not in csp


async def test_cells_of_a_csv_are_no_formulas(http: AsyncClient, opilio: Opilio, bot: Bot) -> None:
    await enter(http, opilio, "admin", "admin")
    policy_id = await add_policy(opilio, "https://a.example/1")
    await opilio.operator_actions.run_now(policy_id, "test")
    [job] = await bot.pull()
    await bot.submit(job, success=True, title="=HYPERLINK(1)", price=-0.0, currency="EUR", data={"a": 1})
    text = (await http.get("/results.csv")).text
    assert "'=HYPERLINK(1)" in text
