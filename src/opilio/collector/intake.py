"""Takes results in: read, attributed, checked, decided, counted. What arrives together is worked on together.

The task decides first (in PostgreSQL), then the state counts (in Redis or PostgreSQL), then the message is
acknowledged. Whoever dies in between is followed by a redelivery, which decides the same and is counted once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import asyncpg
import structlog

from opilio.adapters.postgres import Database
from opilio.bus import Ack, DeadLetter, Message, Retry, Verdict, after_exception
from opilio.coalesce import Coalescer
from opilio.collector import metrics as measures
from opilio.collector import tally as counting
from opilio.collector.config import Config
from opilio.collector.formats import Envelope, Read, Unreadable, read
from opilio.collector.result import Result
from opilio.collector.state.protocol import Counted, StateStore
from opilio.collector.tally import Tally
from opilio.collector.task import Decision, Effect
from opilio.collector.tasks import Ledger
from opilio.errors import Unavailable

log = structlog.get_logger(__name__)
_AWAY = (Unavailable, OSError, TimeoutError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError,
         asyncpg.CannotConnectNowError)  # fmt: skip
_PATIENCE = timedelta(seconds=5)
Refusal: TypeAlias = str


@dataclass(slots=True)
class Case:
    """One message on its way to a verdict."""

    message: Message
    read: Read | None = None
    decision: Decision | None = None
    tally: Tally | None = None
    refusal: Refusal | None = None


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
        self._ledger = Ledger(database, config)
        self._state = state
        self._config = config
        self._changed = changed
        self._line: Coalescer[Message, Verdict] = Coalescer(self.take, most=batch, workers=2)

    async def handle(self, message: Message) -> Verdict:
        return await self._line.run(message)

    async def take(self, messages: Sequence[Message]) -> list[Verdict]:
        """Verdicts in the order of the messages; one message that nothing can be done with costs no other."""
        try:
            return await self._take(messages)
        except _AWAY as error:
            log.warning("collector.waits", error=str(error), messages=len(messages))
            return [Retry(_PATIENCE, f"{type(error).__name__}: {error}")] * len(messages)
        except Exception as error:
            log.exception("collector.intake_failed", messages=len(messages))
            if len(messages) == 1:
                return [after_exception(error, messages[0].retries)]
        return [verdict for message in messages for verdict in await self.take([message])]

    async def _take(self, messages: Sequence[Message]) -> list[Verdict]:
        cases = [self._read(message) for message in messages]
        await self._decide(cases)
        await self._count(cases)
        return [self._verdict(case) for case in cases]

    def _read(self, message: Message) -> Case:
        case = Case(message)
        try:
            case.read = read(
                message.body, Envelope(message.routing_key, message.correlation_id, message.headers)
            )
        except Unreadable as unreadable:
            case.refusal = str(unreadable)
            return case
        for rule in case.read.violations:
            measures.VIOLATIONS.labels(rule).inc()
        if case.read.violations and self._config.strict_contracts:
            case.refusal = f"breaks the contract: {', '.join(case.read.violations)}"
        return case

    async def _decide(self, cases: Sequence[Case]) -> None:
        """Each result's task is moved; an analysis has no task and only counts."""
        crawled = [case for case in cases if case.refusal is None and isinstance(case.read, Result)]
        results = [case.read for case in crawled if isinstance(case.read, Result)]
        decisions = await self._ledger.settle(results, datetime.now(UTC)) if results else []
        for case, decision in zip(crawled, decisions, strict=True):
            case.decision = decision
            if decision is None:
                assert isinstance(case.read, Result)
                case.refusal = (
                    f"cannot be attributed: no task {case.read.job_id} was sent to {case.read.platform}"
                )
            else:
                case.tally = decision.tally
        for case in cases:
            if case.refusal is None and case.read is not None and not isinstance(case.read, Result):
                case.tally = counting.of_analysis(case.read)

    async def _count(self, cases: Sequence[Case]) -> None:
        counting_cases = [case for case in cases if case.tally is not None]
        if not counting_cases:
            return
        tallies = [case.tally for case in counting_cases if case.tally is not None]
        answers = await self._state.count(tallies)
        for case, tally, answer in zip(counting_cases, tallies, answers, strict=True):
            if answer is Counted.UNKNOWN:
                case.refusal = f"there is no project {tally.project_id}"
        await self._ledger.add_pages(
            [
                (case.read, case.decision)
                for case, answer in zip(counting_cases, answers, strict=True)
                if answer is Counted.COUNTED
                and isinstance(case.read, Result)
                and case.decision is not None
                and case.decision.effect is Effect.ADDED
            ]
        )
        self._changed()

    def _verdict(self, case: Case) -> Verdict:
        if case.refusal is not None:
            measures.REFUSED.labels(case.message.queue).inc()
            log.warning("collector.refused", message_id=case.message.message_id, reason=case.refusal)
            return DeadLetter(case.refusal)
        if isinstance(case.read, Result) and case.decision is not None:
            measures.RESULTS.labels(case.read.platform, case.read.format, case.decision.effect).inc()
        else:
            measures.ANALYSES.labels("taken").inc()
        return Ack()
