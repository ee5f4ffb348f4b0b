"""The operators' APIs are served only on the configured listeners.

Source: ours (ADR 035).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.host.held_messages import HeldMessages
from pykraft.host.inbound import Inbound
from pykraft.host.inbox import Inbox
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import API_VERSIONS, ApiKey, decode_response, encode_request
from pykraft.rpc.served_apis import OPERATOR_KEYS
from pykraft.types import KRAFT_VERSIONS
from tests.host.fakes import CONTEXT, FakePorts

ONE = ConnectionId(1)


@pytest.mark.parametrize("names", [None, ("ADMIN",), ()])
@pytest.mark.parametrize("listener", ["ADMIN", "CONTROLLER"])
def test_a_listener_serves_operators_if_it_is_meant_for_them(listener: str, names: tuple[str, ...] | None) -> None:
    ports, inbox = FakePorts(), Inbox()
    context = replace(CONTEXT)
    inbound = Inbound(
        ports,
        inbox,
        HeldMessages(),
        context=context,
        describe_cluster=lambda *_: {},
        kraft_versions=KRAFT_VERSIONS,
        kraft_version=lambda: 1,
        operator_listeners=names,
    )
    inbound.on_accepted(ONE, listener)
    serves = names is None or listener in names
    for version in (3, 99):
        parts = encode_request(ApiKey.API_VERSIONS, min(version, 3), 5, "x", {})
        raw = bytearray(b"".join(bytes(part) for part in parts))
        raw[2:4] = version.to_bytes(2, "big")
        inbound.on_frame(ONE, bytes(raw))
        _, frame = ports.sent.pop()
        _, body = decode_response(ApiKey.API_VERSIONS, 0 if version == 99 else 3, frame)
        told = {one["api_key"] for one in body["api_keys"]}
        assert told == set(API_VERSIONS) - (set() if serves else OPERATOR_KEYS)
    parts = encode_request(ApiKey.REMOVE_RAFT_VOTER, 0, 6, "x", {"voter_id": 1})
    inbound.on_frame(ONE, b"".join(bytes(part) for part in parts))
    assert (inbox.take() is not None) is serves
    assert ports.closed == ([] if serves else [ONE])
