"""How many bytes the kernel still has to send on a connection, where the kernel tells.

A kernel takes megabytes of an answer at once and sends them for a long time on a slow link. Without this number a
leader would count bytes in its own kernel as received by the peer.

Source: Linux tcp(7), SIOCOUTQ.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from typing import Final

_SIOCOUTQ: Final = 0x5411
"""Linux only, where it has the same number as TIOCOUTQ."""


def unconfirmed_size_bytes(transport: asyncio.BaseTransport) -> int:
    """Bytes in the kernel's send queue that the other end has not acknowledged; 0 if unknown."""
    raw = transport.get_extra_info("socket")
    if raw is None or not sys.platform.startswith("linux"):
        return 0
    import fcntl

    try:
        answer = fcntl.ioctl(raw.fileno(), _SIOCOUTQ, bytes(4))
    except (OSError, ValueError):  # closed meanwhile, or no TCP socket
        return 0
    return int(struct.unpack("i", answer)[0])
