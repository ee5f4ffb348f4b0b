"""What a voter says of itself, and what is told of one that does not answer, beside what the leader says."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from pykraft.client.remote import admin as admin_module
from pykraft.client.remote.admin import Admin, AdminLimits, NodeKind
from pykraft.client.remote.quorum import VoterProblem
from pykraft.client.remote.voter_problem import problem_with
from pykraft.errors import ErrorCode, UnreachableError
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.messages import API_VERSIONS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.api_versions import api_key_bodies
from pykraft.types import Endpoint
from tests.client.quorums import cluster_body, quorum_body
from tests.client.scripted import SILENCE, Answer, Script, ScriptedNode, run

LIMITS = AdminLimits(timeout_ms=10_000, request_timeout_ms=2_000, retry_backoff_ms=10)
OWN = "it is in quarantine"
KAFKA = {"api_keys": [each for each in api_key_bodies(API_VERSIONS) if each["api_key"] < 1_000]}


def test_only_a_refused_connection_tells_that_nobody_is_there() -> None:
    refused, lost = UnreachableError("a:1", "no"), UnreachableError("a:1", "no")
    refused.__cause__ = ConnectionRefusedError()
    assert problem_with(refused) == VoterProblem(text="a:1: no", is_refused=True)
    assert problem_with(lost) == VoterProblem(text="a:1: no")


def test_each_follower_is_asked_once_and_the_leader_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of six voters 1 leads; 2 is well, 3 cannot vote, 4 knows no leader, 5 is silent, 6 is dead, 7 is Kafka's."""
    monkeypatch.setattr(admin_module, "VOTER_TIMEOUT_MS", 200)

    async def main() -> None:
        nodes: dict[int, ScriptedNode] = {}
        [dead] = free_ports(1)

        def endpoints() -> dict[int, Endpoint]:
            return {i: node.endpoint for i, node in nodes.items()} | {6: Endpoint(HOST, dead)}

        def told(node_id: int) -> Answer:
            body = cluster_body(1, endpoints())
            return {
                3: {**body, "error_message": OWN},
                4: {**body, "error_code": ErrorCode.LEADER_NOT_AVAILABLE},
                5: SILENCE,
            }.get(node_id, body)

        def quorum(_: Body) -> Body:
            body = quorum_body(1, (1, 2, 3, 4, 5, 6, 7))
            for node in body["nodes"]:
                at = endpoints()[node["node_id"]]
                node["listeners"] = [{"name": "CONTROLLER", "host": at.host, "port": at.port}]
            return body

        def scripts(node_id: int) -> dict[ApiKey, Script]:
            return {ApiKey.DESCRIBE_CLUSTER: lambda _: told(node_id), ApiKey.DESCRIBE_QUORUM: quorum}

        nodes |= {i: ScriptedNode(scripts(i)) for i in (1, 2, 3, 4, 5, 7)}
        nodes[7].scripts[ApiKey.API_VERSIONS] = lambda _: KAFKA
        async with AsyncExitStack() as stack:
            for node in nodes.values():
                await stack.enter_async_context(node)
            async with Admin([nodes[1].endpoint], limits=LIMITS) as admin:
                found = await admin.describe_quorum(ask_voters=True)
                assert not (await admin.describe_quorum()).problems
            assert found.problems == {
                3: VoterProblem(text=OWN, is_own=True),
                4: VoterProblem(text="it knows no leader", is_own=True),
                5: VoterProblem(
                    text=f"{nodes[5].endpoint}: it accepts connections, but did not answer DescribeCluster within 0.2 s"
                ),
                6: VoterProblem(text=f"{HOST}:{dead}: connection refused", is_refused=True),
            }
            assert [len(nodes[i].requests(ApiKey.DESCRIBE_CLUSTER)) for i in (1, 2, 7)] == [2, 1, 0]

    run(main)


def test_voters_behind_brokers_are_not_asked() -> None:
    async def main() -> None:
        node = ScriptedNode(
            {
                ApiKey.DESCRIBE_CLUSTER: lambda _: cluster_body(1, {1: node.endpoint}),
                ApiKey.DESCRIBE_QUORUM: lambda _: quorum_body(1),
            }
        )
        async with node, Admin([node.endpoint], kind=NodeKind.BROKER, limits=LIMITS) as admin:
            assert not (await admin.describe_quorum(ask_voters=True)).problems

    run(main)
