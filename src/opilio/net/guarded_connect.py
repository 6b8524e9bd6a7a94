"""HTTP connections that check the address they connect to (protection against SSRF).

The check is on the resolved address, to which the connection then goes. A name that resolved to a public address a
moment ago and to a private one now (DNS rebinding) is refused like any other private one.
"""

import asyncio
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpcore2
import httpx2
from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream

from opilio.net.allowed_addresses import AllowList, literal_address
from opilio.net.tcp import connect


class AddressRefused(httpcore2.ConnectError):
    """The host has no address that may be connected to."""


# A name server that does not answer blocks a thread for seconds: one bad name must not delay the others.
_RESOLVERS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="opilio-dns")


async def resolve(host: str, port: int) -> list[str]:
    """Every address of a host, in the resolver's order of preference."""
    if (literal := literal_address(host)) is not None:
        return [str(literal)]
    found = await asyncio.get_running_loop().run_in_executor(
        _RESOLVERS, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    )
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def permitted_addresses(host: str, port: int, allow: AllowList) -> list[str]:
    """The addresses of a host that may be connected to; `AddressRefused` if there are none."""
    addresses = await resolve(host, port)
    permitted = [address for address in addresses if allow.permits(address)]
    if not permitted:
        raise AddressRefused(
            f"{host} has the private or reserved address {', '.join(addresses)}, which is not allowed"
        )
    return permitted


class GuardedBackend(AsyncNetworkBackend):
    """Resolves a name, checks every address, and connects to a permitted address, never to the name."""

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
                permitted = await permitted_addresses(host, port, self._allow)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"{host} could not be resolved in time") from error
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"{host} could not be resolved: {error}") from error
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


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """A transport for httpx2 clients that connects to permitted addresses only and ignores proxies of the environment."""

    def __init__(self, allow: AllowList, ssl_context: ssl.SSLContext | None = None) -> None:
        context = ssl_context or httpx2.create_ssl_context(trust_env=False)
        super().__init__(verify=context, trust_env=False)
        # The transport has no parameter for a network backend; its pool has.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=500,
            max_keepalive_connections=100,
            keepalive_expiry=15,
            http2=True,
            network_backend=GuardedBackend(allow),
        )
