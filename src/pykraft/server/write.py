"""Parts of a frame go to a transport in one write, whichever loop it belongs to.

The selector loop of Python 3.12 and 3.13.0 has a ``writelines`` of its own. It never calls ``pause_writing``, so a peer
that does not read would not be muted. On a connection that is broken, and not told as lost yet, it buffers, and
registers a writer for a descriptor that is closed then. The loop's ``write`` does neither. uvloop's ``writelines`` is
sound, and saves a copy.

Source: asyncio's ``selector_events._SelectorSocketTransport``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pykraft.types import Buffer


def write_parts(transport: asyncio.WriteTransport, parts: Sequence[Buffer]) -> None:
    """Write these parts, one after the other."""
    if isinstance(transport, asyncio.Transport):
        transport.write(b"".join(parts))
    else:  # uvloop's is a transport in all but name
        transport.writelines(parts)
