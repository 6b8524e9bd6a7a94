"""Pages of the dashboard with unusual addresses."""

from urllib.parse import quote

import pytest

from opilio.contracts.policies import PolicyPatch
from opilio.crawl.policies import Draft
from opilio.web.dashboard import policies
from tests.web.conftest import Site
from tests.web.test_login import choose_password


@pytest.mark.parametrize(
    "path",
    [
        "/policies?page=²", "/policies?page=-1", "/policies?page=99999", "/hosts?page=²", "/settings/audit?before=²",
        "/projects/%00", "/projects/%00.json", "/policies/0190a1b2-c3d4-7000-8000-000000000001/values", "/analytics/nobody/trends",
        "/overview/series", "/overview/series?hours=²", "/jobs?cursor=AAAA", "/results?cursor=AAAA",
        f"/jobs/{quote(chr(0))}", f"/policies/{quote('²')}",
    ],
)  # fmt: skip
async def test_no_page_fails(site: Site, path: str) -> None:
    await choose_password(site)
    answer = await site.http.get(path)
    assert answer.status_code < 500, answer.text[:300]


async def test_a_list_goes_on_after_page_200(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await choose_password(site)
    await site.opilio.policies.import_drafts(
        [Draft(n, f"https://shop.example/{n}", PolicyPatch()) for n in range(202)]
    )
    monkeypatch.setattr(policies, "_SIZE", 1)
    seen = [(await site.http.get(f"/policies.json?page={page}")).json() for page in (199, 200, 201, 202, 203)]
    urls = [[row["url"] for row in rows["items"]] for rows in seen]
    assert urls[4] == []
    assert len({url for row in urls[:4] for url in row}) == 4, urls
    assert "page=201" in (await site.http.get("/policies?page=200")).text


async def test_data_without_a_page_is_data(site: Site) -> None:
    await choose_password(site)
    policy = await site.policy()
    for path in ("/overview/series", f"/policies/{policy['id']}/values"):
        answer = await site.http.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
