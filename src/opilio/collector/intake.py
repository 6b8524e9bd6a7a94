"""Processes the messages of `collector.results`: read, check, record; messages that arrive together form one batch.

A message is acknowledged after its transaction is committed. After a crash in between, the redelivered message is
recognised by its body and changes nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from opilio.adapters.postgres import Database
from opilio.bus import Ack, DeadLetter, Message, Retry, Verdict, after_exception
from opilio.coalesce import Coalescer
from opilio.collector import metrics
from opilio.collector.config import Config
from opilio.collector.formats import Envelope, Unreadable, read
from opilio.collector.record_results import ResultRecorder
from opilio.collector.result import Analysis, Result
from opilio.collector.state.protocol import StateStore
from opilio.collector.task import Decision
from opilio.collector.unavailable import RETRY_AFTER, UNAVAILABLE
from opilio.logs import get_logger

log = get_logger(__name__)
_BATCH_BYTES = 16 << 20  # of bodies that are decoded together


@dataclass(slots=True)
class Received:
    """One message, and what is known of it so far."""

    message: Message
    content: Result | Analysis | None = None
    decision: Decision | None = None
    effect: str = ""
    refusal: str | None = None  # why it becomes a dead letter


class Intake:
    """The consumer of `collector.results`."""

    def __init__(
        self,
        database: Database,
        state: StateStore,
        config: Config,
        *,
        changed: Callable[[], None] = lambda: None,
        batch: int = 500,
    ) -> None:
        self._recorder = ResultRecorder(database, config)
        self._state = state
        self._config = config
        self._changed = changed
        each = _BATCH_BYTES // batch
        self._batches: Coalescer[Message, Verdict] = Coalescer(
            self.process, most=_BATCH_BYTES, workers=2, weight=lambda message: max(len(message.body), each)
        )

    async def handle(self, message: Message) -> Verdict:
        return await self._batches.run(message)

    async def process(self, messages: Sequence[Message]) -> list[Verdict]:
        """Verdicts in the order of the messages; a batch that fails is processed message by message."""
        try:
            return await self._process(messages)
        except UNAVAILABLE as error:
            log.warning("collector.unavailable", error=str(error), messages=len(messages))
            return [Retry(RETRY_AFTER, f"{type(error).__name__}: {error}")] * len(messages)
        except Exception as error:
            log.exception("collector.intake_failed", messages=len(messages))
            if len(messages) == 1:
                return [after_exception(error, messages[0].retries)]
        return [verdict for message in messages for verdict in await self.process([message])]

    async def _process(self, messages: Sequence[Message]) -> list[Verdict]:
        received = [self._read(message) for message in messages]
        await self._record([one for one in received if one.refusal is None])
        return [self._verdict(one) for one in received]

    def _read(self, message: Message) -> Received:
        one = Received(message)
        try:
            one.content = read(
                message.body,
                Envelope(message.routing_key, message.correlation_id, message.headers, message.message_id),
            )
        except Unreadable as unreadable:
            one.refusal = str(unreadable)
            return one
        for rule in one.content.violations:
            metrics.VIOLATIONS.labels(rule).inc()
        if one.content.violations and self._config.strict_contracts:
            one.refusal = f"breaks the contract: {', '.join(one.content.violations)}"
        return one

    async def _record(self, received: Sequence[Received]) -> None:
        results = [one for one in received if isinstance(one.content, Result)]
        analyses = [one for one in received if isinstance(one.content, Analysis)]
        if not results and not analyses:
            return
        outcome = await self._recorder.record(
            [one.content for one in results if isinstance(one.content, Result)],
            [one.content for one in analyses if isinstance(one.content, Analysis)],
            datetime.now(UTC),
        )
        for one, decision in zip(results, outcome.decisions, strict=True):
            one.decision = decision
        for one, effect in zip(analyses, outcome.analyses, strict=True):
            one.effect = effect or ""
        if outcome.states:
            await self._state.publish(outcome.states)
            self._changed()

    def _verdict(self, one: Received) -> Verdict:
        refusal = one.refusal or _unknown(one)
        if refusal is not None:
            metrics.REFUSED.labels(one.message.queue).inc()
            log.warning("collector.refused", message_id=one.message.message_id, reason=refusal)
            return DeadLetter(refusal)
        if isinstance(one.content, Result) and one.decision is not None:
            _observe(one.content, one.decision, one.message)
        else:
            metrics.ANALYSES.labels(one.effect).inc()
        return Ack()


def _unknown(one: Received) -> str | None:
    """A result without a task, or an analysis without a project."""
    if isinstance(one.content, Result) and one.decision is None:
        return f"cannot be attributed: no task {one.content.job_id} was sent to {one.content.platform}"
    if isinstance(one.content, Analysis) and not one.effect:
        return f"there is no project {one.content.project_id}"
    return None


def _observe(result: Result, decision: Decision, message: Message) -> None:
    metrics.RESULTS.labels(result.platform, result.format, decision.effect).inc()
    if result.emitted_at is not None:
        delay = (datetime.now(UTC) - result.emitted_at).total_seconds()
        metrics.RESULT_DELAY.labels(result.platform).observe(max(delay, 0.0))
    if result.platform_limited:
        log.warning(
            "collector.platform_limited",
            platform=result.platform,
            job_id=result.job_id,
            requested=result.requested_limit,
            found=result.total_found,
            trace_id=message.headers.get("x-trace-id"),
        )
