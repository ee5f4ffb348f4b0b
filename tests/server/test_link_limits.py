"""How large a frame may be, by who sends it and where.

Source: Kafka's ``socket.request.max.bytes``; ours (ADR 033, ADR 065).
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.server.link_limits import REQUEST_SIZE_BYTES_MAX, LinkLimits
from tests.test_config import NODE


def test_a_request_may_be_as_large_as_configured_and_no_larger_than_raft_needs() -> None:
    assert LinkLimits.of(NODE).request_size_bytes_max == REQUEST_SIZE_BYTES_MAX < NODE.request_size_bytes_max
    assert LinkLimits.of(replace(NODE, request_size_bytes_max=1_024)).request_size_bytes_max == 1_024


def test_only_listeners_for_clients_take_requests_as_large_as_a_batch() -> None:
    node = replace(NODE, client_listeners=("CLIENTS",))
    limits = LinkLimits.of(node)
    assert limits.frame_size_bytes_max("CONTROLLER") == REQUEST_SIZE_BYTES_MAX
    assert limits.frame_size_bytes_max("clients") == node.raft.batch_size_bytes_max + REQUEST_SIZE_BYTES_MAX
    assert limits.frame_size_bytes_max(None) == limits.answer_size_bytes_max
