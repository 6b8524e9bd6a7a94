"""Which addresses may be reached: the public internet, and what an operator allowed by name."""

import ipaddress
from dataclasses import dataclass, field

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet, seen through every way of wrapping IPv4 in IPv6."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


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
