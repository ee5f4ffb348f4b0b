"""How much the connections of a node may take: sizes of frames, unread and unfinished bytes, times, numbers.

Source: Kafka's ``SocketServerConfigs``; the bounds of all connections together are ours (ADR 033).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pykraft.config import NodeConfig
from pykraft.server.descriptors import ACCEPTED_MAX, UNLIMITED, descriptor_max

REQUEST_SIZE_BYTES_MAX: Final = 64 * 1024
"""Largest request: no request of Raft or of an operator needs more."""
HELD_SIZE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of all unfinished and waiting frames together; above this the connection that holds most is closed."""
UNSENT_SIZE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of all answers that clients have not read; above this the one that has not read for longest is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    """Limits from the configuration, in milliseconds and bytes.

    Anybody may send a request, but only peers that this node asked send answers: so answers may be large. So may
    requests on listeners for Kafka's producers, which bring batches.
    """

    request_size_bytes_max: int
    answer_size_bytes_max: int
    idle_ms_max: int
    dial_ms_max: int
    accepted_max: int
    client_request_size_bytes_max: int = 0
    client_listeners: tuple[str, ...] = ()
    held_size_bytes_max: int = HELD_SIZE_BYTES_MAX
    descriptor_max: int = UNLIMITED
    unsent_size_bytes_max: int = UNSENT_SIZE_BYTES_MAX

    @classmethod
    def of(cls, config: NodeConfig, accepted_max: int | None = None) -> LinkLimits:
        """The limits for this configuration in this process."""
        return cls(
            request_size_bytes_max=min(config.request_size_bytes_max, REQUEST_SIZE_BYTES_MAX),
            client_request_size_bytes_max=min(
                config.request_size_bytes_max, config.raft.batch_size_bytes_max + REQUEST_SIZE_BYTES_MAX
            ),
            client_listeners=config.client_listeners,
            answer_size_bytes_max=config.answer_size_bytes_max,
            held_size_bytes_max=max(HELD_SIZE_BYTES_MAX, 2 * config.answer_size_bytes_max),
            idle_ms_max=config.connections_idle_ms_max,
            dial_ms_max=config.raft.request_timeout_ms,
            accepted_max=ACCEPTED_MAX if accepted_max is None else accepted_max,
            descriptor_max=descriptor_max(),
        )

    def frame_size_bytes_max(self, listener: str | None) -> int:
        """Largest frame on a connection that this listener accepted, or that this node dialed (None)."""
        if listener is None:
            return self.answer_size_bytes_max
        is_clients = listener.upper() in self.client_listeners
        return self.client_request_size_bytes_max if is_clients else self.request_size_bytes_max
