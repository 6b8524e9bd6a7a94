"""The dispatcher's desk: where requests of many bots meet and become few statements."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from opilio import metrics
from opilio.adapters.postgres import Database
from opilio.coalesce import Coalescer
from opilio.contracts.bot_api import PullAnswer
from opilio.crawl.bot_activity import Activity
from opilio.crawl.job import State
from opilio.crawl.pull import Leasing, Pull
from opilio.crawl.submission import Submission
from opilio.crawl.submit import Answer, Settling


class Desk:
    """One per process. Counts what bots do and writes the counts every few seconds."""

    def __init__(self, database: Database, leasing: Leasing, settling: Settling) -> None:
        self._db = database
        self._leasing = leasing
        self._settling = settling
        self._activity = Activity(database)
        self._submits: Coalescer[list[Submission], list[Answer]] = Coalescer(
            self._submit_together, most=200, workers=2, weight=len
        )
        self._later: set[asyncio.Task[None]] = set()

    async def pull(self, pull: Pull, wait_seconds: float) -> PullAnswer:
        if self._activity.saw(pull.bot_id, pull.queues):
            await self._activity.write()  # so that "why?" knows of it at once
        answer = await self._leasing.pull(pull, wait_seconds=wait_seconds)
        self._activity.pulled(pull.bot_id, answer.count)
        metrics.BOT_PULLS.inc()
        return answer

    async def submit(self, submission: Submission) -> Answer:
        return (await self._submits.ask([submission]))[0]

    async def submit_many(self, submissions: list[Submission]) -> list[Answer]:
        return await self._submits.ask(submissions)

    async def _submit_together(self, asks: Sequence[list[Submission]]) -> list[list[Answer]]:
        every = [submission for ask in asks for submission in ask]
        answers = await self._settling.submit(every)
        self._note(every, answers)
        shares, start = [], 0
        for ask in asks:
            shares.append(answers[start : start + len(ask)])
            start += len(ask)
        return shares

    def _note(self, submissions: Sequence[Submission], answers: Sequence[Answer]) -> None:
        states = Counter(answer.state for answer in answers)
        metrics.JOBS_DONE.inc(states[State.DONE])
        metrics.JOBS_FAILED.inc(states[State.FAILED])
        metrics.JOBS_RETRIED.inc(states[State.PENDING])
        for submission, answer in zip(submissions, answers, strict=True):
            self._note_one(submission, answer)

    def _note_one(self, submission: Submission, answer: Answer) -> None:
        bot_id = submission.claim.bot_id
        match answer.state:
            case State.DONE:
                self._activity.done(bot_id, submission.crawl_duration)
                if submission.crawl_duration is not None:
                    metrics.CRAWL_DURATION.observe(submission.crawl_duration)
            case State.FAILED | State.PENDING:
                self._activity.failed(bot_id)
            case _:
                if answer.refusal is not None and answer.refusal.code == "lock_expired":
                    self._activity.late(bot_id)

    def work_appeared(self) -> None:
        """Wakes the pulls that wait here, and those that wait in other processes."""
        self._leasing.signal.wake()
        task = asyncio.create_task(self._db.notify("opilio_work"))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def heard_of_work(self) -> None:
        self._leasing.signal.wake()

    async def keep_books(self) -> None:
        """Writes what bots did; run beside the server for as long as it serves."""
        while True:
            await asyncio.sleep(2)
            await self._activity.write()

    async def close_books(self) -> None:
        await self._activity.write()
