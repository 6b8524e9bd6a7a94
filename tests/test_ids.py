"""Ids that sort by time."""

from datetime import UTC, datetime, timedelta
from uuid import RFC_4122

from opilio.ids import oldest_uuid7, uuid7


def test_it_works() -> None:
    before = oldest_uuid7(datetime.now(UTC) - timedelta(milliseconds=1))
    ids = [uuid7() for _ in range(1000)]
    after = oldest_uuid7(datetime.now(UTC) + timedelta(milliseconds=2))
    assert len(set(ids)) == 1000
    assert {(one.version, one.variant) for one in ids} == {(7, RFC_4122)}
    assert before < min(ids) <= max(ids) < after
