"""Gathers the concurrent requests of many bots into few statements: pull, submit, heartbeat, release."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import asyncpg

from opilio import metrics, tracing
from opilio.adapters.postgres import Database
from opilio.adapters.postgres.unavailable import TRY_AGAIN, does_not_answer
from opilio.coalesce import Coalescer, QueueFullError
from opilio.contracts.bot_api import PullAnswer, PulledJob
from opilio.crawl.bot_activity import BotActivity
from opilio.crawl.claims import Reply
from opilio.crawl.heartbeat import Heartbeats
from opilio.crawl.job import State
from opilio.crawl.pull import SHORTEST_WAIT, Pull, Puller
from opilio.crawl.submission import Submission
from opilio.crawl.submit import Submitter
from opilio.errors import Invalid, Refused
from opilio.lock_rules import Claim
from opilio.logs import get_logger
from opilio.turns import Turns

T = TypeVar("T")

_BATCH, _BATCH_OF_MANY = 200, 400
_LEAST_BESIDE = 64  # so many jobs are worth a batch of their own beside one that runs
_WRITE_ACTIVITY_EVERY = 2.0
_MOST_PULL_GROUPS = 1000
_MOST_WAITING, _MOST_WAITING_PULLS = 5_000, 100_000
_RETRY_AFTER = 1
_log = get_logger(__name__)


def _may_be_one_item(error: Exception) -> bool:
    return not does_not_answer(error)


def _failed_reply(item: Submission | Claim, error: Exception) -> Reply:
    """One item failed alone: bad data is answered to the bot, everything else is logged."""
    if isinstance(error, Refused):
        return Reply(refusal=error)
    if isinstance(error, ValueError | asyncpg.DataError):
        return Reply(refusal=Invalid("body", "cannot be stored: %(error)s", error=str(error)[:200]))
    if isinstance(error, TRY_AGAIN):
        raise error
    claim = item.claim if isinstance(item, Submission) else item
    _log.error("dispatcher.item_failed", job_id=str(claim.job_id), bot_id=claim.bot_id, exc_info=error)
    return Reply(refusal=Refused("internal_error", "internal error; see the server log"))


def _trace_pull(pull: Pull, job: PulledJob, began: int) -> None:
    attributes = {"bot_id": pull.bot_id, "url": job.url}
    tracing.record("pull", str(job.job_id), began, key=str(job.lock_token), **attributes)


def _trace_submit(submission: Submission, reply: Reply, began: int) -> None:
    """A job ends once, so the submit that ends it can be named; a retry goes on in another pull."""
    claim = submission.claim
    ended = reply.state in (State.DONE, State.FAILED)
    tracing.record(
        "submit",
        str(claim.job_id),
        began,
        key=tracing.END if ended else "",
        parent=str(claim.lock_token or ""),
        error=reply.refusal.code if reply.refusal else "",
        bot_id=claim.bot_id,
        state=str(reply.state.value if reply.state else "refused"),
    )


_ITEMS: dict[str, Any] = {
    "most": _BATCH,
    "most_waiting": _MOST_WAITING,
    "on_error": _failed_reply,
    "may_be_one_item": _may_be_one_item,
}


async def _unless_full(work: Awaitable[T]) -> T:
    try:
        return await work
    except QueueFullError:
        raise Refused(
            "unavailable",
            "the server is busy; try again in %(seconds)s s",
            details={"retry_after": _RETRY_AFTER},
            seconds=_RETRY_AFTER,
        ) from None


class Dispatcher:
    """One per process. Counts what bots do and writes the counts every few seconds."""

    def __init__(
        self,
        database: Database,
        puller: Puller,
        submitter: Submitter,
        heartbeats: Heartbeats,
        turns: Turns | None = None,
    ) -> None:
        """`turns` are of the processes that serve the same bots on this machine."""
        self._puller = puller
        self._submitter = submitter
        self._activity = BotActivity(database)
        self._work_arrived = asyncio.Event()
        self._pulls: dict[tuple[tuple[str, ...], str | None], Coalescer[Pull, PullAnswer]] = {}
        self._heartbeat = heartbeats
        self._turns = turns
        self._submits = Coalescer(
            self._submit,
            workers=2,
            least_beside=_LEAST_BESIDE,
            most_of_many=_BATCH_OF_MANY,
            turn=turns.of("submit") if turns else None,
            **_ITEMS,
        )
        # Pages that are uploaded first must not delay the submits that need no upload.
        self._large_submits = Coalescer(self._submit, workers=4, **_ITEMS | {"most": 20})
        self._heartbeats = Coalescer(heartbeats.heartbeat, **_ITEMS)
        self._releases = Coalescer(heartbeats.release, **_ITEMS)
        self._background: set[asyncio.Task[Any]] = set()
        self._stopping = False

    async def pull(self, pull: Pull, wait_seconds: float = 0) -> PullAnswer:
        """Answers with jobs; with none, waits up to `wait_seconds` for some to appear."""
        if self._activity.seen(pull.bot_id, pull.queues):
            await self._activity.write()  # so that "why" knows of the bot at once
        began = tracing.now()
        answer = await self._pull(pull, wait_seconds)
        self._activity.pulled(pull.bot_id, answer.count)
        if tracing.on():
            for job in answer.jobs:
                _trace_pull(pull, job, began)
        metrics.BOT_PULLS.inc()
        return answer

    async def submit(self, submissions: Sequence[Submission]) -> Sequence[Reply]:
        """Each submission is answered on its own."""
        large = any(self._submitter.needs_upload(submission) for submission in submissions)
        return await _unless_full((self._large_submits if large else self._submits).run_all(submissions))

    async def _submit(self, submissions: Sequence[Submission]) -> Sequence[Reply]:
        began = tracing.now()
        replies = await self._submitter.submit(submissions)
        self._count(submissions, replies)
        if tracing.on():
            for submission, reply in zip(submissions, replies, strict=True):
                _trace_submit(submission, reply, began)
        return replies

    async def heartbeat(self, claims: Sequence[Claim]) -> Sequence[Reply]:
        return await _unless_full(self._heartbeats.run_all(claims))

    async def release(self, claims: Sequence[Claim]) -> Sequence[Reply]:
        return await _unless_full(self._releases.run_all(claims))

    # ── pull ─────────────────────────────────────────────────────────────────────────────────────

    async def _pull(self, pull: Pull, wait_seconds: float) -> PullAnswer:
        deadline = time.monotonic() + wait_seconds
        while True:
            arrived = (
                self._work_arrived
            )  # taken before the pull, so that work that arrives meanwhile wakes us
            answer = await _unless_full(self._group(pull).run(pull))
            left = deadline - time.monotonic()
            if answer.count or left <= 0 or self._stopping:
                return answer
            try:
                await asyncio.wait_for(arrived.wait(), min(left, answer.retry_after or SHORTEST_WAIT))
            except TimeoutError:
                continue

    def _group(self, pull: Pull) -> Coalescer[Pull, PullAnswer]:
        """Pulls that ask for the same queues and domain share their statements."""
        key = (pull.queues, pull.domain)
        group = self._pulls.get(key)
        if group is None:
            if len(self._pulls) >= _MOST_PULL_GROUPS:  # bots can send any domain
                self._pulls.clear()
            group = self._pulls[key] = Coalescer(
                self._puller.pull_many,
                most=_BATCH,
                most_of_many=_BATCH_OF_MANY,
                workers=1,  # two at a time would read past each other's jobs at the head of the queue
                least_beside=_LEAST_BESIDE,
                weight=lambda p: p.most,
                most_waiting=_MOST_WAITING_PULLS,
                on_abandoned=self._give_back,
                turn=self._turns.of("pull", *key) if self._turns else None,
            )
        return group

    def _give_back(self, pull: Pull, answer: PullAnswer) -> None:
        """The bot left while its jobs were being locked: they go back to the queue at once."""
        if not answer.jobs:
            return
        claims = [Claim(pull.bot_id, job.job_id, job.lock_token, b"") for job in answer.jobs]
        task = asyncio.create_task(self._release_abandoned(claims))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _release_abandoned(self, claims: list[Claim]) -> None:
        try:
            await self._heartbeat.release(claims)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            _log.warning("dispatcher.not_released", jobs=len(claims), error=str(error))  # they expire by TTL

    def stop_waiting(self) -> None:
        """The process shuts down: the pulls that wait are answered now, with what there is."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Work may have arrived: the pulls that wait try again, and look at whole queues."""
        self._puller.look_again()
        self._work_arrived.set()
        self._work_arrived = asyncio.Event()

    # ── counting ─────────────────────────────────────────────────────────────────────────────────

    def _count(self, submissions: Sequence[Submission], replies: Sequence[Reply]) -> None:
        is_done = State.DONE  # to read a member of an Enum takes longer
        done: defaultdict[str, list[float | None]] = defaultdict(list)  # durations by bot
        for submission, reply in zip(submissions, replies, strict=True):
            if reply.state is is_done:
                done[submission.claim.bot_id].append(submission.outcome.crawl_duration)
            else:
                self._count_other(submission.claim.bot_id, reply)
        for bot_id, durations in done.items():
            self._activity.done(bot_id, len(durations), sum(filter(None, durations)))
        metrics.JOBS_DONE.inc(sum(map(len, done.values())))
        told = [seconds for durations in done.values() for seconds in durations if seconds is not None]
        metrics.CRAWL_DURATION.observe_all(told)

    def _count_other(self, bot_id: str, reply: Reply) -> None:
        if reply.state is not None:
            self._activity.failed(bot_id)
            (metrics.JOBS_RETRIED if reply.state is State.PENDING else metrics.JOBS_FAILED).inc()
        elif reply.refusal is not None and reply.refusal.code == "lock_expired":
            self._activity.late(bot_id)

    async def write_activity(self) -> None:
        await self._activity.write()

    async def keep_writing_activity(self) -> None:
        """Run it beside the server for as long as it serves."""
        while True:
            await asyncio.sleep(_WRITE_ACTIVITY_EVERY)
            await self._activity.write()
