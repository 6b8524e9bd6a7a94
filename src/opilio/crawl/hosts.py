"""Keeps the limits of hosts."""

from opilio.adapters.postgres import Database
from opilio.clock import Clock
from opilio.crawl.lock_end import QUERIES
from opilio.crawl.politeness import Limits
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

    async def set_limits(self, name: str, limits: Limits) -> str:
        """Applies from the next pull on; answers the host's name in its normal form."""
        try:
            host = domain_name(name)
        except Invalid as error:
            raise Invalid("host", error.message.partition(": ")[2]) from None
        async with self._db.transaction() as session:
            host_id = await session.value(
                QUERIES.set_limits,
                name=host,
                max_concurrent=limits.max_concurrent,
                min_delay_seconds=limits.min_delay_seconds,
                gated=limits.any,
                now=self._clock.now(),
            )
            await session.execute(QUERIES.open_gate, host_id=host_id, now=self._clock.now())
        if limits.any:
            await self.park(host_id)
        return host

    async def park(self, host_id: int) -> int:
        """Moves the waiting jobs of a gated host out of the common queue, so that pulls need not step over them."""
        moved = 0
        while True:
            count: int = await self._db.value(
                QUERIES.park_jobs, host_id=host_id, most=_BATCH, now=self._clock.now()
            )
            moved += count
            if count < _BATCH:
                return moved

    async def park_all(self) -> int:
        """The same for every gated host: after a cooling, or a change of the fleet's limits."""
        rows = await self._db.fetch(QUERIES.hosts_to_park, fleet_gated=self._fleet.any)
        return sum([await self.park(row["host_id"]) for row in rows])
