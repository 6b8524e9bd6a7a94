"""Project state in Redis: a cache of the counters in PostgreSQL.

`opilio:project:{project_id}` is the hash, `opilio:project:{project_id}:version` the version of its counters. A missing
hash is read from PostgreSQL and written back; `heal` compares the versions of all projects that may change.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import msgspec
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from opilio.adapters.postgres import Database
from opilio.collector.state.postgres import PostgresState
from opilio.collector.state.protocol import VersionedState
from opilio.contracts.projects import ProjectState
from opilio.logs import get_logger

log = get_logger(__name__)
_WRITTEN_AT_ONCE = 200  # states in one call of the script, which nothing else in Redis runs beside


def hash_key(project_id: str) -> str:
    return f"opilio:project:{project_id}"


def version_key(project_id: str) -> str:
    return f"{hash_key(project_id)}:version"


class RedisState:
    """Writes are scripts, so that hash and version change together; an outage only costs freshness."""

    def __init__(self, client: "Redis", database: Database) -> None:
        self._redis: Any = client
        self._truth = PostgresState(database)
        source = files("opilio.collector").joinpath("lua", "write_newer.lua").read_text(encoding="utf-8")
        self._write_newer = self._redis.register_script(source)

    @classmethod
    def connect(cls, url: str, database: Database) -> "RedisState":
        """Callers wait for a free connection instead of failing when all are in use."""
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=32,
            timeout=10,
            socket_timeout=10,
            decode_responses=True,
            health_check_interval=30,
        )
        return cls(Redis.from_pool(pool), database)

    async def read(self, project_id: str) -> ProjectState | None:
        """From Redis; from PostgreSQL where Redis does not have it or does not answer."""
        try:
            cached = _state(await self._redis.hgetall(hash_key(project_id)))
        except (RedisError, OSError) as error:
            log.warning("collector.redis_unavailable", error=str(error))
            return await self._truth.read(project_id)
        if cached is not None:
            return cached
        found = await self._truth.read_versioned([project_id])
        await self.publish(found)
        return found[0].state if found else None

    async def publish(self, states: Sequence[VersionedState]) -> None:
        try:
            for start in range(0, len(states), _WRITTEN_AT_ONCE):
                page = states[start : start + _WRITTEN_AT_ONCE]
                keys = [
                    key for one in page for key in (hash_key(one.project_id), version_key(one.project_id))
                ]
                args = [arg for one in page for arg in (one.version, _fields(one.state))]
                await self._write_newer(keys=keys, args=args)
        except (RedisError, OSError) as error:
            log.warning("collector.redis_unavailable", error=str(error), projects=len(states))

    async def versions(self, project_ids: Sequence[str]) -> Mapping[str, int]:
        pipe = self._redis.pipeline(transaction=False)
        for project_id in project_ids:
            pipe.exists(hash_key(project_id))
            pipe.get(version_key(project_id))
        replies = await pipe.execute()
        return {
            project_id: int(version)
            for project_id, exists, version in zip(project_ids, replies[::2], replies[1::2], strict=True)
            if exists and version is not None
        }

    async def close(self) -> None:
        await self._redis.aclose()


def _fields(state: ProjectState) -> bytes:
    """Names and values in turn; numbers as text, so that the script cannot round them."""
    pairs = ((name, str(getattr(state, name))) for name in state.__struct_fields__)
    return msgspec.json.encode([text for pair in pairs for text in pair])


def _state(fields: dict[str, str]) -> ProjectState | None:
    """Converts numbers; a missing field is zero."""
    if not fields:
        return None
    status: Any = fields.pop("status", "PENDING")
    known = ProjectState.__struct_fields__
    return ProjectState(status=status, **{n: int(v) for n, v in fields.items() if n in known})
