"""A client of the leader keeps one connection, and gives none to a request whose answer was lost."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.client.remote.leader_client import LeaderClient
from pykraft.errors import QuorumUnavailableError, UnreachableError
from pykraft.local.ports import HOST, free_ports
from pykraft.protocol.messages import ApiKey
from pykraft.types import Endpoint
from tests.client.logs import HASTY, PATIENT
from tests.client.scripted import HANG_UP, ScriptedNode, run

QUESTION: Any = {"include_cluster_authorized_operations": False, "endpoint_type": 2}


class Asking(LeaderClient):
    """Asks whichever node it reaches for the cluster."""

    async def ask(self) -> int:
        return await self._until_done(self._try)

    async def _try(self) -> int | None:
        connection = await self._reached()
        if connection is None:
            return None
        try:
            answer = await self._ask(connection, ApiKey.DESCRIBE_CLUSTER, QUESTION)
        except UnreachableError:
            return None
        return int(answer["error_code"])


def test_one_connection_serves_all_requests_until_an_answer_is_lost() -> None:
    async def main() -> None:
        answers: list[Any] = [{"error_code": 1}, {"error_code": 2}, HANG_UP, {"error_code": 3}]
        node = ScriptedNode({ApiKey.DESCRIBE_CLUSTER: lambda _: answers.pop(0)})
        async with node, Asking([node.endpoint], client_id="a-client", patience=PATIENT) as client:
            assert [await client.ask() for _ in range(3)] == [1, 2, 3]
            assert len(node.requests(ApiKey.API_VERSIONS)) == 2

    run(main)


def test_a_node_that_was_never_there_is_told_at_once_and_one_that_left_after_the_time() -> None:
    async def main() -> None:
        [port] = free_ports(1)
        async with Asking([Endpoint(HOST, port)], client_id="a-client", patience=PATIENT) as client:
            with pytest.raises(QuorumUnavailableError):
                await client.ask()
        node = ScriptedNode({ApiKey.DESCRIBE_CLUSTER: lambda _: {"error_code": 0}})
        async with Asking([node.endpoint], client_id="a-client", patience=HASTY) as client:
            async with node:
                assert await client.ask() == 0
            with pytest.raises(QuorumUnavailableError, match=r"0\.6 s"):
                await client.ask()

    run(main)


@pytest.mark.parametrize(("host", "port", "is_known"), [("localhost", 9, True), ("", 0, False), (HOST, 70_000, False)])
def test_a_leader_is_dialed_only_where_that_is_possible(host: str, port: int, is_known: bool) -> None:
    client = LeaderClient([Endpoint(HOST, 1)], client_id="a-client")
    answer = {"node_endpoints": [{"node_id": 4, "host": host, "port": port}]}
    client._redirected(Endpoint(HOST, 1), answer, {"current_leader": {"leader_id": 4, "leader_epoch": 2}})
    assert (client._search.leader == Endpoint(host, port)) is is_known
    client._redirected(Endpoint(HOST, 1), answer, {"current_leader": {"leader_id": -1, "leader_epoch": -1}})
    assert client._search.epoch == 2
