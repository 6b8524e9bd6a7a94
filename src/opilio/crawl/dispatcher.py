"""Gathers the concurrent requests of many bots into few statements: pull, submit, heartbeat, release."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from opilio import metrics
from opilio.adapters.postgres import Database
from opilio.coalesce import Coalescer
from opilio.contracts.bot_api import PullAnswer
from opilio.crawl.bot_activity import BotActivity
from opilio.crawl.claims import Claim, Reply
from opilio.crawl.heartbeat import Heartbeats
from opilio.crawl.job import State
from opilio.crawl.pull import SHORTEST_WAIT, Pull, Puller
from opilio.crawl.submission import Submission
from opilio.crawl.submit import Submitter

_BATCH = 200
_WRITE_ACTIVITY_EVERY = 2.0
_MOST_PULL_GROUPS = 1000


class Dispatcher:
    """One per process. Counts what bots do and writes the counts every few seconds."""

    def __init__(
        self, database: Database, puller: Puller, submitter: Submitter, heartbeats: Heartbeats
    ) -> None:
        self._puller = puller
        self._submitter = submitter
        self._activity = BotActivity(database)
        self._work_arrived = asyncio.Event()
        self._pulls: dict[tuple[tuple[str, ...], str | None], Coalescer[Pull, PullAnswer]] = {}
        self._submits = Coalescer(self._submit, most=_BATCH, workers=2)
        self._heartbeats = Coalescer(heartbeats.heartbeat, most=_BATCH)
        self._releases = Coalescer(heartbeats.release, most=_BATCH)

    async def pull(self, pull: Pull, wait_seconds: float = 0) -> PullAnswer:
        """Answers with jobs; with none, waits up to `wait_seconds` for some to appear."""
        if self._activity.seen(pull.bot_id, pull.queues):
            await self._activity.write()  # so that "why" knows of the bot at once
        answer = await self._pull(pull, wait_seconds)
        self._activity.pulled(pull.bot_id, answer.count)
        metrics.BOT_PULLS.inc()
        return answer

    async def submit(self, submissions: Sequence[Submission]) -> Sequence[Reply]:
        """Each submission is answered on its own."""
        return await self._submits.run_all(submissions)

    async def _submit(self, submissions: Sequence[Submission]) -> Sequence[Reply]:
        replies = await self._submitter.submit(submissions)
        self._count(submissions, replies)
        return replies

    async def heartbeat(self, claims: Sequence[Claim]) -> Sequence[Reply]:
        return await self._heartbeats.run_all(claims)

    async def release(self, claims: Sequence[Claim]) -> Sequence[Reply]:
        return await self._releases.run_all(claims)

    # ── pull ─────────────────────────────────────────────────────────────────────────────────────

    async def _pull(self, pull: Pull, wait_seconds: float) -> PullAnswer:
        deadline = time.monotonic() + wait_seconds
        while True:
            arrived = (
                self._work_arrived
            )  # taken before the pull, so that work that arrives meanwhile wakes us
            answer = await self._group(pull).run(pull)
            left = deadline - time.monotonic()
            if answer.count or left <= 0:
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
                self._puller.pull_many, most=_BATCH, workers=2, weight=lambda p: p.most
            )
        return group

    def wake(self) -> None:
        """Work may have arrived: the pulls that wait try again."""
        self._work_arrived.set()
        self._work_arrived = asyncio.Event()

    # ── counting ─────────────────────────────────────────────────────────────────────────────────

    def _count(self, submissions: Sequence[Submission], replies: Sequence[Reply]) -> None:
        states = Counter(reply.state for reply in replies)
        metrics.JOBS_DONE.inc(states[State.DONE])
        metrics.JOBS_FAILED.inc(states[State.FAILED])
        metrics.JOBS_RETRIED.inc(states[State.PENDING])
        for submission, reply in zip(submissions, replies, strict=True):
            self._count_one(submission, reply)

    def _count_one(self, submission: Submission, reply: Reply) -> None:
        bot_id = submission.claim.bot_id
        match reply.state:
            case State.DONE:
                self._activity.done(bot_id, submission.crawl_duration)
                if submission.crawl_duration is not None:
                    metrics.CRAWL_DURATION.observe(submission.crawl_duration)
            case State.FAILED | State.PENDING:
                self._activity.failed(bot_id)
            case _:
                if reply.refusal is not None and reply.refusal.code == "lock_expired":
                    self._activity.late(bot_id)

    async def write_activity(self) -> None:
        await self._activity.write()

    async def keep_writing_activity(self) -> None:
        """Run it beside the server for as long as it serves."""
        while True:
            await asyncio.sleep(_WRITE_ACTIVITY_EVERY)
            await self._activity.write()
