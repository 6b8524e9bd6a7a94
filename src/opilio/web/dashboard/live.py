"""Live pages: one read of the database per tick, sent to every open page."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
from litestar import Response
from litestar.response import Stream

from opilio.errors import Refused
from opilio.insights.dashboard import Figures, SystemStatus, Watched
from opilio.logs import get_logger
from opilio.runtime.dependencies import DependencyWatch
from opilio.web.codec import refuse
from opilio.web.dashboard.forms import uuid_of
from opilio.web.dashboard.i18n import Locale
from opilio.web.dashboard.page import PageRequest, Section
from opilio.web.dashboard.problems import problems
from opilio.web.dashboard.render import fragment

_log = get_logger(__name__)
_TICK = 2.0
_WATCH_TICK = 0.5
# So long two clocks go alike to a millisecond.
_CLOCK_SECONDS = 60.0
_MOST_WATCHED = 100
# A stream ends now and then, so that a session that was ended meanwhile cannot go on.
_LONGEST = 900.0
_RETRY_SECONDS = 30
_AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


@dataclass(slots=True)
class Snapshot:
    """One read: the status or why it failed, rendered once per language."""

    system_status: SystemStatus | None
    fault: str = ""
    marks: dict[UUID | str, str] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)
    # Whether the status was read for this snapshot; what is on the screen is looked at more often.
    is_new: bool = True
    _texts: dict[str, str] = field(default_factory=dict)

    def overview(self, locale: Locale) -> str:
        if locale.language not in self._texts:
            assert self.system_status is not None
            found = problems(self.system_status, locale)
            html = fragment(
                "parts/overview_live.html", locale, system_status=self.system_status, problems=found
            )
            self._texts[locale.language] = html
        return self._texts[locale.language]


@dataclass(eq=False, slots=True)
class Viewer:
    """Receives the newest snapshot only: a slow browser misses some, and misses nothing by it."""

    watched: Watched
    seen: str | None = None
    session: str = ""
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _snapshot: Snapshot | None = None
    _known: str | None = None
    _changed: bool = False
    ended: bool = False

    def receive(self, snapshot: Snapshot) -> None:
        if snapshot.system_status is not None:
            mine = self.watched.version(snapshot.marks)
            # A page that does not name its version may be older than the first snapshot.
            known = self.seen if self._known is None else self._known
            self._changed = self._changed or (known != mine and any(True for _ in self.watched))
            self._known = mine
        if self._snapshot is not None and self._news.is_set() and self._snapshot.is_new:
            snapshot = replace(snapshot, is_new=True)  # this viewer has not had the newest status yet
        self._snapshot = snapshot
        self._news.set()

    def seed(self, snapshot: Snapshot) -> None:
        """A snapshot from before this viewer connected: figures at once, but nothing to compare with."""
        self._snapshot = snapshot
        self._news.set()

    def end(self) -> None:
        self.ended = True
        self._news.set()

    async def next(self) -> tuple[Snapshot, bool]:
        await self._news.wait()
        self._news.clear()
        changed, self._changed = self._changed, False
        return self._snapshot or Snapshot(None), changed


class Live:
    """One per process; reads only while a page is open."""

    def __init__(
        self,
        figures: Figures,
        outside: DependencyWatch | None = None,
        *,
        tick: float = _TICK,
        most_per_session: int = 20,
    ) -> None:
        self._figures = figures
        self._most_per_session = most_per_session
        self._outside = outside or DependencyWatch([])
        self._tick = tick
        self._viewers: set[Viewer] = set()
        self._task: asyncio.Task[None] | None = None
        self._last: tuple[float, Snapshot] | None = None
        self.looks = 0

    async def system_status(self) -> SystemStatus:
        """The newest snapshot if it is fresh, so that a page need not read again."""
        fresh = self._fresh()
        return (fresh or await self.look()).system_status or await self._figures.system_status()

    async def now(self) -> datetime:
        """The time by the database's clock, carried on from the last snapshot: a page need not read the status for it."""
        last = self._fresh(_CLOCK_SECONDS)
        if last is None or self._last is None or last.system_status is None:
            return (await self.system_status()).at
        return last.system_status.at + timedelta(seconds=time.monotonic() - self._last[0])

    def _fresh(self, seconds: float | None = None) -> Snapshot | None:
        if self._last is None or self._last[0] < time.monotonic() - (seconds or self._tick):
            return None
        return self._last[1]

    def has_room(self, session: str) -> bool:
        """Whether a login may open one more stream: each holds a connection."""
        return sum(viewer.session == session for viewer in self._viewers) < self._most_per_session

    @contextmanager
    def watching(self, watched: Watched, seen: str | None = None, session: str = "") -> Iterator[Viewer]:
        viewer = Viewer(watched, seen, session)
        if not self.has_room(session):  # streams that were asked for at the same moment
            viewer.end()
        elif fresh := self._fresh():
            viewer.seed(fresh)
        self._viewers.add(viewer)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)

    async def _run(self) -> None:
        while self._viewers:
            snapshot = await self.look()
            for viewer in list(self._viewers):
                viewer.receive(snapshot)
            await asyncio.sleep(min(self._tick, _WATCH_TICK))

    async def look(self) -> Snapshot:
        watched = reduce(or_, (viewer.watched for viewer in self._viewers), Watched())
        last = self._fresh()
        self.looks += last is None
        try:
            async with asyncio.timeout(10):
                status = last.system_status if last else await self._figures.system_status()
                marks = await self._figures.marks(watched)
        except _AWAY as error:
            _log.warning("the dashboard cannot see the database", error=str(error))
            return Snapshot(None, fault=str(error) or type(error).__name__)
        snapshot = Snapshot(status, marks=marks, away=self._outside.away(), is_new=last is None)
        if last is None:
            self._last = (time.monotonic(), snapshot)
        return snapshot

    def end_streams(self) -> None:
        """The process stops: browsers connect to another one."""
        for viewer in self._viewers:
            viewer.end()

    async def close(self) -> None:
        self.end_streams()
        await self._outside.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


