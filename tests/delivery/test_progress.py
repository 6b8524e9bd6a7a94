"""Progress webhooks: unwrapped, ordered, coalesced, the final one last and once."""

from datetime import timedelta

import msgspec
import pytest

from opilio.contracts.webhooks import ReplayRequest
from opilio.delivery.progress import ProgressReports, ProgressThrottle
from opilio.delivery.webhooks.client import WebhookClient
from opilio.errors import Invalid
from opilio.loop import drain
from tests.delivery.receiver import Receiver, Reply
from tests.delivery.world import ANYWHERE, World


class Progress(World):
    def __init__(self, db, client, url) -> None:
        super().__init__(db, client)
        self.reports = ProgressReports(allow=ANYWHERE, clock=self.clock)
        self.release = ProgressThrottle(db, clock=self.clock)
        self.url = url

    async def report(self, version, project="p1", *, final=False):
        body = msgspec.json.encode(
            {"project_id": project, "status": "DONE" if final else "PROCESSING", "v": version}
        )
        async with self.db.transaction() as session:
            return await self.reports.report(
                session, subject=f"project:{project}", url=self.url, body=body, version=version, final=final
            )

    async def tick(self, seconds: float = 0) -> None:
        self.clock.at += timedelta(seconds=seconds)
        await drain(self.release.run_once)
        await self.send_all()


@pytest.fixture
async def receiver():
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def progress(db, receiver):
    async with WebhookClient(ANYWHERE, limit=timedelta(seconds=0.5)) as client:
        yield Progress(db, client, receiver.url("/progress"))


def _versions(receiver) -> list[int]:
    return [msgspec.json.decode(got.body)["v"] for got in receiver.got]


async def test_the_body_goes_out_as_it_is_with_the_headers_of_the_standard(progress, receiver):
    await progress.report(1)
    await progress.tick()
    [got] = receiver.got
    [endpoint] = (await progress.webhooks.page()).items
    assert endpoint.kind == "direct"
    [row] = await progress.rows("select secret from webhook_endpoint")
    assert got.verified_by(row["secret"]) == {"project_id": "p1", "status": "PROCESSING", "v": 1}


async def test_a_burst_is_one_webhook_a_second_and_the_newest_wins(progress, receiver):
    for version in range(1, 6):
        await progress.report(version)
    await progress.tick()
    for version in range(6, 10):
        await progress.report(version)
        await progress.tick(0.2)
    assert _versions(receiver) == [5]
    await progress.tick(0.5)
    assert _versions(receiver) == [5, 9]


async def test_reports_that_come_in_the_wrong_order_do_not_go_back(progress, receiver):
    assert await progress.report(3)
    assert not await progress.report(2)
    assert not await progress.report(3)
    await progress.tick()
    assert _versions(receiver) == [3]


async def test_the_final_state_is_last_and_once(progress, receiver):
    await progress.report(1)
    await progress.tick()
    assert await progress.report(2, final=True)
    assert not await progress.report(3)
    assert not await progress.report(4, final=True)
    await progress.tick()
    assert _versions(receiver) == [1], "its second has not passed"
    await progress.tick(1)
    await progress.tick(60)
    assert _versions(receiver) == [1, 2]


async def test_what_failed_gives_way_to_the_newest_under_an_id_of_its_own(progress, receiver):
    receiver.usual = Reply(500)
    await progress.report(1)
    await progress.tick()
    await progress.report(2, final=True)
    receiver.usual = Reply()
    await progress.tick(10)
    await progress.tick(600)
    assert _versions(receiver) == [1, 2]
    assert receiver.got[0].id != receiver.got[1].id, "a receiver that saw the first must not drop the second"


async def test_the_final_state_is_retried_until_it_arrives_with_the_same_id(progress, receiver):
    receiver.replies.extend([Reply(cut=True), Reply(503), Reply(200)])
    await progress.report(1, final=True)
    for _ in range(10):
        await progress.tick(60)
    assert _versions(receiver) == [1, 1, 1]
    assert len({got.id for got in receiver.got}) == 1


async def test_projects_share_an_address_and_do_not_wait_for_each_other(progress, receiver):
    for number in range(30):
        await progress.report(1, f"p{number}", final=True)
    await progress.tick()
    assert len(receiver.got) == 30
    assert len((await progress.webhooks.page()).items) == 1


async def test_progress_can_be_replayed(progress, receiver):
    began = progress.clock.at
    await progress.report(1, final=True)
    await progress.tick()
    [endpoint] = (await progress.webhooks.page()).items
    answer = await progress.webhooks.replay(endpoint.id, ReplayRequest(since=began), actor="tests")
    await progress.send_all()
    assert answer.replayed == 1
    first, second = receiver.got
    assert (first.id, first.body) == (second.id, second.body)


async def test_a_private_address_is_refused(progress, db):
    with pytest.raises(Invalid):
        async with db.transaction() as session:
            await ProgressReports().report(session, subject="p", url=progress.url, body=b"{}", version=1)
