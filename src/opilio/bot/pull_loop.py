"""The main loop of a bot: pulls jobs, runs them, and releases what is left when it stops."""

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
from opilio.bot.heartbeat import Heartbeats
from opilio.bot.job_report import JobReport
from opilio.bot.job_runner import JobRunner
from opilio.contracts.bot_api import Outcome, PulledJob

log = logging.getLogger("opilio.bot")

_MOST_PULLED = 100
# How long to wait after an empty answer without `retry_after`.
_IDLE_PAUSE = 1.0
_LONGEST_IDLE_PAUSE = 30.0
_RELEASE_TIMEOUT = 5.0
_CANCEL_TIMEOUT = 5.0
# A pull that finds jobs is answered sooner. The server locks none for a bot that leaves while it waits for some to come.
_LAST_PULL_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    concurrency: int
    prefetch: int
    wait_seconds: float
    grace_seconds: float


class PullLoop:
    """Holds at most `concurrency + prefetch` jobs, each until the server has answered its submit."""

    def __init__(
        self,
        plane: ControlPlane,
        handlers: list[Handler],
        scopes: list[Scope],
        limits: Limits,
        observe: Callable[[JobReport], None],
        connected: Callable[[], None] | None = None,
    ) -> None:
        self._plane = plane
        self._scopes = scopes
        self._limits = limits
        self._observe = observe
        self._connected = connected
        # Every scope needs a slot for its pull.
        self._slots = asyncio.Semaphore(max(limits.concurrency + limits.prefetch, len(scopes)))
        self._running = asyncio.Semaphore(limits.concurrency)
        self._submitter = BatchSubmitter(plane.submit)
        self._runner = JobRunner(handlers, self._submitter, observe)
        self._heartbeats = Heartbeats(plane.heartbeat, self._lock_lost)
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
        """Stop cleanly: finish running crawls, release jobs that have not started."""
        self._stopping.set()

    def stop_now(self) -> None:
        """Stop without waiting for running crawls; their jobs are released."""
        self._stopping.set()
        for task in (*self._pullers, *self._workers):
            task.cancel()

    async def run(self, *, until_idle: bool) -> None:
        background = [self._spawn(self._submitter.run()), self._spawn(self._heartbeats.run())]
        for scope in self._scopes:
            puller = self._spawn(self._pull_jobs(scope, until_idle=until_idle))
            self._pullers.add(puller)
            puller.add_done_callback(self._pullers.discard)
        try:
            await self._until_stopped()
        finally:
            await self._shut_down()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
        if self._fatal is not None:
            raise self._fatal

    # -- pulling ---------------------------------------------------------------------------------

    async def _pull_jobs(self, scope: Scope, *, until_idle: bool) -> None:
        found = len(self._scopes) == 1
        while not self._stopping.is_set():
            slots = await self._take_slots(_MOST_PULLED if found else 1)
            if not slots:
                return
            asked_at = perf_counter()
            announces = self._connected is not None
            # The first answer tells that the bot is connected: it must not wait for a job.
            wait_seconds = 0 if until_idle or announces else self._limits.wait_seconds
            jobs, retry_after = await self._pull_once(scope, slots, wait_seconds)
            if self._connected is not None:
                self._connected()
                self._connected = None
            for job in jobs:
                self._accept(job)
            # With several scopes, one without work must not hold the slots of the others.
            found = bool(jobs) or len(self._scopes) == 1
            if jobs:
                continue
            if until_idle and not self._workers:
                return
            if announces:
                continue
            pause = min(_IDLE_PAUSE if retry_after is None else retry_after, _LONGEST_IDLE_PAUSE)
            await self._rest(pause - (perf_counter() - asked_at), until_idle=until_idle)

    async def _take_slots(self, most: int) -> int:
        """Waits for one free slot, then takes all that are free; 0 if the bot stops meanwhile."""
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

    async def _pull_once(
        self, scope: Scope, slots: int, wait_seconds: float
    ) -> tuple[list[PulledJob], float | None]:
        """Pulls jobs; slots that got no job are freed, also on errors."""
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
        """Waits until the time has passed, the bot stops or, with `until_idle`, a crawl ends."""
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
        self._heartbeats.hold(job)
        worker = self._spawn(self._work(job))
        self._workers.add(worker)
        self._unstarted[job.lock_token] = worker
        worker.add_done_callback(lambda task: self._finished(job, task))

    def _finished(self, job: PulledJob, worker: asyncio.Task[None]) -> None:
        if self._unstarted.pop(job.lock_token, None) is not None:
            self._to_release.append(job)
        self._workers.discard(worker)
        self._heartbeats.drop(job)
        self._slots.release()

    # -- one job ---------------------------------------------------------------------------------

    async def _work(self, job: PulledJob) -> None:
        async with self._running:
            del self._unstarted[job.lock_token]
            outcome = await self._crawled(job)
        if outcome is None:
            self._observe(job_report.without_answer(job, "lost", "the lock was lost during the crawl"))
        else:
            await self._runner.submit(job, outcome)

    async def _crawled(self, job: PulledJob) -> Outcome | None:
        try:
            return await self._runner.crawl(job)
        except asyncio.CancelledError:
            # The bot stops before the crawl has ended.
            self._to_release.append(job)
            raise

    def _lock_lost(self, job: PulledJob, code: str) -> None:
        """Another bot may have the job now: it is not started, or its crawl is stopped."""
        worker = self._unstarted.pop(job.lock_token, None)
        if worker is not None:
            worker.cancel()
            self._observe(job_report.without_answer(job, "lost", code))
        elif self._runner.stop(job):
            log.warning("the lock of %s was lost (%s); the crawl is stopped", job.url, code)

    # -- stopping ---------------------------------------------------------------------------------

    async def _until_stopped(self) -> None:
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            while self._pullers and not stopping.done():
                await asyncio.wait({stopping, *self._pullers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    async def _shut_down(self) -> None:
        self._stopping.set()
        await _wait_or_cancel(set(self._unstarted.values()), 0.0)
        # A pull under way may already have locked jobs: wait for its answer, but not for jobs that are still to come.
        patience = 0.0 if self._plane.away else min(self._limits.wait_seconds + 1, _LAST_PULL_SECONDS)
        await _wait_or_cancel(set(self._pullers), patience)
        await self._release()
        await _wait_or_cancel(set(self._workers), 0.0 if self._fatal else self._limits.grace_seconds)
        await self._release()

    async def _release(self) -> None:
        jobs, self._to_release = self._to_release, []
        try:
            async with asyncio.timeout(_RELEASE_TIMEOUT):
                for start in range(0, len(jobs), _MOST_PULLED):
                    await self._plane.release(jobs[start : start + _MOST_PULLED])
        except (TimeoutError, ServerError) as error:
            log.warning("%d jobs could not be released, their locks will expire: %s", len(jobs), error)
            return
        for job in jobs:
            self._observe(job_report.without_answer(job, "released"))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._watch)
        return task

    def _watch(self, task: asyncio.Task[None]) -> None:
        """An error in any task stops the bot: it must not go on half working."""
        if not task.cancelled() and task.exception() is not None and self._fatal is None:
            self._fatal = task.exception()
            self._stopping.set()


async def _wait_or_cancel(tasks: set[asyncio.Task[None]], patience: float) -> None:
    """Waits for the tasks, then cancels what is left of them."""
    if tasks and patience:
        await asyncio.wait(tasks, timeout=patience)
    left = {task for task in tasks if not task.done()}
    for task in left:
        task.cancel()
    if left:
        # A handler that ignores its cancellation must not keep the bot from stopping.
        await asyncio.wait(left, timeout=_CANCEL_TIMEOUT)
