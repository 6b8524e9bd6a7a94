"""Dead letters over HTTP."""

from tests.delivery.replays import HEADERS, ROUTING_KEY, assert_replayed_as_it_was, one_dead_letter


async def test_one_is_replayed_as_it_was_published(site) -> None:
    database = site.opilio.database
    letter = await one_dead_letter(database, site.opilio.settings)
    shown = await site.reader.ok("GET", f"/api/v1/dlq/{letter}")
    assert shown["routing_key"] == ROUTING_KEY
    assert HEADERS.items() <= shown["headers"].items()
    await site.writer.ok("POST", f"/api/v1/dlq/{letter}/replay")
    await assert_replayed_as_it_was(database)
    await site.writer.refused("conflict", 409, "POST", f"/api/v1/dlq/{letter}/replay")
