"""Which addresses of machines belong to the public Internet."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

#: IPv6 addresses in whose last four bytes an IPv4 address stands that a gateway would connect to.
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Say whether an IP address is one of the public Internet: not loopback, private, link-local or reserved.

    An IPv6 address in which an IPv4 address is hidden is as public as that one.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = None if isinstance(ip, IPv4Address) else _inside(ip)
    if inner is not None:
        return is_public(str(inner))
    return ip.is_global and not ip.is_multicast and not ip.is_reserved and not ip.is_unspecified


def _inside(ip: IPv6Address) -> IPv4Address | None:
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    return IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 or int(ip) >> 32 == 0 else None
