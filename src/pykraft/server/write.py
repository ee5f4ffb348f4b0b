"""Writes the parts of a frame to a transport in one write, whatever kind of loop it belongs to.

The selector loop of Python 3.12 and 3.13.0 has its own ``writelines``, with two bugs. It never calls ``pause_writing``,
so a peer that does not read would not be muted. On a connection that is broken but not reported as lost yet, it
buffers, and later registers a writer for a closed descriptor. The loop's ``write`` has neither bug. uvloop's
``writelines`` is sound and saves a copy.

Source: asyncio's ``selector_events._SelectorSocketTransport``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pykraft.types import Buffer


def write_parts(transport: asyncio.WriteTransport, parts: Sequence[Buffer]) -> None:
    """Write these parts one after the other."""
    if isinstance(transport, asyncio.Transport):
        transport.write(b"".join(parts))
    else:  # uvloop's transport does not inherit from asyncio's
        transport.writelines(parts)
