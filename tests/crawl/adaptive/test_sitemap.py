"""`lastmod` of a sitemap: read by the bot, handed over as the time of the change, learnt from exactly."""

from datetime import UTC, datetime, timedelta

import pytest

from opilio.bot import BotError, Result
from opilio.bot.result import success
from opilio.bot.sitemap import change_times
from opilio.crawl.submission import parse
from tests.crawl.farm import Farm, said

HEAD = '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
LAMP = "https://shop.example/lamp"


def sitemap(*pages: tuple[str, str | None]) -> bytes:
    urls = "".join(
        f"<url><loc> {url} </loc>{f'<lastmod>{at}</lastmod>' if at else ''}</url>" for url, at in pages
    )
    return f"{HEAD}{urls}</urlset>".encode()


def test_it_works() -> None:
    found = change_times(
        sitemap(
            ("https://a.example/1", "2026-03-01T10:00:00+07:00"),
            ("https://a.example/2?a=1&amp;b=2", "2026-03-01"),
            ("https://a.example/3", None),
            ("https://a.example/4", "yesterday"),
        )
    )
    assert found == {
        "https://a.example/1": datetime(2026, 3, 1, 3, tzinfo=UTC),
        "https://a.example/2?a=1&b=2": datetime(2026, 3, 1, tzinfo=UTC),
    }


@pytest.mark.parametrize(
    ("body", "says"), [(b"<urlset><url>", "not XML"), (b"<!DOCTYPE x><urlset/>", "DOCTYPE")]
)
def test_what_is_no_sitemap_is_refused(body: bytes, says: str) -> None:
    with pytest.raises(BotError, match=says):
        change_times(body)


async def test_the_adaptive_schedule_learns_from_it_exactly(farm: Farm) -> None:
    """One change three days before the visit: the shape grows by one, the days by three."""
    await farm.policy(LAMP, schedule="adaptive")
    await farm.opilio.budgets.refit()
    await crawl(farm, Result(price=1, currency="EUR"))
    farm.later(days=40)
    lastmod = (farm.clock.at - timedelta(days=3)).isoformat()
    await crawl(
        farm, Result(price=2, currency="EUR", changed_at=change_times(sitemap((LAMP, lastmod)))[LAMP])
    )
    (row,) = await farm.rows("select rate_shape, rate_days, changes_seen from policy_state")
    assert row["changes_seen"] == 1
    assert row["rate_shape"] == pytest.approx(1.0)
    assert row["rate_days"] == pytest.approx(3.0, rel=1e-3)


async def crawl(farm: Farm, result: Result) -> None:
    await farm.due()
    (job,) = await farm.pull()
    sent = parse("bot-1", success(job, result, 1.0))
    said((await farm.opilio.submitter.submit([sent]))[0])
