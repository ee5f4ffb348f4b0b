"""Tells systemd that the node serves, if systemd started it with ``Type=notify``.

Invariant: a node that systemd did not start, or whose service manager cannot be reached, runs just the same.

Source: ``sd_notify(3)``: a datagram to the socket that ``NOTIFY_SOCKET`` names; ``@`` is the abstract namespace.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import Final

_READY: Final = b"READY=1"
_VARIABLE: Final = "NOTIFY_SOCKET"

logger = logging.getLogger("pykraft")


def notify_ready() -> None:
    """Tell the service manager; without one it does nothing."""
    name = os.environ.get(_VARIABLE, "")
    if not name:
        return
    address = f"\0{name[1:]}" if name.startswith("@") else name
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as connection:
            connection.sendto(_READY, address)
    except OSError as error:
        logger.warning("%s %s: the service manager cannot be told: %s", _VARIABLE, name, error.strerror or error)
