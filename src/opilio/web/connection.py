"""Work that is only worth doing while the client is there."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from opilio.errors import Refused
from opilio.web.codec import AnyRequest

T = TypeVar("T")


async def while_connected(request: AnyRequest, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client disconnects; the body must have been read."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Refused("unavailable", "the client has disconnected")  # nobody reads it
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(request: AnyRequest) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue
