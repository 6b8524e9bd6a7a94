"""The scheduler role: creates due jobs, expires locks, and cleans up."""

import asyncio
from datetime import UTC, datetime, timedelta

from opilio import audit, metrics
from opilio.loop import Counts, Loop, Work, run_loops
from opilio.runtime.bootstrap import Opilio

WORK = "opilio_work"
_MINUTE, _HOUR = 60.0, 3600.0


def scheduler_loops(opilio: Opilio) -> list[Loop]:
    often = opilio.settings.scheduler_interval_seconds
    rounds = Rounds(opilio)
    return [
        Loop("create_due", often, rounds.create_due),
        Loop("expire", often, rounds.expire),
        Loop("park", often, rounds.park),
        Loop("refit_prices", _MINUTE, rounds.refit_prices),
        Loop("refit_priors", _HOUR, rounds.refit_priors),
        Loop("sibling_changes", _MINUTE, rounds.sibling_changes),
        Loop("repair", _MINUTE, rounds.alone("repair", rounds.repair)),
        Loop("retention", _HOUR, rounds.alone("retention", rounds.drop_old)),
        Loop("tidy", _HOUR, rounds.alone("tidy", rounds.tidy)),
    ]


class Rounds:
    """One round of each loop; any number of schedulers may run them at the same time."""

    def __init__(self, opilio: Opilio) -> None:
        self._opilio = opilio

    async def create_due(self) -> Counts:
        made = await self._opilio.scheduler.create_due()
        metrics.JOBS_CREATED.inc(made.created)
        if made.created:
            await self._opilio.database.notify(WORK)
        return {"created": made.created}

    async def expire(self) -> Counts:
        retried = ended = 0
        while (swept := await self._opilio.lock_expiry.run_once()).total:
            retried, ended = retried + swept.retried, ended + swept.ended
        metrics.JOBS_EXPIRED.inc(retried + ended)
        metrics.JOBS_RETRIED.inc(retried)
        if retried:
            await self._opilio.database.notify(WORK)
        return {"retried": retried, "ended": ended}

    async def refit_prices(self) -> Counts:
        return {"pools_refitted": await self._opilio.budgets.refit()}

    async def refit_priors(self) -> Counts:
        return {"priors_refitted": await self._opilio.budgets.refit_priors()}

    async def sibling_changes(self) -> Counts:
        return {"brought_forward": await self._opilio.sibling_changes.run_once()}

    async def park(self) -> Counts:
        return {"parked": await self._opilio.hosts.park_all()}

    async def repair(self) -> Counts:
        return {"restored": await self._opilio.scheduler.repair()}

    async def drop_old(self) -> Counts:
        return {"partitions_dropped": len(await self._opilio.retention.run())}

    async def tidy(self) -> Counts:
        await self._opilio.operators.delete_expired_logins()
        keep = self._opilio.settings.keep_audit_days
        if not keep:
            return {}
        before = datetime.now(UTC) - timedelta(days=keep)
        return {"audit_entries": await audit.delete_before(self._opilio.database, before)}

    def alone(self, name: str, work: Work) -> Work:
        """Work that reads whole tables is done by one scheduler at a time; the others skip the round."""

        async def guarded() -> Counts:
            async with self._opilio.database.try_lock(f"opilio.{name}") as mine:
                return await work() if mine else {}

        return guarded


async def serve(opilio: Opilio, stop: asyncio.Event) -> None:
    """The scheduler role."""
    await run_loops(scheduler_loops(opilio), stop)
