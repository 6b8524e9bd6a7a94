"""How long messages took is measured by their `emitted_at`; a keyword that a platform has few posts for is logged."""

from datetime import UTC, datetime, timedelta

from structlog.testing import capture_logs

from opilio.collector.metrics import RESULT_DELAY, TASK_DELAY
from tests.collector.samples import v2
from tests.collector.world import until


def measured(histogram, platform):
    """Number and sum of the observations of a platform."""
    values = {
        sample.name.rsplit("_", 1)[-1]: sample.value
        for family in histogram.collect()
        for sample in family.samples
        if sample.labels.get("platform") == platform and sample.name.endswith(("_count", "_sum"))
    }
    return values.get("count", 0.0), values.get("sum", 0.0)


async def test_delays_are_measured_and_few_posts_are_logged(world):
    before, sent_before = measured(RESULT_DELAY, "tiktok"), measured(TASK_DELAY, "tiktok")
    await world.create(brand_keywords=["iphone"], platforms=["tiktok"])
    await world.reaches(status="PROCESSING")
    emitted_at = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    with capture_logs() as logs:
        await world.result({**v2(found=3), "emitted_at": emitted_at})

        async def observed():
            return measured(RESULT_DELAY, "tiktok")[0] > before[0]

        await until(observed)
    count, total = measured(RESULT_DELAY, "tiktok")
    assert count - before[0] == 1
    assert 300 <= total - before[1] < 400
    assert measured(TASK_DELAY, "tiktok")[0] - sent_before[0] == 1
    [entry] = [log for log in logs if log["event"] == "collector.platform_limited"]
    assert (entry["log_level"], entry["job_id"], entry["requested"], entry["found"]) == (
        "warning", "proj123-brand-0", 50, 3,
    )  # fmt: skip
