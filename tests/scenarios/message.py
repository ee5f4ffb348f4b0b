"""What is on the wire between the cores of a scenario."""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.core import messages
from pykraft.types import Io


@dataclass(kw_only=True)
class Message:
    """One message on its way; ``peer_id`` is what the asking node calls the asked one (a bootstrap server: -2, ...)."""

    source: int
    target: int
    peer_id: int
    correlation_id: int
    body: messages.Request | messages.Response
    is_request: bool
    after: Io
