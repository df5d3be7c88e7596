"""Egress rules tell by its address and port whether a connection may be made; pure, and closed where in doubt.

Sources: the IANA special-purpose address registries, as Python's ipaddress has them; the metadata addresses of the
large clouds, as their documentation names them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

from schemas.settings import RunSettings

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

METADATA: Final[frozenset[Address]] = frozenset(
    map(
        ipaddress.ip_address,
        (
            "169.254.169.254",  # AWS, Azure, Google, Oracle, DigitalOcean
            "169.254.170.2",  # AWS, credentials of containers
            "169.254.170.23",  # AWS, credentials of pods
            "168.63.129.16",  # Azure's wire server: an address of the public range
            "100.100.100.200",  # Alibaba
            "192.0.0.192",  # Oracle
            "fd00:ec2::254",  # AWS
            "fd00:ec2::23",
            "fd20:ce::254",  # Google
        ),
    )
)
_SHARED: Final = ipaddress.ip_network("100.64.0.0/10")
_EMBEDDING: Final[tuple[tuple[ipaddress.IPv6Network, int], ...]] = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),  # IPv4-translated
    (ipaddress.IPv6Network("::/96"), 0),  # IPv4-compatible
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (ipaddress.IPv6Network("64:ff9b:1::/48"), 0),  # NAT64 of one's own
    (ipaddress.IPv6Network("2002::/16"), 80),  # 6to4
)
"""IPv6 networks whose addresses hold an IPv4 address, and how many bits stand behind it."""


@dataclass(frozen=True, slots=True)
class EgressRules:
    """What is open besides the public addresses, and what is closed whatever is open.

    closed_ports   of this machine, whatever its address is called: broker, metrics
    closed         (address, port) of other machines
    """

    allow_private: bool = False
    allow: tuple[Network, ...] = ()
    deny: tuple[Network, ...] = ()
    closed_ports: frozenset[int] = frozenset()
    closed: frozenset[tuple[Address, int]] = frozenset()

    @classmethod
    def of(cls, run: RunSettings) -> EgressRules:
        """The rules of a run, without what it closes by name."""
        policy = run.policy
        allow, deny = (tuple(map(ipaddress.ip_network, given)) for given in (policy.allow, policy.deny))
        return cls(run.allow_private, allow, deny)

    def refusal(self, address: Address, port: int, own: Collection[Address], own_ports: Collection[int]) -> str:
        """Why no connection may be made to an address, in a few words that follow it; "" where one may.

        own, own_ports   addresses of this machine's interfaces, and ports on them that are closed now
        """
        address = plain(address)
        kind = kind_of(address)
        if (kind in ("loopback", "unspecified") or address in own) and (port in self.closed_ports or port in own_ports):
            return f"port {port} of this machine is closed to pages"
        if (address, port) in self.closed:
            return f"port {port} is closed to pages"
        if any(address in network for network in self.deny if network.version == address.version):
            return "is closed by the policy"
        if any(address in network for network in self.allow if network.version == address.version):
            return ""
        if not kind or (self.allow_private and kind not in ("metadata", "multicast", "reserved")):
            return ""
        return f"is {kind}"


def plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 address holds, where it holds one: what is connected to in the end."""
    if isinstance(address, ipaddress.IPv6Address) and int(address) > 1:
        for network, behind in _EMBEDDING:
            if address in network:
                return ipaddress.IPv4Address((int(address) >> behind) & 0xFFFFFFFF)
    return address


def kind_of(address: Address) -> str:
    """What an address is, if it is none of the public internet; "" if it is."""
    if address in METADATA:
        return "metadata"
    if address.is_unspecified:
        return "unspecified"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    if address.version == 4 and address in _SHARED:
        return "private"
    if isinstance(address, ipaddress.IPv6Address) and (address.is_site_local or address.teredo is not None):
        return "reserved"
    # a private network is one that its owner may open; the rest of what is not global is nobody's
    if address.is_private and not address.is_reserved:
        return "private"
    return "" if address.is_global and not address.is_reserved else "reserved"
