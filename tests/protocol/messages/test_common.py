"""Fields that several messages share.

Source: KIP-853; Kafka's message definitions.
"""

from __future__ import annotations

from pykraft.protocol.messages import APIS
from pykraft.protocol.messages.common import LISTENER, NODE_ENDPOINTS
from pykraft.protocol.schema import INT32, UINT16, Array, Struct


def test_every_endpoint_of_the_quorum_has_a_16_bit_port_but_fetchs_and_produces() -> None:
    ports = {}
    for api in APIS.values():
        for one in api.response.body.fields:
            if one.name == "node_endpoints":
                assert isinstance(one.kind, Array)
                assert isinstance(one.kind.of, Struct)
                ports[api.response.name] = next(part.kind for part in one.kind.of.fields if part.name == "port")
    wide = {name for name, kind in ports.items() if kind is INT32}
    assert wide == {"FetchResponse", "ProduceResponse"}
    assert {kind for name, kind in ports.items() if name not in wide} == {UINT16}


def test_the_shared_endpoint_is_tagged_and_a_listener_has_a_name() -> None:
    assert (NODE_ENDPOINTS.tag, NODE_ENDPOINTS.versions) == (0, "1+")
    assert [one.name for one in LISTENER] == ["name", "host", "port"]
