"""The demo shop on loopback."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from opilio.demo import shop
from opilio.demo.receiver import TestReceiver
from opilio.net import loopback_server
from opilio.net.loopback_server import Reply, Request

# The busy pages answer 429, which cools their whole host down: they live on one of their own.
_BUSY_HOSTS = ("127.0.0.2", "::1")


@dataclass(frozen=True, slots=True)
class DemoShop:
    """Where the shop is; `allow` is what a bot and the control plane must be allowed to reach."""

    address: str
    busy_address: str

    @property
    def hosts(self) -> list[str]:
        return sorted(
            {address.rpartition(":")[0].removeprefix("http://").strip("[]") for address in self.addresses}
        )

    @property
    def allow(self) -> str:
        return ",".join(f"{host}/{128 if ':' in host else 32}" for host in self.hosts)

    @property
    def addresses(self) -> tuple[str, str]:
        return self.address, self.busy_address


@contextlib.asynccontextmanager
async def serving_shop(port: int = 0, clock: Callable[[], float] = time.time) -> AsyncIterator[DemoShop]:
    """Serves the shop on 127.0.0.1 while the block runs; port 0 takes a free one."""
    receiver = TestReceiver()

    async def answer(request: Request) -> Reply:
        if (received := receiver.answer(request)) is not None:
            return received
        page = shop.page(request.path, clock())
        if page.delay_seconds:
            await asyncio.sleep(page.delay_seconds)
        return Reply(page.status, page.body.encode(), page.headers)

    async with contextlib.AsyncExitStack() as stack:
        address = await stack.enter_async_context(loopback_server.serving(answer, port=port))
        bound = int(address.rpartition(":")[2])
        yield DemoShop(address, await _second_host(stack, answer, bound) or address)


async def _second_host(
    stack: contextlib.AsyncExitStack, answer: loopback_server.Handler, port: int
) -> str | None:
    """The same shop under another loopback address, where the system has one."""
    for host in _BUSY_HOSTS:
        try:
            return await stack.enter_async_context(loopback_server.serving(answer, host, port))
        except OSError:
            continue
    return None
