"""Who is at the other end: the peer of a connection, or, behind a proxy that is trusted, whom it names.

`X-Forwarded-For` is a list to which each proxy adds, on the right, the address that it was reached from.
Whatever stands left of the last address that a trusted proxy has added was written by somebody else. So the
list is read from the right, and the first address that is no trusted proxy is the client's. A peer that is
not trusted is the client itself, whatever it says.

>>> proxies = TrustedProxies(["10.0.0.0/8"])
>>> proxies.client("10.0.0.2", "203.0.113.9, 198.51.100.7, 10.0.0.1")
'198.51.100.7'
>>> proxies.client("192.0.2.1", "203.0.113.9")
'192.0.2.1'
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from deniable.errors import InvalidParameter

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
HOST_BITS, SITE_BITS = 64, 48
"""The prefix of IPv6 that one machine has for itself, and that one site has."""
MOST_FORWARDED = 32
"""Addresses of a list that are read, from the right."""


def read_address(text: str) -> IPAddress | None:
    """An address, with or without a port; of IPv4 inside IPv6, the IPv4.

    >>> [str(read_address(text)) for text in ("192.0.2.1:443", "[2001:db8::1]:443", "::ffff:192.0.2.1", "me")]
    ['192.0.2.1', '2001:db8::1', '192.0.2.1', 'None']
    """
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def host_of(text: str) -> str:
    """What is counted as one address: of IPv6 the first 64 bits, which one machine has for itself.

    >>> host_of("192.0.2.1"), host_of("2001:db8::1:2"), host_of("somebody")
    ('192.0.2.1', '2001:db8::', 'somebody')
    """
    return _prefix(text, HOST_BITS)


def site_of(text: str) -> str:
    """What is counted as one network: of IPv6 the first 48 bits, which one customer has for herself."""
    return _prefix(text, SITE_BITS)


def _prefix(text: str, bits: int) -> str:
    address = read_address(text)
    if address is None:
        return text[:64]
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, bits), strict=False).network_address)


class TrustedProxies:
    """The proxies whose word about a client is taken: addresses, or networks of them."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [_network(text) for text in networks]

    def trusts(self, text: str) -> bool:
        address = read_address(text)
        return address is not None and any(
            address.version == network.version and address in network for network in self._networks
        )

    def client(self, peer: str, header: str) -> str:
        """The address of the client of a connection from `peer`, which says that it has `header`."""
        nearest = peer
        for text in reversed(header.rsplit(",", MOST_FORWARDED)):
            if not self.trusts(nearest):
                break
            address = read_address(text)
            if address is None:
                break
            nearest = str(address)
        return nearest


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise InvalidParameter(
            f"The setting trusted_proxies names {text!r}, which is no address and no network. Nothing was "
            'started. Write it like "10.0.0.5" or "10.0.0.0/8".'
        ) from None
