"""UnregisterController: done, refused, not offered, and asked again where the leader is another one by now.

Source: KIP-1312.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pykraft.client.remote import registration
from pykraft.client.remote.registration import unregister_controller
from pykraft.errors import ErrorCode, QuorumUnavailableError, RefusedError, UsageError
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.messages import APIS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.api_versions import api_key_bodies
from pykraft.types import Endpoint, NodeId
from tests.client.scripted import ScriptedNode, run

KAFKA = {"api_keys": api_key_bodies({ApiKey(key): api.request.versions for key, api in APIS.items()})}
SHORT_MS = 100


def answers(*codes: int) -> ScriptedNode:
    """A controller of Kafka 4.4 that answers one request after the other with these codes."""
    left = list(codes)

    def answer(_: Body) -> Body:
        return {"error_code": left.pop(0), "error_message": "why"}

    return ScriptedNode({ApiKey.API_VERSIONS: lambda _: KAFKA, ApiKey.UNREGISTER_CONTROLLER: answer})


async def unregister(leaders: Sequence[Endpoint | None], *, timeout_ms: int = 5_000) -> None:
    """Ask these leaders one after the other, and then the last one."""
    left = list(leaders)

    async def find_leader() -> Endpoint | None:
        return left.pop(0) if len(left) > 1 else left[0]

    await unregister_controller(NodeId(3), find_leader, client_id="test", timeout_ms=timeout_ms)


def test_the_leader_forgets_the_controller() -> None:
    async def main() -> None:
        async with answers(0) as node:
            await unregister([node.endpoint])
            assert node.requests(ApiKey.UNREGISTER_CONTROLLER) == [{"controller_id": 3}]

    run(main)


def test_a_leader_that_leads_no_more_or_is_unknown_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "RETRY_PAUSE_S", 0)
    [dead] = free_ports(1)

    async def main() -> None:
        async with answers(ErrorCode.NOT_CONTROLLER, 0) as node:
            await unregister([None, Endpoint(HOST, dead), node.endpoint])
            assert len(node.requests(ApiKey.UNREGISTER_CONTROLLER)) == 2

    run(main)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (136, "unregistering controller 3 was refused: CONTROLLER_ID_NOT_REGISTERED: why"),
        (ErrorCode.INVALID_REQUEST, "unregistering controller 3 was refused: INVALID_REQUEST: why"),
    ],
)
def test_a_refusal_is_final(code: int, words: str) -> None:
    async def main() -> None:
        async with answers(code) as node:
            await unregister([node.endpoint])

    with pytest.raises(RefusedError, match=words):
        run(main)


def test_a_leader_that_never_comes_is_told_at_the_end() -> None:
    async def nobody() -> None:
        await unregister([None], timeout_ms=SHORT_MS)

    async def never() -> None:
        async with answers(*[ErrorCode.NOT_CONTROLLER] * 9) as node:
            await unregister([node.endpoint], timeout_ms=SHORT_MS)

    with pytest.raises(QuorumUnavailableError, match="the leader's address is unknown"):
        run(nobody)
    with pytest.raises(RefusedError, match="NOT_CONTROLLER"):
        run(never)


def test_nodes_that_do_not_register_are_named() -> None:
    async def main() -> None:
        async with ScriptedNode({}) as node:
            await unregister([node.endpoint])

    with pytest.raises(
        UsageError, match=r"does not offer UnregisterController: only Kafka's controllers do, from 4\.4"
    ):
        run(main)
