"""Observers with and without an id: they follow and do nothing else.

Source: KIP-595 (voters and observers); Kafka's ``QuorumState`` (a replica without an id observes).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.host.producers import Rejected
from pykraft.types import NodeId
from tests.host.cluster import Cluster
from tests.host.fakes import config
from tests.host.test_host import same_logs


@pytest.mark.conformance(37, 53)
@pytest.mark.parametrize("node_id", [NodeId(4), None])
def test_an_observer_with_or_without_an_id_follows_and_never_campaigns(node_id: NodeId | None) -> None:
    cluster = Cluster()
    leader = cluster.leader()
    observer = cluster.add(4, replace(config(4), node_id=node_id))
    leader.propose(b"seen")
    cluster.run_until_committed(2)
    assert observer.listener.values == [b"seen"]
    assert (observer.running.node_id, observer.running.status.role) == (node_id, "observer")
    assert same_logs(cluster)
    cluster.cut(observer)
    cluster.run(10_000)
    assert observer.running.status.epoch == leader.running.status.epoch
    assert observer.running.status.role == "observer"
    (outcome,) = observer.propose(b"not here")
    assert isinstance(outcome, Rejected)


@pytest.mark.conformance(53)
def test_an_observer_without_an_id_starts_again_where_its_log_ends() -> None:
    cluster = Cluster()
    cluster.leader().propose(b"first")
    observer = cluster.add(4, replace(config(4), node_id=None, directory_id=None))
    cluster.run_until_committed(2)
    cluster.settle()
    observer.crash()
    cluster.leader().propose(b"second")
    observer.start()
    assert observer.running.status.log_end_offset == 2
    cluster.run_until_committed(3)
    assert observer.listener.values == [b"first", b"second"]
