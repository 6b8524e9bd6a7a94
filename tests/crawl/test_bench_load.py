"""What the benches measure: first crawls, in which everything is new, and repeated ones that find nothing new."""

import json

import pytest
from bench import load
from bench.databases import fill

from tests.crawl.farm import FarmMaker


@pytest.mark.parametrize("crawled", [False, True])
async def test_what_the_load_submits_is_new_only_at_the_first_crawl(
    farm_with: FarmMaker, crawled: bool
) -> None:
    farm = farm_with()  # without its audit: these jobs are made by the clock of the machine
    await fill(farm.database.url, 3, hosts=3, jobs=True, crawled=crawled)
    found = json.loads(f"{{{load.RESULT}}}")
    for job in await farm.pull(most=3):
        await farm.submit(job, **found)
    assert await farm.value("select count(*) from job_archive where changed is null") == (3 if crawled else 0)
    assert await farm.value("select count(*) from value_change") == (0 if crawled else 12)
