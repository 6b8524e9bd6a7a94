"""Runs one job: calls its handler and submits the outcome."""

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any
from uuid import UUID

import msgspec

from opilio.bot import job_report
from opilio.bot.batch_submitter import BatchSubmitter
from opilio.bot.error_codes import Failure
from opilio.bot.errors import CrawlError, NotAllowed, Refused, ServerError
from opilio.bot.handlers import Handler, choose
from opilio.bot.job_report import JobReport
from opilio.bot.result import Result, failure, outcome_of, result_of
from opilio.contracts.bot_api import ItemAnswer, Outcome, PulledJob
from opilio.contracts.codes import ErrorCode

log = logging.getLogger("opilio.bot")


class JobRunner:
    """Calls the handler, turns its result or error into an outcome, and submits it."""

    def __init__(
        self, handlers: list[Handler], submitter: BatchSubmitter, observe: Callable[[JobReport], None]
    ) -> None:
        self._handlers = handlers
        self._submitter = submitter
        self._observe = observe
        # By lock token: a failed job can be pulled again before its previous task has ended.
        self._running: dict[UUID, asyncio.Task[Any]] = {}
        self._lost: set[UUID] = set()

    def stop(self, job: PulledJob) -> bool:
        """Stops a crawl whose lock is lost; False if it is not running any more."""
        task = self._running.get(job.lock_token)
        if task is None:
            return False
        self._lost.add(job.lock_token)
        task.cancel()
        return True

    async def crawl(self, job: PulledJob) -> Outcome | None:
        """The outcome of a crawl; None if its lock was lost meanwhile."""
        started = perf_counter()
        task = asyncio.current_task()
        assert task is not None
        self._running[job.lock_token] = task
        try:
            result = await self._call_handler(job)
            return outcome_of(job, result, perf_counter() - started)
        except asyncio.CancelledError:
            if job.lock_token in self._lost:
                task.uncancel()
                return None
            if task.cancelling():
                raise
            # The handler cancelled itself, which is a failure like any other.
            return outcome_of(job, RuntimeError("the handler cancelled itself"), perf_counter() - started)
        except Exception as error:  # noqa: BLE001  whatever the author's code raises becomes an error code
            outcome = outcome_of(job, error, perf_counter() - started)
            _log_failure(job, outcome, error)
            return outcome
        finally:
            del self._running[job.lock_token]
            self._lost.discard(job.lock_token)

    async def submit(self, job: PulledJob, outcome: Outcome) -> None:
        try:
            answer = await self._submit(job, outcome)
        except NotAllowed:
            raise
        except ServerError as error:
            log.warning("the result of %s could not be submitted: %s", job.url, error)
            self._observe(job_report.without_answer(job, "refused", str(error)))
            return
        report = job_report.of_answer(job, outcome, answer)
        if report.status == "refused":
            log.warning("the result of %s came too late or was refused: %s", job.url, report.reason)
        self._observe(report)

    async def _call_handler(self, job: PulledJob) -> Result:
        handler = choose(self._handlers, job)
        if handler is None:
            raise CrawlError(
                ErrorCode.INTERNAL_ERROR, f"this bot has no handler for {job.queue} of {job.url}"
            )
        found: Any = await handler.crawl(job)
        if isinstance(found, dict):
            return result_of(found)
        if not isinstance(found, Result):
            raise CrawlError(
                ErrorCode.PARSE_ERROR, f"the handler returned {type(found).__name__}, not a Result"
            )
        return found

    async def _submit(self, job: PulledJob, outcome: Outcome) -> ItemAnswer:
        """Submits; a result that the server refuses is sent smaller, and then as a failure."""
        try:
            answer = await self._submitter.submit(_encoded(job, outcome))
        except NotAllowed:
            raise
        except Refused as refusal:
            error = {"code": refusal.code, "message": refusal.message}
            answer = ItemAnswer(job_id=job.job_id, success=False, error=error)
        instead = _replacement(job, outcome, answer)
        return answer if instead is None else await self._submit(job, instead)


def _replacement(job: PulledJob, outcome: Outcome, answer: ItemAnswer) -> Outcome | None:
    """What to send instead of a refused result; None if there is nothing to change."""
    error = answer.error if isinstance(answer.error, dict) else {}
    code, message = error.get("code"), error.get("message")
    if answer.success or code not in ("validation_error", "payload_too_large"):
        return None
    if code == "payload_too_large" and outcome.raw_html is not None:
        log.warning("%s: the page is too large for the server, sent without raw_html", job.url)
        return msgspec.structs.replace(outcome, raw_html=None)
    if not outcome.success:
        return None
    failed = Failure(ErrorCode.INVALID_RESPONSE, f"the server refused the result: {message}")
    return failure(job, failed, outcome.crawl_duration or 0)


def _encoded(job: PulledJob, outcome: Outcome) -> bytes:
    """The encoded body; data that cannot be written as JSON fails only this job."""
    try:
        return msgspec.json.encode(outcome)
    except (TypeError, ValueError) as error:
        failed = Failure(ErrorCode.PARSE_ERROR, f"the result cannot be written as JSON: {error}")
        return msgspec.json.encode(failure(job, failed, outcome.crawl_duration or 0))


def _log_failure(job: PulledJob, outcome: Outcome, error: Exception) -> None:
    unexpected = outcome.error_code == ErrorCode.INTERNAL_ERROR
    log.log(
        logging.ERROR if unexpected else logging.INFO,
        "%s: %s (%s)",
        job.url,
        outcome.error_code,
        outcome.error_msg,
        exc_info=error if unexpected else None,
    )
