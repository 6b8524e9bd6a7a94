"""Puts the rows of a batch into the database: one transaction, once."""

from datetime import datetime

import msgspec

from opilio.adapters.postgres import Database, Session, load_queries
from opilio.adapters.postgres.partitions import Partitions
from opilio.analytics.batch import BatchRows, Counts
from opilio.analytics.message import Inbound
from opilio.contracts.collector import ANALYTICS_RESULT, ANALYZE_RESULT, AnalyzeResult
from opilio.contracts.events import ALERT_RAISED
from opilio.contracts.topology import RESULTS

sql = load_queries("opilio.analytics")


class BatchStore:
    """Rows, alerts and the message to the collector become visible together, or not at all."""

    def __init__(self, database: Database, *, exchange: str = RESULTS) -> None:
        self._db = database
        self._exchange = exchange
        self._months = [
            Partitions(database, table, "month")
            for table in ("post_analytics", "post_comments", "crawl_errors")
        ]

    async def is_done(self, inbound: Inbound) -> bool:
        """Asked first, so that a batch that comes again is not even fetched."""
        return bool(
            await self._db.value(sql.batch_is_done, batch_key=inbound.batch_key, event_id=inbound.event_id)
        )

    async def store(self, inbound: Inbound, rows: BatchRows, now: datetime) -> bool:
        """Stores a batch; False where it was stored before."""

        async def work(session: Session) -> bool:
            fresh = await self._claim(session, inbound, rows.counts, now)
            if fresh is None:
                return False
            await self._write(session, rows, now)
            if fresh:
                await self._announce(session, inbound, rows.counts, now)
            return True

        return await self._db.transact(work)

    async def give_up(self, inbound: Inbound, now: datetime) -> bool:
        """Counts all posts of a batch that cannot be read as errors, so that its project can finish."""

        async def work(session: Session) -> bool:
            lost = inbound.context.content_count or 0
            counts = Counts(lost, 0, lost)
            fresh = await self._claim(session, inbound, counts, now, status="failed")
            if fresh:
                await self._announce(session, inbound, counts, now)
            return bool(fresh)

        return await self._db.transact(work)

    async def prepare_months(self, now: datetime) -> None:
        for partitions in self._months:
            await partitions.prepare(now, ahead=2)

    async def forget(self, before: datetime) -> int:
        """Drops the months that ended before a time; answers how many partitions went."""
        dropped = [len(await partitions.drop_before(before)) for partitions in self._months]
        await self._db.execute(sql.delete_old_identities, before=before)
        await self._db.execute(sql.delete_old_batches, before=before)
        return sum(dropped)

    async def _claim(
        self, session: Session, inbound: Inbound, counts: Counts, now: datetime, *, status: str = "done"
    ) -> bool | None:
        """True for a new batch, False for one that had failed, None for one that is done."""
        fresh: bool | None = await session.value(
            sql.claim_batch,
            batch_key=inbound.batch_key,
            event_id=inbound.event_id,
            project_id=inbound.context.project_id,
            job_id=inbound.context.job_id,
            status=status,
            success_count=counts.succeeded,
            error_count=counts.failed,
            now=now,
        )
        return fresh

    async def _write(self, session: Session, rows: BatchRows, now: datetime) -> None:
        await session.execute(sql.claim_identities, identities=msgspec.Raw(rows.identities), now=now)
        await session.execute(sql.store_posts, posts=msgspec.Raw(rows.posts), now=now)
        if rows.comments != b"[]":
            await session.execute(sql.store_comments, comments=msgspec.Raw(rows.comments), now=now)
        if rows.errors != b"[]":
            await session.execute(sql.store_errors, errors=msgspec.Raw(rows.errors), now=now)
        if rows.alerts != b"[]":
            await session.execute(
                sql.raise_alerts, alerts=msgspec.Raw(rows.alerts), type=ALERT_RAISED, now=now
            )

    async def _announce(self, session: Session, inbound: Inbound, counts: Counts, now: datetime) -> None:
        """Only for batches of a project: a dry run has nobody who counts."""
        context = inbound.context
        if inbound.format != "event" or not context.project_id:
            return
        job_id = f"{context.job_id}-analyze-batch-{context.batch_index or 0}"
        result = AnalyzeResult(
            project_id=context.project_id,
            job_id=job_id,
            batch_size=counts.size,
            success_count=counts.succeeded,
            error_count=counts.failed,
            platform=context.platform,
        )
        await session.execute(
            sql.announce_result,
            type=ANALYZE_RESULT,
            project_id=context.project_id,
            data=result,
            now=now,
            exchange=self._exchange,
            routing_key=ANALYTICS_RESULT,
            job_id=job_id,
        )
