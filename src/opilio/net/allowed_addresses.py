"""Which addresses Opilio may talk to when a user names the host (SSRF).

`is_public` says whether an address belongs to the internet, `AllowList` adds what the operator permits.
`opilio.net.guarded_connect` applies the rule at connection time.
"""

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# Special-purpose addresses of the IANA registries. Written out, because `is_private` and `is_global` differ
# between versions of Python, and leave out shared (CGNAT) and transition addresses.
_RESERVED: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared address space: carrier-grade NAT
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, with the metadata service of every cloud
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments, with another metadata service
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and the broadcast address
        "168.63.129.16/32",  # the internal service of a cloud provider, on a public address
        "::/96",  # unspecified, loopback, IPv4-compatible
        "64:ff9b:1::/48",  # NAT64 of a local network
        "100::/64",  # discard
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarking
        "2001:db8::/32",  # documentation
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fc00::/7",  # unique local, with metadata services
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local
        "ff00::/8",  # multicast
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def _embedded_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address embeds: mapped, 6to4 or NAT64."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _parse(address: str | Address) -> Address:
    return ipaddress.ip_address(address.partition("%")[0]) if isinstance(address, str) else address


def effective(address: str | Address) -> Address:
    """The address that is really reached: the IPv4 address that an IPv6 address embeds, if it does."""
    parsed = _parse(address)
    carried = _embedded_ipv4(parsed) if isinstance(parsed, ipaddress.IPv6Address) else None
    return carried or parsed


def is_public(address: str | Address) -> bool:
    """Whether an address belongs to the internet; text that is not an address does not."""
    try:
        real = effective(address)
    except ValueError:
        return False
    return not any(real in network for network in _RESERVED)


@dataclass(frozen=True, slots=True)
class AllowList:
    """Public addresses, and the others that an operator permits: all of them, or some networks."""

    everything: bool = False
    networks: tuple[Network, ...] = ()

    def permits(self, address: str | Address) -> bool:
        return is_public(address) or self.contains(address)

    def contains(self, address: str | Address) -> bool:
        """Whether the list itself names the address."""
        try:
            real = effective(address)
        except ValueError:
            return self.everything
        return self.everything or any(real in network for network in self.networks)

    def permits_host(self, host: str) -> bool:
        """Checks a host that is an IP address; a name is checked when it is connected to."""
        literal = literal_address(host)
        return literal is None or self.permits(literal)


PUBLIC_ONLY = AllowList()


def parse_allow(text: str | Iterable[str]) -> AllowList:
    """Reads `true`, `false`, nothing, or networks like `10.0.0.0/8, 127.0.0.1`."""
    parts = text.replace(",", " ").split() if isinstance(text, str) else list(text)
    if not parts or [part.lower() for part in parts] in (["false"], ["0"], ["no"]):
        return PUBLIC_ONLY
    if [part.lower() for part in parts] in (["true"], ["1"], ["yes"]):
        return AllowList(everything=True)
    return AllowList(networks=tuple(ipaddress.ip_network(part, strict=False) for part in parts))


def literal_address(host: str) -> Address | None:
    """The IP address that a host is written as, in every form that resolvers accept: `[::1]`, `127.1`, `0x7f000001`."""
    bare = host.strip("[]").partition("%")[0]
    try:
        return ipaddress.ip_address(bare)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(bare))
    except (OSError, ValueError):  # ValueError: a null character
        return None
