"""Replicated state machines whose nodes talk over SSL: commands of followers are forwarded, strangers are refused."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pykraft.client import Security, configure
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.observer import Observer
from pykraft.errors import QuorumUnavailableError, RefusedError
from pykraft.local.voters import free_ports
from pykraft.machine import Replicated
from pykraft.machine.log_skips import skip
from tests.client.nodes import QUICK
from tests.machine.counters import Add, Counters, leader_of
from tests.security.credentials import properties


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
