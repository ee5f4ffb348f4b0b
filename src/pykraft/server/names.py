"""Resolves host names to addresses without blocking the loop on a name server.

Each name being looked up has one thread, never two. So a name server that does not answer delays the peers with that
name and nothing else. The threads are daemons: the end of the process does not wait for a name server either.

Source: asyncio looks names up in one small pool for everything, which a few dead names fill.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

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


def in_words(error: OSError) -> str:
    """The message of an operating system error, without the words that asyncio adds."""
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
