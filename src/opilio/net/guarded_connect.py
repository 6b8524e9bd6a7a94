"""HTTP connections that check addresses when they connect.

The check is on the resolved address, to which the connection then goes. A name that resolved to a public address a
moment ago and to a private one now (DNS rebinding) is refused like any other private one.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpcore2
from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream

from opilio.net.allowed_addresses import AllowList, literal_address
from opilio.net.tcp import connect


class AddressRefused(httpcore2.ConnectError):
    """The host has no address that may be connected to."""


# A name server that does not answer holds a thread for seconds: enough of them that one bad name delays no other.
_RESOLVERS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="opilio-dns")


async def resolve(host: str, port: int) -> list[str]:
    """Every address of a host, in the resolver's order of preference."""
    if (literal := literal_address(host)) is not None:
        return [str(literal)]
    found = await asyncio.get_running_loop().run_in_executor(
        _RESOLVERS, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    )
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedBackend(AsyncNetworkBackend):
    """Resolves, judges every address, and connects to one that passed, never to the name."""

    def __init__(self, allow: AllowList) -> None:
        self._allow = allow

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the interface of httpcore)
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await resolve(host, port)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"{host} could not be resolved in time") from error
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"{host} could not be resolved: {error}") from error
        permitted = [address for address in addresses if self._allow.permits(address)]
        if not permitted:
            raise AddressRefused(f"{host} is at {', '.join(addresses)}: a private or reserved address")
        return await self._first(permitted, port, timeout, local_address, socket_options)

    async def _first(
        self, addresses: list[str], port: int, limit: float | None, local: str | None, options: Any
    ) -> AsyncNetworkStream:
        for address in addresses[:-1]:
            try:
                return await connect(address, port, patience=limit, local_address=local, options=options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await connect(addresses[-1], port, patience=limit, local_address=local, options=options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
