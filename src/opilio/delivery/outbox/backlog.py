"""What waits to go out, as figures for metrics and for people."""

import msgspec

from opilio.adapters.postgres import Database
from opilio.delivery.outbox.routing import sql


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """Counts, and ages in seconds of the oldest that waits (0 when nothing does)."""

    outbox: int
    outbox_age: float
    outbound: int
    outbound_age: float
    webhooks: int
    webhooks_age: float
    endpoints_active: int
    endpoints_paused: int
    endpoints_disabled: int
    queues: dict[str, int]
    dead_letters: dict[str, int]


async def measure(database: Database) -> Backlog:
    async with database.session() as session:
        row = await session.row(sql.measure)
        assert row is not None
        queues = await session.fetch(sql.measure_queues)
        dead = await session.fetch(sql.measure_dead_letters)
    return Backlog(
        **{name: value or 0 for name, value in row.items()},
        queues={found["queue"]: found["messages"] for found in queues},
        dead_letters={found["queue"]: found["letters"] for found in dead},
    )