LIVE = Section()


@LIVE.page("/live", as_data=False)
async def stream(request: PageRequest) -> Response[Any]:
    """Server-sent events: `tick` with the figures, `changed` when something on the screen did, `down`."""
    live, session = request.app.live, request.operator.csrf_token or ""
    if not live.has_room(session):
        return refuse(
            Refused("rate_limited", "this login has too many live pages open; close some of them"),
            {"retry-after": str(_RETRY_SECONDS)},
        )
    watched = Watched(
        jobs=frozenset(map(uuid_of, _listed(request.query("jobs")))),
        policies=frozenset(map(uuid_of, _listed(request.query("policies")))),
        projects=frozenset(_listed(request.query("projects"))),
    )
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    overview = request.query("page") == "overview"
    viewing = live.watching(watched, request.query("seen"), session)
    messages = _messages(viewing, request.locale, overview=overview)
    return Stream(messages, media_type="text/event-stream", headers=headers)


async def _messages(
    viewing: AbstractContextManager[Viewer], locale: Locale, *, overview: bool
) -> AsyncIterator[str]:
    ends = time.monotonic() + _LONGEST
    with viewing as viewer:
        while time.monotonic() < ends:
            snapshot, changed = await viewer.next()
            if viewer.ended:
                return
            if snapshot.system_status is None:
                yield event("down", snapshot.fault)
                continue
            if snapshot.is_new:
                yield event("tick", _figures(snapshot.system_status, snapshot.away))
            if overview and snapshot.is_new:
                yield event("", snapshot.overview(locale))
            if changed:
                yield event("changed", "1")


def _figures(system_status: SystemStatus, away: Mapping[str, str]) -> str:
    shown = {
        name: getattr(system_status, name)
        for name in (
            "pending",
            "locked",
            "due",
            "bots_alive",
            "hosts_cooling",
            "dead_letters",
            "webhooks",
            "projects",
        )
    }
    return msgspec.json.encode(shown | {"at": system_status.at, "away": away}).decode()


def event(name: str, data: str) -> str:
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return (f"event: {name}\n" if name else "") + lines + "\n"


def _listed(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",")[:_MOST_WATCHED] if part]
