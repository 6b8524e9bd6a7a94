"""Which addresses may be reached: the public internet, and what an operator allowed by name."""

import ipaddress
from dataclasses import dataclass, field

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


# Prefixes that carry an IPv4 address in their last 32 bits: IPv4-compatible, NAT64.
_CARRIERS = (ipaddress.IPv6Network("::/96"), ipaddress.IPv6Network("64:ff9b::/96"))


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet, seen through every way of wrapping IPv4 in IPv6."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = _carried(address)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if any(address in carrier for carrier in _CARRIERS):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]


@dataclass(frozen=True, slots=True)
class AllowList:
    """Private addresses that an operator allowed."""

    everything: bool = False
    networks: tuple[Network, ...] = field(default=())

    def permits(self, address: Address) -> bool:
        return is_public(address) or self.everything or any(address in network for network in self.networks)


def parse_allow(text: str) -> AllowList:
    """`true`, or CIDRs separated by commas; empty allows nothing private."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if [word.lower() for word in words] == ["true"]:
        return AllowList(everything=True)
    return AllowList(
        networks=tuple(ipaddress.ip_network(word, strict=False) for word in words if word.lower() != "false")
    )
