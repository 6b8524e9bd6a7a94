"""Outcomes on their way to the server: a batch forms while the one before it is in flight."""

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
# The whole body was refused, perhaps for the sake of one item.
_DIVISIBLE = {400, 413}


@dataclass(eq=False, slots=True)
class _Parcel:
    body: msgspec.Raw
    answer: asyncio.Future[ItemAnswer]


class BatchSubmitter:
    """Takes outcomes one at a time, sends them in batches; a lone outcome waits for nobody."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: deque[_Parcel] = deque()
        self._filled = asyncio.Event()

    async def submit(self, body: bytes) -> ItemAnswer:
        """The server's answer to this one; raises what the server raised."""
        parcel = _Parcel(msgspec.Raw(body), asyncio.get_running_loop().create_future())
        self._waiting.append(parcel)
        self._filled.set()
        return await parcel.answer

    async def run(self) -> None:
        while True:
            await self._filled.wait()
            batch = self._next_batch()
            if batch:
                await self._deliver(batch)
            else:
                self._filled.clear()

    def _next_batch(self) -> list[_Parcel]:
        batch: list[_Parcel] = []
        size = 0
        while self._waiting and len(batch) < _MOST_ITEMS:
            size += len(bytes(self._waiting[0].body))
            if batch and size > _MOST_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _deliver(self, batch: list[_Parcel]) -> None:
        try:
            answers = await self._send([parcel.body for parcel in batch])
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


def _answer(batch: list[_Parcel], answers: list[ItemAnswer]) -> None:
    if len(answers) != len(batch):
        _fail(batch, ServerError(f"{len(batch)} results were sent, {len(answers)} were answered"))
        return
    for parcel, answer in zip(batch, answers, strict=True):
        if not parcel.answer.done():
            parcel.answer.set_result(answer)


def _fail(batch: list[_Parcel], error: ServerError) -> None:
    for parcel in batch:
        if not parcel.answer.done():
            parcel.answer.set_exception(error)
