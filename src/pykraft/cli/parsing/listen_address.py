"""The address on which a command listens: host and port, where port 0 is any free one.

Invariant: a wrong address is refused with the option, the address and what to give instead, before the command does
anything.
"""

from __future__ import annotations

from pykraft.client.arguments import parse_bootstrap
from pykraft.errors import UsageError
from pykraft.types import PORT_MAX, Endpoint


def listen_address(option: str, text: str, *, host: str | None = None) -> Endpoint:
    """Parse ``host:port``, IPv6 in brackets; a port alone is one of ``host``, if that is given. Errors: UsageError."""
    wanted = "one host:port" if host is None else "a port, or one host:port"
    name, colon, port = text.rpartition(":")
    if not colon and host is not None:
        name = host
    try:
        # A bootstrap list has no port 0.
        found = parse_bootstrap(option, f"{name}:1" if port == "0" else f"{name}:{port}")
    except UsageError:
        found = ()
    if len(found) != 1:
        raise UsageError(f"{option} {text!r}: give {wanted} (IPv6 in brackets), with a port from 0 to {PORT_MAX}")
    return Endpoint(found[0].host, 0) if port == "0" else found[0]
