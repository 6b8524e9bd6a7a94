"""Sends outcomes in batches: a batch collects what comes in while the previous one is being sent."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from opilio.bot.errors import NotAllowed, Refused, ServerError
from opilio.contracts.bot_api import ItemAnswer

Send = Callable[[list[msgspec.Raw]], Awaitable[list[ItemAnswer]]]

_MOST_ITEMS = 100
_MOST_BYTES = 4 * 1024 * 1024
# The whole body was refused, perhaps because of one item: try halves.
_DIVISIBLE = {400, 413}


@dataclass(eq=False, slots=True)
class _Pending:
    body: msgspec.Raw
    answer: asyncio.Future[ItemAnswer]


class BatchSubmitter:
    """Takes outcomes one at a time and sends them in batches; a single outcome is sent at once."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: deque[_Pending] = deque()
        self._filled = asyncio.Event()

    async def submit(self, body: bytes) -> ItemAnswer:
        """The server's answer to this outcome."""
        item = _Pending(msgspec.Raw(body), asyncio.get_running_loop().create_future())
        self._waiting.append(item)
        self._filled.set()
        return await item.answer

    async def run(self) -> None:
        while True:
            await self._filled.wait()
            batch = self._next_batch()
            if batch:
                await self._deliver(batch)
            else:
                self._filled.clear()

    def _next_batch(self) -> list[_Pending]:
        batch: list[_Pending] = []
        size = 0
        while self._waiting and len(batch) < _MOST_ITEMS:
            size += len(bytes(self._waiting[0].body))
            if batch and size > _MOST_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _deliver(self, batch: list[_Pending]) -> None:
        try:
            answers = await self._send([item.body for item in batch])
        except Refused as refusal:
            if refusal.status in _DIVISIBLE and len(batch) > 1:
                middle = len(batch) // 2
                await self._deliver(batch[:middle])
                await self._deliver(batch[middle:])
            else:
                _fail(batch, refusal)
            if isinstance(refusal, NotAllowed):
                raise
        else:
            _answer(batch, answers)


def _answer(batch: list[_Pending], answers: list[ItemAnswer]) -> None:
    if len(answers) != len(batch):
        _fail(batch, ServerError(f"{len(batch)} results were sent, {len(answers)} were answered"))
        return
    for item, answer in zip(batch, answers, strict=True):
        if not item.answer.done():
            item.answer.set_result(answer)


def _fail(batch: list[_Pending], error: ServerError) -> None:
    for item in batch:
        if not item.answer.done():
            item.answer.set_exception(error)
