"""One life of a bot: pull, crawl, submit, and leave nothing locked behind."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from uuid import UUID

from opilio.bot import job_report
from opilio.bot.batch_submitter import BatchSubmitter
from opilio.bot.client import ControlPlane
from opilio.bot.errors import ServerError
from opilio.bot.handlers import Handler, Scope
from opilio.bot.heartbeat import LockKeeper
from opilio.bot.job_report import JobReport
from opilio.bot.job_runner import JobRunner
from opilio.contracts.bot_api import Outcome, PulledJob

log = logging.getLogger("opilio.bot")

_MOST_PULLED = 100
# A server that answers "nothing" at once is not asked again at once.
_IDLE_PAUSE = 1.0
_LONGEST_IDLE_PAUSE = 30.0
_RELEASE_TIMEOUT = 5.0
_CANCEL_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    concurrency: int
    prefetch: int
    wait_seconds: float
    grace_seconds: float


class PullLoop:
    """Holds at most `concurrency + prefetch` jobs; a job leaves when the server has answered for it."""

    def __init__(
        self,
        plane: ControlPlane,
        handlers: list[Handler],
        scopes: list[Scope],
        limits: Limits,
        observe: Callable[[JobReport], None],
    ) -> None:
        self._plane = plane
        self._scopes = scopes
        self._limits = limits
        self._observe = observe
        # Every scope needs a slot to ask with, or it would never learn that there is work.
        self._slots = asyncio.Semaphore(max(limits.concurrency + limits.prefetch, len(scopes)))
        self._running = asyncio.Semaphore(limits.concurrency)
        self._submitter = BatchSubmitter(plane.submit)
        self._runner = JobRunner(handlers, self._submitter, observe)
        self._keeper = LockKeeper(plane.heartbeat, self._lock_lost)
        self._stopping = asyncio.Event()
        self._fatal: BaseException | None = None
        self._workers: set[asyncio.Task[None]] = set()
        self._pullers: set[asyncio.Task[None]] = set()
        # By lock token, which is new each time a job is handed out.
        self._unstarted: dict[UUID, asyncio.Task[None]] = {}
        self._to_release: list[PulledJob] = []

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        """Ask for a clean end: finish what runs, give back what did not start."""
        self._stopping.set()

    def stop_now(self) -> None:
        """Do not wait for running crawls either; their jobs are given back."""
        self._stopping.set()
        for task in (*self._pullers, *self._workers):
            task.cancel()

    async def run(self, *, until_idle: bool) -> None:
        background = [self._spawn(self._submitter.run()), self._spawn(self._keeper.run())]
        for scope in self._scopes:
            puller = self._spawn(self._pull(scope, until_idle=until_idle))
            self._pullers.add(puller)
            puller.add_done_callback(self._pullers.discard)
        try:
            await self._until_over()
        finally:
            await self._shut_down()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
        if self._fatal is not None:
            raise self._fatal

    # -- pulling ---------------------------------------------------------------------------------

    async def _pull(self, scope: Scope, *, until_idle: bool) -> None:
        found = len(self._scopes) == 1
        while not self._stopping.is_set():
            slots = await self._take_slots(_MOST_PULLED if found else 1)
            if not slots:
                return
            asked_at = perf_counter()
            jobs, retry_after = await self._ask(scope, slots, 0 if until_idle else self._limits.wait_seconds)
            for job in jobs:
                self._accept(job)
            # With several scopes, one without work must not sit on the slots of the others.
            found = bool(jobs) or len(self._scopes) == 1
            if jobs:
                continue
            if until_idle and not self._workers:
                return
            pause = min(_IDLE_PAUSE if retry_after is None else retry_after, _LONGEST_IDLE_PAUSE)
            await self._rest(pause - (perf_counter() - asked_at), until_idle=until_idle)

    async def _take_slots(self, most: int) -> int:
        """Waits for one free slot, then takes what else is free; none when the bot stops meanwhile."""
        first = asyncio.ensure_future(self._slots.acquire())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({first, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not first.done():
                first.cancel()
        if self._stopping.is_set():
            return 0
        taken = 1
        while taken < most and not self._slots.locked():
            await self._slots.acquire()
            taken += 1
        return taken

    async def _ask(
        self, scope: Scope, slots: int, wait_seconds: float
    ) -> tuple[list[PulledJob], float | None]:
        """What the server hands out; slots that got no job are free again, whatever happened."""
        jobs: list[PulledJob] = []
        try:
            answer = await self._plane.pull(
                max_jobs=slots,
                domain=scope.domain,
                capabilities=list(scope.capabilities),
                wait_seconds=wait_seconds,
            )
            jobs = answer.jobs
            return jobs, answer.retry_after
        finally:
            for _ in range(slots - len(jobs)):
                self._slots.release()

    async def _rest(self, seconds: float, *, until_idle: bool) -> None:
        """Waits, unless the bot stops or, when it works until idle, a crawl ends."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        wake = {stopping, *self._workers} if until_idle else {stopping}
        try:
            await asyncio.wait(wake, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    def _accept(self, job: PulledJob) -> None:
        if self._stopping.is_set():
            self._to_release.append(job)
            self._slots.release()
            return
        self._keeper.hold(job)
        worker = self._spawn(self._work(job))
        self._workers.add(worker)
        self._unstarted[job.lock_token] = worker
        worker.add_done_callback(lambda task: self._left(job, task))

    def _left(self, job: PulledJob, worker: asyncio.Task[None]) -> None:
        if self._unstarted.pop(job.lock_token, None) is not None:
            self._to_release.append(job)
        self._workers.discard(worker)
        self._keeper.drop(job)
        self._slots.release()

    # -- one job ---------------------------------------------------------------------------------

    async def _work(self, job: PulledJob) -> None:
        async with self._running:
            del self._unstarted[job.lock_token]
            outcome = await self._crawled(job)
        if outcome is None:
            self._observe(job_report.without_answer(job, "lost", "the lock was lost during the crawl"))
        else:
            await self._runner.hand_in(job, outcome)

    async def _crawled(self, job: PulledJob) -> Outcome | None:
        try:
            return await self._runner.crawl(job)
        except asyncio.CancelledError:
            # The bot ends before the crawl does.
            self._to_release.append(job)
            raise

    def _lock_lost(self, job: PulledJob, code: str) -> None:
        """Somebody else may crawl it now: it is not begun, or not gone on with."""
        worker = self._unstarted.pop(job.lock_token, None)
        if worker is not None:
            worker.cancel()
            self._observe(job_report.without_answer(job, "lost", code))
        elif self._runner.stop(job):
            log.warning("the lock of %s is lost (%s): the crawl is stopped", job.url, code)

    # -- the end ---------------------------------------------------------------------------------

    async def _until_over(self) -> None:
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            while self._pullers and not stopping.done():
                await asyncio.wait({stopping, *self._pullers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    async def _shut_down(self) -> None:
        self._stopping.set()
        await _finished(set(self._unstarted.values()), 0.0)
        # A pull under way may already have locked jobs: its answer is worth waiting for.
        patience = 0.0 if self._plane.away else self._limits.wait_seconds + 1
        await _finished(set(self._pullers), patience)
        await self._give_back()
        await _finished(set(self._workers), 0.0 if self._fatal else self._limits.grace_seconds)
        await self._give_back()

    async def _give_back(self) -> None:
        jobs, self._to_release = self._to_release, []
        try:
            async with asyncio.timeout(_RELEASE_TIMEOUT):
                for start in range(0, len(jobs), _MOST_PULLED):
                    await self._plane.release(jobs[start : start + _MOST_PULLED])
        except (TimeoutError, ServerError) as error:
            log.warning("%d jobs could not be given back, their locks will run out: %s", len(jobs), error)
            return
        for job in jobs:
            self._observe(job_report.without_answer(job, "released"))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._watch)
        return task

    def _watch(self, task: asyncio.Task[None]) -> None:
        """Whatever a task of the bot dies of ends the bot: it must not limp on silently."""
        if not task.cancelled() and task.exception() is not None and self._fatal is None:
            self._fatal = task.exception()
            self._stopping.set()


async def _finished(tasks: set[asyncio.Task[None]], patience: float) -> None:
    """Waits for the tasks, then cancels what is left of them."""
    if tasks and patience:
        await asyncio.wait(tasks, timeout=patience)
    left = {task for task in tasks if not task.done()}
    for task in left:
        task.cancel()
    if left:
        # A handler that swallows its cancellation must not keep the bot from ending.
        await asyncio.wait(left, timeout=_CANCEL_TIMEOUT)
