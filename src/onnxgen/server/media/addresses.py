"""`public_addresses`: where a host is, if that is on the public internet."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

from onnxgen.server.media.refusal import refusal

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
IsPublic = Callable[[str], bool]

# Networks whose addresses have one of the old internet inside: it, and not they, is where a packet goes.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Not all versions of Python count all of it as special; a cloud has its metadata there.
_SPECIAL = ipaddress.ip_network("192.0.0.0/24")


def is_public(address: str) -> bool:
    """Whether an address is on the public internet: no private, loopback, link-local, metadata or other special one.

    An address of version 6 that leads to one of version 4 is judged by that one.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(str(inner))
        if found.teredo is not None:
            return False
        if found in ipaddress.ip_network("::/96") or found.is_site_local:
            return False
    elif found in _SPECIAL:
        return False
    return found.is_global and not (found.is_multicast or found.is_reserved or found.is_unspecified)


async def resolve(host: str, port: int) -> Sequence[str]:
    """All addresses of a host.

    Raises:
        OSError: It has none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def public_addresses(
    host: str, port: int, *, place: str, resolve: Resolve = resolve, is_public: IsPublic = is_public
) -> Sequence[str]:
    """All addresses of a host. Connect to one of these and to no name, which may mean another one by then.

    Args:
        host: A name or an address.
        port: Where to.
        place: The field of the request that names it.
        resolve: Finds addresses.
        is_public: Judges one.

    Raises:
        ApiError: It has none, or one of them is not public.
    """
    try:
        addresses = await resolve(host, port)
    except (OSError, UnicodeError):
        addresses = ()
    if not addresses:
        raise refusal(place, "its host is not known")
    if not all(map(is_public, addresses)):
        raise refusal(place, "its host is not on the public internet")
    return addresses
