"""Host names to addresses, without the loop ever waiting for a name server.

Owns the lookups: one thread for each name that is being looked up, never two for one name, so a name server that does
not answer holds up the peers behind that name and nobody else. The threads are daemons: the end of the process does
not wait for a name server either. It refuses to know what the addresses are for.

Source: asyncio looks names up in one small pool for everything, which a few dead names fill.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from pykraft.types import Endpoint

Lookup: TypeAlias = Callable[[Endpoint], list[str]]


def look_up(endpoint: Endpoint) -> list[str]:
    """The numeric addresses of a host, in the order in which they are to be tried; may take long.

    Errors: OSError, also for what cannot be a name.
    """
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{endpoint.host!r} cannot be a host name: {error}") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Names:
    """The lookups of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, lookup: Lookup = look_up) -> None:
        self._loop = loop
        self._lookup = lookup
        self._under_way: dict[Endpoint, asyncio.Future[list[str] | OSError]] = {}

    async def addresses(self, endpoint: Endpoint) -> list[str]:
        """The numeric addresses of a host; a number is one itself, at once.

        Errors: OSError when there are none.
        """
        try:
            socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):
            found = await asyncio.shield(self._begun(endpoint))
        else:
            return [endpoint.host]
        if isinstance(found, OSError):
            raise found
        return found

    def _begun(self, endpoint: Endpoint) -> asyncio.Future[list[str] | OSError]:
        """The lookup of this host that is under way, or a new one."""
        future = self._under_way.get(endpoint)
        if future is None:
            future = self._under_way[endpoint] = self._loop.create_future()
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
