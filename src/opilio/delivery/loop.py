"""Work that runs until stopped: woken by NOTIFY, polling slowly in case a word was missed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from opilio.adapters.postgres import Database
from opilio.adapters.postgres.pool import Listener

log = structlog.get_logger(__name__)


class Loop:
    """Runs `step` again and again; it answers how many seconds nothing is expected unless woken."""

    def __init__(
        self,
        name: str,
        database: Database,
        channels: Sequence[str],
        step: Callable[[], Awaitable[float]],
        *,
        poll: float = 5.0,
    ) -> None:
        self._name = name
        self._db = database
        self._channels = channels
        self._step = step
        self._poll = poll
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled. A step that fails is tried again, later each time; so is hearing of work."""
        listener: Listener | None = None
        trouble = 0
        try:
            while True:
                self._woken.clear()
                try:
                    if self._channels and listener is None:
                        listener = await self._db.listen(
                            self._channels, lambda _channel, _payload: self.wake()
                        )
                    wait = await self._step()
                    trouble = 0
                except Exception:
                    trouble += 1
                    wait = min(0.1 * 2**trouble, 10.0)
                    log.exception("delivery.step_failed", loop=self._name, again_in=wait)
                    await asyncio.sleep(wait)
                    continue
                if wait > 0:
                    await self._sleep(min(wait, self._poll))
        finally:
            if listener is not None:
                await listener.close()

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
