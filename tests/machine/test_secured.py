"""Replicated state machines whose nodes talk over SSL: commands of followers are forwarded, strangers are refused."""

import asyncio
from contextlib import AsyncExitStack
from math import inf
from pathlib import Path

import pytest

from pykraft.client import AuthorizerSettings, Security, configure
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.observer import Observer
from pykraft.errors import PykraftError, QuorumUnavailableError, RefusedError
from pykraft.local.voters import free_ports
from pykraft.machine import Replicated
from pykraft.machine.log_skips import skip
from pykraft.server import secured
from pykraft.server.reload import ask_to_reload
from tests.client.nodes import QUICK
from tests.machine.counters import Add, Counters, leader_of
from tests.security.credentials import HOSTS, authority, properties, write


async def test_machines_of_a_secured_quorum_forward_skip_and_are_observed(tmp_path: Path) -> None:
    values = properties(tmp_path / "certificates")
    security = Security.of_client({**values, "security.protocol": "SSL"})
    voters = {node_id: f"127.0.0.1:{port}" for node_id, port in enumerate(free_ports(3), 1)}
    async with AsyncExitStack() as stack:
        nodes = []
        for node_id in voters:
            config = configure(tmp_path / f"n{node_id}", node_id=node_id, voters=voters, raft=QUICK, security=security)
            nodes.append(Replicated(config, Counters()))
            await nodes[-1].initialize()
            stack.push_async_callback(nodes[-1].close)
        for count, node in enumerate(nodes, start=1):
            assert await node.execute(Add("x", 1)) == count
        leader = await leader_of(nodes)
        observer = Replicated(configure(tmp_path / "o", voters=voters, raft=QUICK, security=security), Counters())
        await observer.initialize()
        stack.push_async_callback(observer.close)
        assert await observer.execute(Add("x", 1)) == len(nodes) + 1

        bootstrap = [leader.node.endpoint]
        admin = await stack.enter_async_context(Admin(bootstrap, security=security))
        with pytest.raises(RefusedError, match="skip"):
            await skip(admin, 0, security)  # no machine stands there, which only the leader can know
        reader = await stack.enter_async_context(Observer(bootstrap, security=security))
        await reader.begin()
        assert reader.high_watermark is not None
        stranger = await stack.enter_async_context(Admin(bootstrap, patience=Patience(timeout_ms=300)))
        with pytest.raises(QuorumUnavailableError, match="perhaps it speaks TLS only"):
            await stranger.describe_quorum()


async def test_nodes_of_programs_have_an_authorizer_and_rules_that_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secured, "REFRESH_S", inf)
    values = {**properties(tmp_path / "certificates"), "security.protocol": "SSL"}
    for name in ("operator", "reader"):
        write(tmp_path / "certificates" / f"{name}.pem", authority().issue(name, HOSTS))

    def holder(name: str) -> Security:
        return Security.of_client({**values, "ssl.keystore.location": str(tmp_path / "certificates" / f"{name}.pem")})

    rules = tmp_path / "acls"
    of_nodes = "--allow-principal User:CN=node --operation ClusterAction --cluster\n"
    rules.write_text(of_nodes)
    authorizer = AuthorizerSettings(super_users={"User:CN=operator"}, acl_file=rules)
    voters = {node_id: f"127.0.0.1:{port}" for node_id, port in enumerate(free_ports(2), 1)}
    async with AsyncExitStack() as stack:
        nodes = []
        for node_id in voters:
            config = configure(
                tmp_path / f"n{node_id}",
                node_id=node_id,
                voters=voters,
                raft=QUICK,
                security=holder("node"),
                authorizer=authorizer,
            )
            nodes.append(Replicated(config, Counters()))
            await nodes[-1].initialize()
            stack.push_async_callback(nodes[-1].close)
        # Nodes may forward commands and replicate: both get their answers.
        assert [await node.execute(Add("x", 1)) for node in nodes] == [1, 2]
        bootstrap = [node.node.endpoint for node in nodes]
        admins = {
            name: await stack.enter_async_context(
                Admin(bootstrap, security=holder(name), patience=Patience(timeout_ms=2_000))
            )
            for name in ("operator", "reader")
        }
        assert (await admins["operator"].describe_quorum()).leader_id in voters
        with pytest.raises(PykraftError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await admins["reader"].describe_quorum()
        rules.write_text(f"{of_nodes}--allow-principal User:CN=reader --operation Describe --cluster\n")
        for node_id in voters:
            [_, found] = (await asyncio.to_thread(ask_to_reload, tmp_path / f"n{node_id}"))["files"]
            assert (found["what"], found["state"]) == ("rules", "taken up")
        assert (await admins["reader"].describe_quorum()).leader_id in voters
        rules.write_text("nonsense")
        await asyncio.to_thread(ask_to_reload, tmp_path / "n1")
        [report] = nodes[0].node.not_taken_up
        assert (report.files, "line 1" in str(report.problem)) == ((rules,), True)
        assert (await admins["reader"].describe_quorum()).leader_id in voters
