"""No connection to a private address: names are resolved here, checked, and connected to by their address.

The check sits where the connection is made, so a name that resolves to something else a moment later
(DNS rebinding), a redirect, or an address in another spelling gains nothing.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Iterable

import httpcore2
import httpx2

from opilio.bot.errors import CrawlError
from opilio.contracts.codes import ErrorCode
from opilio.net.allowed_addresses import AllowList

_SOCKET_OPTION = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


async def permitted_addresses(host: str, port: int, allow: AllowList) -> list[str]:
    """The addresses of a host that may be reached; `CrawlError` if it has none but forbidden ones."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    permitted = [text for text in addresses if allow.permits(ipaddress.ip_address(text.partition("%")[0]))]
    if not permitted:
        raise CrawlError(
            ErrorCode.INVALID_URL,
            f"{host} is at the private or reserved address {addresses[0]}, which this bot may not reach "
            "(--allow-private)",
        )
    return permitted


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to checked addresses only; everything above it still speaks of the host by name."""

    def __init__(self, allow: AllowList) -> None:
        self._allow = allow
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[_SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            addresses = await permitted_addresses(host, port, self._allow)
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} cannot be resolved: {error}") from error
        failed: httpcore2.ConnectError | None = None
        for address in addresses:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.ConnectError as error:
                failed = error
        assert failed is not None
        raise failed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """httpx2's own transport on a guarded network; the environment's proxies are not used."""

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
