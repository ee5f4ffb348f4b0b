"""Embedded nodes, Admin and Observer with SASL, over real sockets: one file of properties serves them all."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pykraft.client import Admin, Node, Observer, Security, configure, text_serde, voter_set
from pykraft.client.remote.connection import ClientDialer
from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.observer import Start
from pykraft.errors import QuorumUnavailableError, UnreachableError
from pykraft.protocol.messages import ApiKey
from pykraft.security.settings import MECHANISMS
from pykraft.server import sasl_server
from tests.client.nodes import QUICK, leader_of
from tests.security.proofs import jaas, proofs, token

PATIENT = Patience(timeout_ms=10_000, request_timeout_ms=5_000)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_nodes_and_clients_of_a_program_authenticate(mechanism: str, tmp_path: Path) -> None:
    values = {**proofs(tmp_path, mechanism), "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    security = Security.of_client(values)
    wrong = {**values, f"{mechanism.lower()}.sasl.jaas.config": jaas(mechanism, password="a guess")}  # noqa: S106
    (tmp_path / "guess").write_text("a guess")
    if mechanism == "OAUTHBEARER":
        wrong["sasl.oauthbearer.token.endpoint.url"] = f"file://{tmp_path}/guess"
    async with AsyncExitStack() as stack:
        nodes = [
            Node(configure(tmp_path / f"n{node_id}", node_id=node_id, security=security, raft=QUICK), text_serde)
            for node_id in (1, 2)
        ]
        for node in nodes:
            await node.bind()
            stack.push_async_callback(node.close)
        addresses = {int(node.node_id): str(node.endpoint) for node in nodes if node.node_id is not None}
        for node in nodes:
            await node.initialize(voter_set(addresses, "SASL_PLAINTEXT"))
        leader = await leader_of(nodes)
        written = await leader.propose(["one", "two"])
        bootstrap = [node.endpoint for node in nodes]
        async with Admin(bootstrap, security=security, patience=PATIENT) as admin:
            assert (await admin.describe_quorum()).leader_id == leader.node_id
        async with Observer(bootstrap, security=security, patience=PATIENT, start=Start.EARLIEST) as observer:
            batch = await anext(observer)
            while batch.base_offset < written.base_offset:
                batch = await anext(observer)
            assert [text_serde.deserialize(value) for value in batch.values()] == ["one", "two"]
        async with Admin(bootstrap, security=Security.of_client(wrong), patience=PATIENT) as stranger:
            with pytest.raises(QuorumUnavailableError, match="it refuses these credentials of"):
                await stranger.describe_quorum()
        async with Admin(bootstrap, patience=PATIENT) as nobody:
            with pytest.raises(QuorumUnavailableError, match="perhaps it wants SASL"):
                await nobody.describe_quorum()


async def test_client_authenticates_again_before_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl_server, "AGAIN_S_MIN", 0.0)
    values = {**proofs(tmp_path, "OAUTHBEARER"), "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    security = Security.of_client(values)
    config = configure(tmp_path / "n1", node_id=1, voters={1: "127.0.0.1:0"}, security=security, raft=QUICK)
    async with Node(config, text_serde) as node:
        await node.wait_for_leader()
        connection = await ClientDialer("test", security=security).connect(node.endpoint, 5_000)
        sasl = connection._sasl
        assert sasl is not None
        assert sasl._due_s > asyncio.get_running_loop().time() + 60
        sasl._due_s = 0.0
        answer = await connection.ask_body(ApiKey.DESCRIBE_CLUSTER, {"endpoint_type": 2}, timeout_ms=5_000)
        assert answer["controller_id"] == 1
        assert sasl._due_s > asyncio.get_running_loop().time() + 60
        sasl._due_s = 0.0
        (tmp_path / "token").write_text(token(exp=1))
        with pytest.raises(UnreachableError, match="invalid_token"):
            await connection.ask_body(ApiKey.DESCRIBE_CLUSTER, {"endpoint_type": 2}, timeout_ms=5_000)
        assert not connection.is_open
