"""Ids that sort by time, and ids that nobody can guess."""

from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

from opilio.ids import oldest_uuid7, random_uuids, uuid7, uuid7s


def test_it_works() -> None:
    before = oldest_uuid7(datetime.now(UTC) - timedelta(milliseconds=1))
    ids = [uuid7(), *uuid7s(999)]
    after = oldest_uuid7(datetime.now(UTC) + timedelta(milliseconds=2))
    assert len(set(ids)) == 1000
    assert {(one.version, one.variant) for one in ids} == {(7, RFC_4122)}
    assert before < min(ids) <= max(ids) < after


def test_random_uuids_are_versions_4_and_all_different() -> None:
    found = random_uuids(500)
    ids = [UUID(bytes=found[at : at + 16]) for at in range(0, len(found), 16)]
    assert len(set(ids)) == 500
    assert {(one.version, one.variant) for one in ids} == {(4, RFC_4122)}
