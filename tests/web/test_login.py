"""Operators: the one-time link, the password, the session, and what a browser may do with it."""

import re

PASSWORD = "correct horse battery"


async def choose_password(site) -> str:
    secret = await site.opilio.operators.invite()
    form = {"password": PASSWORD, "again": PASSWORD}
    answer = await site.http.post(f"/login/{secret}", data=form)
    assert answer.status_code == 303
    return secret


async def test_the_link_lets_a_newcomer_choose_a_password(site) -> None:
    secret = await site.opilio.operators.invite()
    page = await site.http.get(f"/login/{secret}")
    assert "Choose a password" in page.text
    answer = await site.http.post(f"/login/{secret}", data={"password": PASSWORD, "again": PASSWORD})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    home = await site.http.get("/")
    assert "operator:admin" in home.text


async def test_a_link_works_once(site) -> None:
    secret = await choose_password(site)
    assert (await site.http.get(f"/login/{secret}")).status_code == 410
    again = await site.http.post(f"/login/{secret}", data={"password": PASSWORD, "again": PASSWORD})
    assert again.status_code == 400


async def test_an_invented_link_opens_nothing(site) -> None:
    assert (await site.http.get("/login/opl_guess")).status_code == 410


async def test_passwords_must_agree_and_be_long(site) -> None:
    secret = await site.opilio.operators.invite()
    differ = await site.http.post(f"/login/{secret}", data={"password": PASSWORD, "again": "x"})
    assert "differ" in differ.text
    short = await site.http.post(f"/login/{secret}", data={"password": "short", "again": "short"})
    assert "at least 10" in short.text
    assert (await site.http.get(f"/login/{secret}")).status_code == 200


async def test_password_to_session(site) -> None:
    await choose_password(site)
    site.http.cookies.clear()
    assert (await site.http.get("/")).headers["location"] == "/login"
    wrong = await site.http.post("/login", data={"name": "admin", "password": "nope"})
    assert wrong.status_code == 401
    right = await site.http.post("/login", data={"name": "admin", "password": PASSWORD})
    assert right.status_code == 303
    assert (await site.http.get("/")).status_code == 200


async def test_a_session_reads_and_writes_the_api_with_its_csrf_token(site) -> None:
    await choose_password(site)
    site.http.cookies.clear()
    login = await site.nobody.ok(
        "POST", "/api/v1/session", {"name": "admin", "password": PASSWORD}, status=201
    )
    await site.nobody.ok("GET", "/api/v1/policies")
    body = {"url": "https://shop.example/1"}
    await site.nobody.refused("forbidden", 403, "POST", "/api/v1/policies", body)
    headers = {"x-csrf-token": login["csrf_token"]}
    await site.nobody.ok("POST", "/api/v1/policies", body, status=201, headers=headers)


async def test_logging_out_needs_the_csrf_token_too(site) -> None:
    await choose_password(site)
    await site.http.post("/logout", data={"csrf": "guess"})
    home = await site.http.get("/")
    token = re.search(r'name="csrf" value="([^"]+)"', home.text)
    assert token is not None
    await site.http.post("/logout", data={"csrf": token.group(1)})
    assert (await site.http.get("/")).headers["location"] == "/login"


async def test_guessing_is_slowed_down(site) -> None:
    await choose_password(site)
    for _ in range(site.opilio.settings.login_attempts_per_minute):
        await site.nobody.refused(
            "unauthorized", 401, "POST", "/api/v1/session", {"name": "admin", "password": "x"}
        )
    body = {"name": "admin", "password": PASSWORD}
    answer = await site.nobody.call("POST", "/api/v1/session", body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")
    assert int(answer.headers["retry-after"]) > 0


async def test_pages_run_no_foreign_script(site) -> None:
    await choose_password(site)
    await site.opilio.credentials.new_bot_token("bot-1")
    bot = await site.bot()
    job = await site.locked(bot)
    sent = {"bot_id": "bot-1", "job_id": job["job_id"], "success": True, "price": 1, "currency": "EUR"}
    await bot.ok("POST", "/api/crawl/submit/", sent | {"title": "<script>alert(1)</script>"})
    home = await site.http.get("/results")
    assert "<script>alert(1)</script>" not in home.text
    assert "&lt;script&gt;" in home.text
    assert "default-src 'none'" in home.headers["content-security-policy"]
