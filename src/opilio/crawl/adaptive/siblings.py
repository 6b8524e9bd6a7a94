"""Changes come together: one release, one sale, and many pages of a folder change at once.

A change that a page's own rate did not predict raises the chance that its siblings changed, too; how much is learnt for
each host from how its pages changed together before. Times are days since the epoch.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from opilio.crawl.adaptive.change_rate import Rate, chance_of_no_change

MOST_PAGES = 300
"""A folder with more pages is left alone: hurrying them all would use up a day's budget."""
RECENT = 14.0
"""Days for which a visit says something about its siblings."""
INDEPENDENT = 0.1
"""Below this correlation the pages of a host are taken as independent."""
_LEAST = 0.03  # chance of a common change that is worth acting on
_PAIRS = 200.0  # pairs of independent pages that are assumed before any are seen
_KEPT = 0.98  # of what was learnt about a host, each night
_QUERY = re.compile(r"[?#].*$", re.DOTALL)
_INDEX = re.compile(r"/+((index|default)(\.[^/]*)?)?$", re.IGNORECASE)
_LAST = re.compile(r"/[^/]*$")


class Sibling(NamedTuple):
    """A page of a folder as its last visit left it."""

    last: float
    due: float
    interval: float
    rate: Rate
    surprise: float | None = None
    """None if the last visit could not tell whether the page had changed."""
    gap: float = 0.0
    """Days between its last two visits."""


class Together(NamedTuple):
    """How surprises of pages in the same folder went together on a host: sums that fade."""

    products: float = 0.0
    pairs: float = 0.0
    squares: float = 0.0
    visits: float = 0.0
    total: float = 0.0

    @property
    def mean(self) -> float:
        """The average surprise: what a host's rates are wrong by, which says nothing about a common change."""
        return self.total / self.visits if self.visits > 0.0 else 0.0

    @property
    def correlation(self) -> float:
        """0 for pages that change independently, 1 for pages that always change together."""
        if self.squares <= 0.0:
            return 0.0
        found = self.products / (self.pairs + _PAIRS) / (self.squares / self.visits)
        return min(found, 0.95) if found >= INDEPENDENT else 0.0


def folder(url: str) -> str:
    """The URL without its query, an index file and its last part; `opilio_folder` in SQL is the same."""
    return _LAST.sub("", _INDEX.sub("", _QUERY.sub("", url)))


def chance_of_change(rate: Rate, gap: float) -> float:
    """The probability that the page changed within `gap` days."""
    return 1.0 - chance_of_no_change(rate, gap)


def together(folders: Sequence[Sequence[float]], mean: float) -> Together:
    """The sums of the recent surprises of each folder, around the mean of the host."""
    sums = [
        (sum(one - mean for one in seen), sum((one - mean) ** 2 for one in seen), len(seen))
        for seen in folders
        if seen
    ]
    visits = sum(count for _, _, count in sums)
    return Together(
        products=sum((total * total - squares) / count for total, squares, count in sums),
        pairs=sum(count - 1.0 for _, _, count in sums),
        squares=sum(squares for _, squares, _ in sums),
        visits=float(visits),
        total=sum(total for total, _, _ in sums) + mean * visits,
    )


def learn(known: Together, tonight: Together) -> Together:
    """Once a night; what was learnt before fades."""
    return Together(*(_KEPT * before + now for before, now in zip(known, tonight, strict=True)))


def hurried(pages: Sequence[Sibling], correlation: float, mean: float, now: float) -> list[int]:
    """Which pages of a folder should be crawled now: those as likely stale as when their interval ends."""
    if correlation <= 0.0 or len(pages) > MOST_PAGES:
        return []
    recent = [page for page in pages if page.surprise is not None and now - page.last < RECENT]
    changed = [page for page in recent if (page.surprise or 0.0) > 0.0]
    if not changed:
        return []
    # The best linear guess of one surprise from others that are equally correlated with it and with each other.
    total = sum((page.surprise or 0.0) - mean for page in recent)
    common = correlation * total / (1.0 + (len(recent) - 1.0) * correlation)
    if common < _LEAST:
        return []
    until = max(page.last for page in changed)
    since = min(max(page.last - page.gap for page in changed), until - 1e-6)
    return [index for index, page in enumerate(pages) if _is_worth_it(page, common, since, until, now)]


def _is_worth_it(page: Sibling, common: float, since: float, until: float, now: float) -> bool:
    """The common change came between `since` and `until`; a page that was visited in between may have it already."""
    if page.due <= now or page.last >= until:
        return False
    changed = common * min(1.0, (until - page.last) / (until - since))
    if changed < _LEAST:
        return False
    own = chance_of_change(page.rate, now - page.last)
    return 1.0 - (1.0 - changed) * (1.0 - own) >= chance_of_change(page.rate, page.interval)
