"""Stores the rows of a batch in one transaction, once."""

from datetime import datetime

import msgspec

from opilio.adapters.postgres import Database, Session, load_queries
from opilio.adapters.postgres.partitions import Partitions
from opilio.analytics.batch import BatchRows, Counts
from opilio.analytics.message import Inbound
from opilio.contracts.codes import category_of
from opilio.contracts.collector import ANALYTICS_RESULT, ANALYZE_RESULT, AnalyzeResult
from opilio.contracts.events import ALERT_RAISED, PARSING_ERRORS_EXCEEDED, ParsingErrorsExceeded
from opilio.contracts.topology import RESULTS

sql = load_queries("opilio.analytics")
# The share of a batch above which an event tells of its parsing errors.
_PARSING_ERRORS = 0.05


class BatchStore:
    """Rows, alerts and the `analyze_result` are committed together."""

    def __init__(self, database: Database, *, exchange: str = RESULTS, time_zone: str = "UTC") -> None:
        self._db = database
        self._exchange = exchange
        self._time_zone = time_zone  # of projects that have none of their own
        self._posts = [Partitions(database, table, "month") for table in ("post_analytics", "post_comments")]
        self._errors = Partitions(database, "crawl_errors", "month")

    async def is_other_batch(self, inbound: Inbound) -> bool:
        """Whether the event was stored with another batch, so that this one need not be fetched."""
        return bool(
            await self._db.value(
                sql.event_has_other_batch, batch_key=inbound.batch_key, event_id=inbound.event_id
            )
        )

    async def is_done(self, inbound: Inbound, digest: str) -> bool:
        """Whether the batch was stored with this content, so that it need not be analysed."""
        return bool(await self._db.value(sql.batch_is_done, batch_key=inbound.batch_key, digest=digest))

    async def store(self, inbound: Inbound, rows: BatchRows, now: datetime, digest: str = "") -> bool:
        """Stores a batch and reports it; returns False if it was stored with this content before."""

        async def work(session: Session) -> bool:
            if not await self._claim(session, inbound, rows.counts, now, digest=digest):
                return False
            await self._write(session, rows, now)
            await self._report_parsing_errors(session, inbound, rows, now)
            await self._announce(session, inbound, rows.counts, now)
            return True

        return await self._db.transact(work)

    async def give_up(self, inbound: Inbound, now: datetime) -> bool:
        """Reports all items of an unreadable batch as errors, so that its project can finish."""

        async def work(session: Session) -> bool:
            counts = Counts(inbound.owed, 0, inbound.owed, inbound.context.fetch_error_count)
            claimed = await self._claim(session, inbound, counts, now, status="failed")
            if claimed:
                known = inbound.context.content_count is not None
                await self._announce(session, inbound, counts, now, size_known=known)
            return claimed

        return await self._db.transact(work)

    async def prepare_months(self, now: datetime) -> None:
        for partitions in (*self._posts, self._errors):
            await partitions.prepare(now, ahead=2)

    async def forget_errors(self, before: datetime) -> int:
        """Drops the months of errors that ended before a time; posts stay."""
        return len(await self._errors.drop_before(before))

    async def forget(self, before: datetime) -> int:
        """Drops the months of posts that ended before a time; returns the number of partitions."""
        dropped = [len(await partitions.drop_before(before)) for partitions in self._posts]
        await self._db.execute(sql.delete_old_identities, before=before)
        await self._db.execute(sql.delete_old_batches, before=before)
        await self._db.execute(sql.delete_old_keywords, before=before)
        await self.mend_digests()
        return sum(dropped)

    async def mend_digests(self) -> None:
        """Makes the digests again that count posts which are gone, one project at a time: batches wait for one only."""
        for row in await self._db.fetch(sql.wrong_digests):
            await self._rebuild_digest(row["project_id"])

    async def _report_parsing_errors(
        self, session: Session, inbound: Inbound, rows: BatchRows, now: datetime
    ) -> None:
        context = inbound.context
        items = rows.counts.size + rows.counts.fetch_errors
        failed = sum(n for code, n in rows.errors_by_code.items() if category_of(code) == "parsing")
        if not items or failed / items <= _PARSING_ERRORS:
            return
        event = ParsingErrorsExceeded(
            project_id=context.project_id,
            platform=context.platform,
            job_id=context.job_id,
            batch_index=context.batch_index,
            items=items,
            parsing_errors=failed,
            percent=round(100 * failed / items, 2),
        )
        await session.execute(
            sql.raise_parsing_errors,
            type=PARSING_ERRORS_EXCEEDED,
            subject=context.project_id or context.platform,
            data=event,
            now=now,
        )

    async def _rebuild_digest(self, project_id: str) -> None:
        async def work(session: Session) -> None:
            await session.execute(sql.block_digest)
            await session.execute(sql.clear_digest, project_id=project_id)
            await session.execute_long(sql.rebuild_digest, project_id=project_id)

        await self._db.transact(work)

    async def _claim(
        self,
        session: Session,
        inbound: Inbound,
        counts: Counts,
        now: datetime,
        *,
        status: str = "done",
        digest: str = "",
    ) -> bool:
        """Whether the batch is new, or has other content than before, or failed before."""
        claimed = await session.value(
            sql.claim_batch,
            batch_key=inbound.batch_key,
            event_id=inbound.event_id,
            project_id=inbound.context.project_id,
            job_id=inbound.context.job_id,
            status=status,
            success_count=counts.succeeded,
            error_count=counts.failed,
            fetch_error_count=counts.fetch_errors,
            digest=digest,
            now=now,
        )
        return claimed is not None

    async def _write(self, session: Session, rows: BatchRows, now: datetime) -> None:
        identities = msgspec.Raw(rows.identities)
        new = await session.execute(sql.claim_identities, identities=identities, now=now)
        await session.execute(sql.know_projects, identities=identities, time_zone=self._time_zone)
        before: object = []
        # Posts that are all new have added nothing yet.
        if new < rows.posts_count and await session.value(sql.lock_posts, identities=identities):
            before = await session.value(sql.digest_before, identities=identities)
        await session.execute(sql.store_posts, posts=msgspec.Raw(rows.posts), now=now)
        await session.execute(sql.store_keywords, identities=identities, now=now)
        if rows.comments != b"[]":
            await session.execute(sql.store_comments, comments=msgspec.Raw(rows.comments), now=now)
        if rows.errors != b"[]":
            await session.execute(sql.store_errors, errors=msgspec.Raw(rows.errors), now=now)
        if rows.alerts != b"[]":
            await session.execute(
                sql.raise_alerts, alerts=msgspec.Raw(rows.alerts), type=ALERT_RAISED, now=now
            )
        # Last, because batches of one project wait for each other from here to the commit.
        await session.execute(sql.keep_digest, identities=identities, before=before)

    async def _announce(
        self, session: Session, inbound: Inbound, counts: Counts, now: datetime, *, size_known: bool = True
    ) -> None:
        """Sends `analyze_result` for a batch of a project; a dry run has no counters."""
        context = inbound.context
        if inbound.format != "event" or not context.project_id:
            return
        job_id = f"{context.job_id}-analyze-batch-{inbound.batch_name}"
        result = AnalyzeResult(
            project_id=context.project_id,
            job_id=job_id,
            batch_size=counts.size,
            success_count=counts.succeeded,
            error_count=counts.failed,
            platform=context.platform,
            fetch_error_count=counts.fetch_errors,
            crawl_id=context.crawl_id or msgspec.UNSET,
            size_known=msgspec.UNSET if size_known else False,
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
            headers={"x-trace-id": inbound.trace_id} if inbound.trace_id else None,
        )
