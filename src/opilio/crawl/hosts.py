"""The limits of hosts, and the jobs behind their gates."""

from dataclasses import asdict

from opilio import audit
from opilio.adapters.postgres import Database, Session
from opilio.clock import Clock
from opilio.crawl.politeness import Limits
from opilio.crawl.sql import QUERIES
from opilio.crawl.url import domain_name
from opilio.errors import Invalid

_BATCH = 10_000


class Hosts:
    def __init__(
        self, database: Database, *, fleet: Limits | None = None, clock: Clock | None = None
    ) -> None:
        self._db = database
        self._fleet = fleet or Limits()
        self._clock = clock or Clock()

    async def set_limits(self, name: str, limits: Limits, by: str = audit.SYSTEM) -> str:
        """Replaces a host's limits from the next pull on; answers the host's name in its normal form."""
        try:
            host = domain_name(name)
        except Invalid as error:
            raise Invalid("host", error.template, **error.params) from None

        async def work(session: Session) -> int:
            host_id: int = await session.value(
                QUERIES.set_limits,
                name=host,
                max_concurrent=limits.max_concurrent,
                min_delay_seconds=limits.min_delay_seconds,
                gated=limits.any,
                now=self._clock.now(),
            )
            await session.execute(QUERIES.open_gate, host_id=host_id, now=self._clock.now())
            await audit.record(session, by, "host.limits", host, asdict(limits))
            await session.execute(QUERIES.notify_work)
            return host_id

        host_id = await self._db.transact(work)
        if limits.any:
            await self.park(host_id)
        return host

    async def park(self, host_id: int) -> int:
        """Moves the waiting jobs of a gated host out of the common queue, so that pulls need not skip them."""
        moved = 0
        while True:
            count = await self._db.transact(lambda session: self._park_some(session, host_id))
            moved += count
            if count < _BATCH:
                return moved

    async def _park_some(self, session: Session, host_id: int) -> int:
        count: int = await session.value(
            QUERIES.park_jobs, host_id=host_id, most=_BATCH, now=self._clock.now()
        )
        return count

    async def park_all(self) -> int:
        """The same for every gated host: after a cool-down, or a change of the default limits."""
        rows = await self._db.fetch(QUERIES.hosts_to_park, fleet_gated=self._fleet.any)
        return sum([await self.park(row["host_id"]) for row in rows])
