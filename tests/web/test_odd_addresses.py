"""Pages of the dashboard with addresses that nobody types but everybody can."""

from urllib.parse import quote

import pytest

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


async def test_data_without_a_page_is_data(site: Site) -> None:
    await choose_password(site)
    policy = await site.policy()
    for path in ("/overview/series", f"/policies/{policy['id']}/values"):
        answer = await site.http.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
