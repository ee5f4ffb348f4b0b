"""Sockets and addresses: listening sockets, how many descriptors clients may use, and names that are looked up.

Invariants:

- All sockets of one endpoint have the same port, also if the system chose it (port 0), and when they are returned no
  other process can take it.
- However many clients connect, descriptors are left for the next segment, because a node that cannot open it ends. The
  system assigns the lowest free number, so that of a new connection tells how many the whole process has in use.
- A name server that does not answer delays the peers with that name and nothing else, the end of the process neither:
  each name being looked up has one daemon thread, never two.

Source: Kafka's ``SocketServer`` (``Acceptor.openServerSocket``) and ``max.connections``, which leaves descriptors to
the operator; RFC 6724 (order of addresses); POSIX §2.14 (the lowest available descriptor), ``RLIMIT_NOFILE``. asyncio
looks names up in one small pool for everything, which a few dead names fill.
"""

import asyncio
import errno
import os
import resource
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final, TypeAlias

from pykraft.errors import AddressInUseError, ConfigError, UsageError
from pykraft.text.words import counted
from pykraft.types import Endpoint

LOOKUPS_MAX: Final = 64
"""Most lookups at a time, each on its own thread: peers tell us hosts, and may tell us many."""
ResolveName: TypeAlias = Callable[[Endpoint], list[str]]


def look_up(endpoint: Endpoint) -> list[str]:
    """The numeric addresses of a host, in the order to try them; may take long.

    Errors: OSError, also for an invalid name or port.
    """
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (ValueError, OverflowError) as error:  # a UnicodeError is a ValueError
        raise OSError(f"{endpoint.host!r} cannot be a host name: {error}") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


_NO_TLS: Final = ("wrong version number", "http request", "record layer failure")


def in_words(error: OSError) -> str:
    """The message of an operating system error or of TLS, without the words that asyncio and OpenSSL add."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).lower().replace("_", " ")
        return "it does not speak TLS" if reason in _NO_TLS else f"TLS: {reason}"
    known = error.errno if error.errno in errno.errorcode else None
    return os.strerror(known) if known is not None else error.strerror or str(error)


class Names:
    """The lookups of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, lookup: ResolveName = look_up) -> None:
        self._loop = loop
        self._lookup = lookup
        self._under_way: dict[Endpoint, asyncio.Future[list[str] | OSError]] = {}

    async def addresses(self, endpoint: Endpoint) -> list[str]:
        """The numeric addresses of a host; a numeric address is returned at once.

        Errors: OSError when there are none.
        """
        try:
            socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (OSError, ValueError, OverflowError):
            # Other dials may wait for the same lookup, so a cancelled one must not cancel it.
            found = await asyncio.shield(self._begun(endpoint))
        else:
            return [endpoint.host]
        if isinstance(found, OSError):
            raise found
        return found

    def _begun(self, endpoint: Endpoint) -> asyncio.Future[list[str] | OSError]:
        """The running lookup of this host, or a new one. Errors: OSError when there are too many."""
        future = self._under_way.get(endpoint)
        if future is None:
            if len(self._under_way) >= LOOKUPS_MAX:
                raise OSError(f"{LOOKUPS_MAX} names are already being looked up")
            future = self._under_way[endpoint] = self._loop.create_future()
            # A thread for each name: a name server that does not answer delays only the peers with that name.
            threading.Thread(target=self._run, args=(endpoint,), name="pykraft-name-lookup", daemon=True).start()
        return future

    def _run(self, endpoint: Endpoint) -> None:
        found: list[str] | OSError
        try:
            found = self._lookup(endpoint)
        except OSError as error:
            found = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._done, endpoint, found)

    def _done(self, endpoint: Endpoint, found: list[str] | OSError) -> None:
        self._under_way.pop(endpoint).set_result(found)


def tls_options(context: ssl.SSLContext | None, host: str) -> dict[str, Any]:
    """Options of ``loop.create_connection`` for a dial to this host with TLS; none for one without."""
    if context is None:
        return {}
    return {"ssl": context, "server_hostname": host, "ssl_shutdown_timeout": TLS_CLOSE_S_MAX}


TLS_CLOSE_S_MAX: Final = 2.0
"""How long the other end of a connection that was closed may take to say that it has closed it, too."""
ACCEPTED_MAX: Final = 4_000
"""Most client connections at a time."""
OWN_DESCRIPTORS: Final = 200
"""Descriptors kept for files, listening sockets and peers; clients share the others."""

UNLIMITED: Final = 2**31 - 1


def accepted_max() -> int:
    """Most clients of a process that runs only a node; raises the soft limit of descriptors as far as needed.

    Errors: UsageError when there are too few descriptors even for the node itself.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ACCEPTED_MAX + OWN_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = wanted if soft == resource.RLIM_INFINITY else min(wanted, soft)
    if most <= OWN_DESCRIPTORS:
        raise UsageError(
            f"the process may open only {counted(most, 'file')}; ulimit -n must be more than {OWN_DESCRIPTORS}"
        )
    return most - OWN_DESCRIPTORS


def descriptor_max() -> int:
    """Largest descriptor number that a client's connection may have; this leaves the application's limit unchanged."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return UNLIMITED
    return soft - 1 - min(OWN_DESCRIPTORS, soft // 2)


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
    loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.BaseProtocol], listening: socket.socket
) -> asyncio.Server:
    """Accept connections on a listening socket, a few in each turn of the loop; the server closes the socket."""
    # asyncio takes `backlog` for both the kernel's queue and the accepts of one turn. Each accepted connection has a
    # descriptor before the node can close another one for it, so a crowd in one turn could take all of the process's.
    server = await loop.create_server(protocol, sock=listening, backlog=ACCEPTS_PER_TURN)
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
