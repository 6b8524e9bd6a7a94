"""Progress webhooks: the newest state of a subject replaces an older one; the final state is sent last and once."""

from datetime import timedelta

from opilio.adapters.postgres import Database, Session
from opilio.clock import Clock
from opilio.delivery.sql import QUERIES
from opilio.delivery.webhooks import address, signature
from opilio.loop import Counts, Loop
from opilio.net.allowed_addresses import PUBLIC_ONLY, AllowList

CHANNEL = "opilio_progress"
PACE = timedelta(seconds=1)


class ProgressReports:
    """Stores reports in the caller's transaction; creates one endpoint for each URL."""

    def __init__(self, *, allow: AllowList = PUBLIC_ONLY, clock: Clock | None = None) -> None:
        self._allow = allow
        self._clock = clock or Clock()

    async def report(
        self,
        session: Session,
        *,
        subject: str,
        url: str,
        body: bytes,
        version: int,
        final: bool = False,
        trace_id: str | None = None,
    ) -> bool:
        """False for a report that is older than the stored one or comes after the final one.

        `version` grows with every state of the subject, so that reports may come in any order. The body is
        sent as it is, not wrapped.
        """
        endpoint_id = await self._endpoint(session, address.checked(url, self._allow))
        counted: int = await session.value(
            QUERIES.report_progress,
            subject=subject,
            endpoint_id=endpoint_id,
            version=version,
            body=body,
            final=final,
            trace_id=trace_id,
            now=self._clock.now(),
        )
        return counted > 0

    async def _endpoint(self, session: Session, url: str) -> object:
        found = await session.value(QUERIES.find_direct, url=url)
        if found is not None:
            return found
        made = await session.value(
            QUERIES.create_endpoint,
            kind="direct",
            url=url,
            events=[],
            event_regex="^$",
            secret=signature.new_secret(),
            description="Progress of projects.",
            host=address.host_of(url),
            max_concurrent=8,
            now=self._clock.now(),
        )
        return made if made is not None else await session.value(QUERIES.find_direct, url=url)


class ProgressThrottle:
    """Turns reports into deliveries, at most one a second for each subject."""

    def __init__(self, database: Database, *, batch: int = 500, clock: Clock | None = None) -> None:
        self._db = database
        self._batch = batch
        self._clock = clock or Clock()

    def loop(self) -> Loop:
        return Loop(
            "progress",
            5,
            self.run_once,
            drain=True,
            next_due=self._next_due,
            wake_on=[CHANNEL],
            notifications=self._db,
        )

    async def _next_due(self) -> float | None:
        due: float | None = await self._db.value(QUERIES.next_progress, now=self._clock.now())
        return due

    async def run_once(self) -> Counts:
        return {"released": await self._db.transact(self._release)}

    async def _release(self, session: Session) -> int:
        now = self._clock.now()
        rows = await session.fetch(QUERIES.take_progress, now=now, most=self._batch)
        if not rows:
            return 0
        subjects = [row["subject"] for row in rows]
        endpoint_ids = [row["endpoint_id"] for row in rows]
        await session.fetch(QUERIES.lock_gates, endpoint_ids=list(set(endpoint_ids)))
        await session.execute(QUERIES.supersede, endpoint_ids=endpoint_ids, subjects=subjects, now=now)
        await session.execute(QUERIES.release_progress, subjects=subjects, pace=PACE.total_seconds(), now=now)
        await session.fetch(QUERIES.open_gates, endpoint_ids=list(set(endpoint_ids)), now=now)
        return len(rows)
