"""Runs work until it is told to stop."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Cancels `work` when `stop` is set, and waits for it to end; raises what it raises before."""
    task = asyncio.create_task(work)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return
    await task
