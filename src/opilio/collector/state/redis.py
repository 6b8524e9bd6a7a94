"""Project state in Redis: one hash for each project, changed by scripts.

`opilio:project:{project_id}` is the hash, `opilio:project:{project_id}:counted` the set of what was counted,
`opilio:projects:changed` the set of projects to tell of.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import msgspec
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from opilio.collector.state.protocol import Change, Counted
from opilio.collector.tally import Tally
from opilio.contracts.projects import ProjectState
from opilio.errors import Unavailable

CHANGED = "opilio:projects:changed"
_ANSWERS = {1: Counted.COUNTED, 0: Counted.REPEATED, -1: Counted.UNKNOWN}
_MOST_AT_ONCE = 1_000  # tallies in one call: nobody else is served while a script runs
_encode = msgspec.json.Encoder().encode


def hash_key(project_id: str) -> str:
    return f"opilio:project:{project_id}"


def counted_key(project_id: str) -> str:
    return f"{hash_key(project_id)}:counted"


class RedisState:
    """Scripts run one after the other in Redis, so each is atomic; pipelines save the round trips."""

    def __init__(self, client: "Redis") -> None:
        self._redis: Any = client
        self._open = self._script("open")
        self._count = self._script("count")
        self._look = self._script("look")
        self._told = self._script("told")

    @classmethod
    def connect(cls, url: str) -> "RedisState":
        """Callers wait for one of a few connections, instead of being refused when all are taken."""
        pool = BlockingConnectionPool.from_url(
            url, max_connections=32, timeout=10, decode_responses=True, health_check_interval=30
        )
        return cls(Redis.from_pool(pool))

    def _script(self, name: str) -> Any:
        source = files("opilio.collector").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
        return self._redis.register_script(source)

    async def open(self, project_id: str, state: ProjectState) -> None:
        fields = [item for name in state.__struct_fields__ for item in (name, getattr(state, name))]
        with _reaching_redis():
            await self._open(keys=[hash_key(project_id)], args=fields)

    async def count(self, tallies: Sequence[Tally]) -> list[Counted]:
        answers: dict[int, Counted] = {}
        groups = [chunk for group in _by_project(tallies).values() for chunk in _chunks(group, _MOST_AT_ONCE)]
        with _reaching_redis():
            pipe = self._redis.pipeline(transaction=False)
            for group in groups:
                await self._call_count(pipe, [tallies[n] for n in group])
            told = await pipe.execute()
        for group, codes in zip(groups, told, strict=True):
            answers.update(zip(group, (_ANSWERS[code] for code in codes), strict=True))
        return [answers[n] for n in range(len(tallies))]

    async def _call_count(self, pipe: Any, tallies: Sequence[Tally]) -> None:
        project_id = tallies[0].project_id
        told = _encode([(tally.identity, *tally.numbers) for tally in tallies])
        keys = [hash_key(project_id), counted_key(project_id), CHANGED]
        await self._count(keys=keys, args=[project_id, told], client=pipe)

    async def read(self, project_id: str) -> ProjectState | None:
        with _reaching_redis():
            return _state(await self._redis.hgetall(hash_key(project_id)))

    async def changes(self, most: int) -> list[Change]:
        with _reaching_redis():
            project_ids = await self._redis.srandmember(CHANGED, most)
            pipe = self._redis.pipeline(transaction=False)
            for project_id in project_ids:
                keys = [hash_key(project_id), counted_key(project_id)]
                await self._look(keys=keys, client=pipe)
            looks = await pipe.execute()
        changes = []
        for project_id, (version, flat) in zip(project_ids, looks, strict=True):
            state = _state(dict(zip(flat[::2], flat[1::2], strict=True)))
            if state is not None:
                changes.append(Change(project_id, version, state))
        return changes

    async def told(self, changes: Sequence[Change]) -> None:
        with _reaching_redis():
            pipe = self._redis.pipeline(transaction=False)
            for change in changes:
                keys = [counted_key(change.project_id), CHANGED]
                await self._told(keys=keys, args=[change.project_id, change.version], client=pipe)
            await pipe.execute()

    async def forget(self, project_ids: Sequence[str]) -> None:
        with _reaching_redis():
            pipe = self._redis.pipeline(transaction=False)
            for project_id in project_ids:
                pipe.unlink(counted_key(project_id))
            await pipe.execute()

    async def close(self) -> None:
        await self._redis.aclose()


@contextmanager
def _reaching_redis() -> Iterator[None]:
    try:
        yield
    except RedisError as error:
        raise Unavailable(
            f"Redis does not answer: {error}. Check OPILIO_REDIS_URL, and that it runs."
        ) from error


def _by_project(tallies: Iterable[Tally]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for number, tally in enumerate(tallies):
        groups.setdefault(tally.project_id, []).append(number)
    return groups


def _chunks(numbers: list[int], size: int) -> list[list[int]]:
    return [numbers[at : at + size] for at in range(0, len(numbers), size)]


def _state(fields: dict[str, str]) -> ProjectState | None:
    """Numbers as numbers; a field that another program left out is zero."""
    if not fields:
        return None
    status: Any = fields.pop("status", "PENDING")
    known = ProjectState.__struct_fields__
    return ProjectState(status=status, **{n: int(v) for n, v in fields.items() if n in known})
