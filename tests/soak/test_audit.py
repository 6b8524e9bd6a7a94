"""The audit of the soak finds what it looks for; the soak itself is `make soak`."""

from tests.delivery.receiver import Got
from tests.soak.audit import memory_faults, repeated, webhook_faults
from tests.soak.load import Bot, Work


def event(number: int) -> dict[str, str]:
    return {"id": f"e{number}", "body": f'{{"n": {number}}}'}


def got(number: int, body: bytes | None = None) -> Got:
    return Got("/", {"webhook-id": f"e{number}"}, body or f'{{"n": {number}}}'.encode())


def test_events_that_arrived_are_no_fault_however_often() -> None:
    assert webhook_faults([event(1), event(2)], [got(2), got(1), got(1)]) == []
    assert repeated([got(2), got(1), got(1)]) == 1


def test_lost_invented_and_changed_webhooks_are_faults() -> None:
    faults = webhook_faults([event(1), event(2)], [got(2, b'{"n": 3}'), got(9)])
    assert faults == [
        "event e1 did not arrive",
        "webhook e9 is no event",
        "webhook e2 differs from its event",
    ]


def test_memory_that_grows_is_a_fault_and_a_short_look_is_none() -> None:
    growing = [100.0 + 5 * n for n in range(40)]
    assert memory_faults({"api": growing, "delivery": [100.0, 103.0] * 20, "scheduler": growing[:10]}) == [
        "api grew from 148 to 248 MiB"
    ]


def test_two_results_of_one_job_and_strange_refusals_are_faults() -> None:
    work = Work()
    bot = Bot("bot-1", "honest", None, work, None)
    bot.note("j1", {"success": True, "data": {"status": "done", "result_id": "r1"}})
    bot.note("j1", {"success": True, "data": {"status": "done", "result_id": "r1"}})
    bot.note("j2", {"success": False, "error": {"code": "lock_expired"}})
    assert work.wrong == []
    bot.note("j1", {"success": True, "data": {"status": "done", "result_id": "r2"}})
    bot.note("j2", {"success": False, "error": {"code": "not_assigned"}})
    assert len(work.wrong) == 2
