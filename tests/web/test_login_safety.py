"""Login under attack: guessing in parallel, bogus links, old sessions, and what the audit log keeps."""

import asyncio
import time

from opilio import audit
from tests.web.test_login import PASSWORD, choose_password

NEW = "another horse battery"


async def actions(site) -> list[tuple[str, str, str]]:
    rows = await audit.entries(site.opilio.database, None, 100)
    return [(row["actor"], row["action"], row["subject"]) for row in rows]


async def test_sixty_guesses_at_once_do_not_pass_the_limit(site) -> None:
    await choose_password(site)
    body = {"name": "admin", "password": "wrong password"}
    answers = await asyncio.gather(*(site.nobody.call("POST", "/api/v1/session", body) for _ in range(60)))
    tried = [answer for answer in answers if answer.status_code == 401]
    assert len(tried) == site.opilio.settings.login_attempts_per_minute
    assert {answer.status_code for answer in answers} <= {401, 429, 503}


async def test_a_hundred_bogus_links_are_refused_without_hashing(site) -> None:
    form = {"password": PASSWORD, "again": PASSWORD}
    began = time.process_time()
    answers = await asyncio.gather(*(site.http.post(f"/login/opl_bogus{n}", data=form) for n in range(100)))
    assert {answer.status_code for answer in answers} <= {400, 429}
    assert time.process_time() - began < 5, "no password is hashed for a link that does not exist"


async def test_a_guesser_behind_a_proxy_does_not_lock_out_others(site) -> None:
    await choose_password(site)
    body = {"name": "linh", "password": "wrong password"}
    for _ in range(site.opilio.settings.login_attempts_per_minute + 2):
        await site.nobody.call("POST", "/api/v1/session", body)
    assert (await site.nobody.call("POST", "/api/v1/session", body)).status_code == 429
    await site.nobody.ok("POST", "/api/v1/session", {"name": "admin", "password": PASSWORD}, status=201)


async def test_a_new_password_ends_old_sessions_and_links(site) -> None:
    await choose_password(site)
    old = site.http.cookies["opilio_session"]
    left = await site.opilio.operators.invite()
    used = await site.opilio.operators.invite()
    await site.http.post(f"/login/{used}", data={"password": NEW, "again": NEW})
    assert await site.opilio.operators.session(old) is None
    assert await site.opilio.operators.owner_of_link(left) is None
    assert await site.opilio.operators.session(site.http.cookies["opilio_session"]) is not None


async def test_an_operator_changes_the_own_password(site) -> None:
    await choose_password(site)
    other = await site.opilio.operators.log_in("admin", PASSWORD)
    page = await site.http.get("/account")
    assert "Change password" in page.text
    operator = await site.opilio.operators.session(site.http.cookies["opilio_session"])
    form = {"csrf": operator.csrf_token, "current": "wrong", "password": NEW, "again": NEW}
    assert (await site.http.post("/account", data=form)).status_code == 400
    assert (await site.http.post("/account", data=form | {"csrf": "guess"})).status_code == 403
    done = await site.http.post("/account", data=form | {"current": PASSWORD})
    assert "was changed" in done.text
    assert await site.opilio.operators.session(other) is None
    assert (await site.http.get("/")).status_code == 200, "the session that changed it goes on"
    site.http.cookies.clear()
    assert (await site.http.get("/account")).headers["location"] == "/login?next=%2Faccount"
    await site.nobody.ok("POST", "/api/v1/session", {"name": "admin", "password": NEW}, status=201)


async def test_the_api_changes_the_own_password(site) -> None:
    await choose_password(site)
    site.http.cookies.clear()
    login = await site.nobody.ok(
        "POST", "/api/v1/session", {"name": "admin", "password": PASSWORD}, status=201
    )
    body = {"current_password": PASSWORD, "new_password": NEW}
    await site.nobody.refused("forbidden", 403, "POST", "/api/v1/session/password", body)
    headers = {"x-csrf-token": login["csrf_token"]}
    await site.nobody.refused(
        "validation_error", 400, "POST", "/api/v1/session/password", body | {"new_password": "short"},
        headers=headers,
    )  # fmt: skip
    await site.nobody.ok("POST", "/api/v1/session/password", body, headers=headers)


async def test_logins_are_audited(site) -> None:
    await choose_password(site)
    await site.nobody.call("POST", "/api/v1/session", {"name": "admin", "password": "wrong password"})
    await site.nobody.call("POST", "/api/v1/session", {"name": "admin", "password": PASSWORD})
    found = await actions(site)
    assert ("anonymous", "login.failed", "admin") in found
    assert ("operator:admin", "login", "admin") in found
    assert ("operator:admin", "password.change", "admin") in found


async def test_a_link_for_a_typo_makes_no_admin(site) -> None:
    from opilio.errors import NotFound

    await choose_password(site)
    try:
        await site.opilio.operators.login_link("amdin")
    except NotFound as refusal:
        assert "--create" in refusal.message
    else:
        raise AssertionError("a login link for an operator that does not exist")
    assert [row["name"] for row in await site.opilio.operators.list()] == ["admin"]


async def test_api_keys_are_not_kept_by_the_schema_page(site) -> None:
    script = await site.http.get("/static/schema.js")
    assert "persistAuthorization: false" in script.text
