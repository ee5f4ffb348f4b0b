"""Opens listening sockets, and serves them.

This module chooses addresses and a free port. Invariant: all sockets of one endpoint have the same port, also if the
system chose it (port 0), and when they are returned no other process can take it.

Source: Kafka's ``SocketServer`` (``Acceptor.openServerSocket``); RFC 6724 decides the order of addresses.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from pykraft.errors import AddressInUseError, ConfigError
from pykraft.server.names import in_words
from pykraft.types import Endpoint

BACKLOG: Final = 100
"""Connections that wait in the kernel's queue, for each listening socket."""
ACCEPTS_PER_TURN: Final = 10
"""Connections that one turn of asyncio's loop accepts, for each listening socket."""
_TRIES_MAX: Final = 20
_REMEDIES: Final = {
    errno.EADDRINUSE: ": stop the process that listens there, or take another port",
    errno.EADDRNOTAVAIL: ": name an address of this machine, or leave the host empty for every interface",
    errno.EACCES: ": this user may not listen on a port below 1024, so take a higher one",
}
_ABSENT_ADDRESSES: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def addresses_to_bind(endpoint: Endpoint) -> list[str]:
    """The numeric addresses of a host to listen on; an empty host means all addresses of each family.

    Errors: OSError.
    """
    host = endpoint.host or None
    found = socket.getaddrinfo(host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def listening_sockets(endpoint: Endpoint) -> list[socket.socket]:
    """A socket for every address of this endpoint that the machine has; an empty host means all.

    Port 0 is any port that is free on all of them.

    Errors: OSError when an address is in use, or there is none.
    """
    addresses = addresses_to_bind(endpoint)
    # The system chooses port 0 for the first address only; it may be in use on the next one, so try again.
    for _ in range(_TRIES_MAX - 1 if endpoint.port == 0 else 0):
        try:
            return _sockets(addresses, endpoint)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    return _sockets(addresses, endpoint)


async def serve(
    loop: asyncio.AbstractEventLoop,
    protocol: Callable[[], asyncio.BaseProtocol],
    listening: socket.socket,
    *,
    tls: ssl.SSLContext | None = None,
) -> asyncio.Server:
    """Accept connections on a listening socket, a few in each turn of the loop; the server closes the socket."""
    # asyncio takes `backlog` for both the kernel's queue and the accepts of one turn. Each accepted connection has a
    # descriptor before the node can close another one for it, so a crowd in one turn could take all of the process's.
    server = await loop.create_server(protocol, sock=listening, ssl=tls, backlog=ACCEPTS_PER_TURN)
    listening.listen(BACKLOG)
    return server


def not_bound(key: str, value: str, error: OSError) -> ConfigError:
    """The error for an address of this property that cannot be bound: why, and what to do."""
    kind = AddressInUseError if error.errno == errno.EADDRINUSE else ConfigError
    remedy = _REMEDIES.get(error.errno or 0, "")
    if isinstance(error, socket.gaierror):
        remedy = "; correct the host name, or leave it empty for every interface"
    return kind(key, value, f"cannot be bound: {in_words(error).lower()}{remedy}")


def port_of(listening: Sequence[socket.socket]) -> int:
    """The port that these sockets share."""
    return int(listening[0].getsockname()[1])


def _sockets(addresses: Sequence[str], endpoint: Endpoint) -> list[socket.socket]:
    port, absent = endpoint.port, OSError(errno.EADDRNOTAVAIL, f"{endpoint.host} has no address")
    with ExitStack() as undo:
        made: list[socket.socket] = []
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            try:
                listening = socket.create_server((address, port), family=family, backlog=BACKLOG)
            except OSError as error:
                if error.errno not in _ABSENT_ADDRESSES:
                    raise
                # A name may resolve to an address family that this machine does not have.
                absent = error
                continue
            undo.callback(listening.close)
            made.append(listening)
            port = port_of(made)
        if not made:
            raise absent
        undo.pop_all()
    return made
