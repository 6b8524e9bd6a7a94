"""The scheduler role: creates due jobs, expires locks, and cleans up."""

import asyncio

from opilio import metrics
from opilio.adapters.postgres import Statement
from opilio.loop import Counts, Loop, Work, run_loops
from opilio.runtime.bootstrap import Opilio

WORK = "opilio_work"
_MINUTE, _HOUR = 60.0, 3600.0
_TAKE = Statement("take_turn", "select pg_try_advisory_lock(hashtext($1))", ("name",))
_GIVE = Statement("end_turn", "select pg_advisory_unlock(hashtext($1))", ("name",))


def scheduler_loops(opilio: Opilio) -> list[Loop]:
    often = opilio.settings.scheduler_interval_seconds
    rounds = Rounds(opilio)
    return [
        Loop("create_due", often, rounds.create_due),
        Loop("expire", often, rounds.expire),
        Loop("park", often, rounds.park),
        Loop("refit_prices", _MINUTE, rounds.refit_prices),
        Loop("refit_priors", _HOUR, rounds.refit_priors),
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

    async def park(self) -> Counts:
        return {"parked": await self._opilio.hosts.park_all()}

    async def repair(self) -> Counts:
        return {"restored": await self._opilio.scheduler.repair()}

    async def drop_old(self) -> Counts:
        return {"partitions_dropped": len(await self._opilio.retention.run())}

    async def tidy(self) -> Counts:
        await self._opilio.operators.delete_expired_logins()
        return {}

    def alone(self, name: str, work: Work) -> Work:
        """Work that reads whole tables is done by one scheduler at a time; the others skip the round."""

        async def guarded() -> Counts:
            async with self._opilio.database.session() as session:
                if not await session.value(_TAKE, name=f"opilio.{name}"):
                    return {}
                try:
                    return await work()
                finally:
                    await session.value(_GIVE, name=f"opilio.{name}")

        return guarded


async def serve(opilio: Opilio, stop: asyncio.Event) -> None:
    """The scheduler role."""
    await run_loops(scheduler_loops(opilio), stop)
