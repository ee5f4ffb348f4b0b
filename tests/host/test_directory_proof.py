"""The proof note is durable before the node's first message, and the election before the note.

Source: ours (ADR 022).
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from pykraft.core.proof import PROVEN, Proof
from pykraft.host.host import Host
from pykraft.log.small_files.proof_file import FILE_NAME, ProofFile
from pykraft.types import Epoch, NodeId
from tests.disks import ScriptedDisk
from tests.host.cluster import Cluster, Machine
from tests.host.fakes import FakePorts, config


def note(machine: Machine) -> Proof | None:
    return ProofFile(machine.fs, machine.config.log_dir).read()


def test_a_new_quorum_proves_itself_and_the_first_leader_is_of_a_later_epoch() -> None:
    cluster = Cluster()
    leader = cluster.leader()
    cluster.run_until_committed(1)
    assert leader.running.status.epoch == 1
    assert [note(machine) for machine in cluster.up] == [Proof(is_complete=True, votes_above=Epoch(0))] * 3
    assert leader.running.raft is not None
    assert leader.running.raft.votes_above == 0
    assert all(machine.running.metrics(cluster.now)["unproven"] == 0 for machine in cluster.up)


def test_an_emptied_voter_does_not_elect_anybody_and_loses_nothing() -> None:
    """The story of ADR 022: without the rule node 2 leads epoch 1 again, and the record is lost."""
    cluster = Cluster()
    leader = cluster.leader()
    second, third = cluster.others(leader)
    third.crash()
    outcomes = leader.propose(b"committed")
    cluster.run_until(lambda: bool(outcomes))
    leader.crash()
    second.crash()
    second.wipe()
    second.start()
    third.start()
    cluster.run(30_000)
    assert "leader" not in {second.running.status.role, third.running.status.role}
    assert second.running.metrics(cluster.now)["unproven"] == 1
    assert any("until it has heard from node" in text for text in second.reports)
    leader.start()
    cluster.run_until(lambda: b"committed" in second.listener.values and note(second) is not None)
    cluster.run_until(lambda: second.running.metrics(cluster.now)["unproven"] == 0)
    assert third.listener.values == second.listener.values == [b"committed"]
    assert note(second) != PROVEN


def test_a_partition_that_is_gone_is_noticed_and_a_formatted_one_is_not_missed() -> None:
    cluster = Cluster()
    machine = cluster.others(cluster.leader())[0]
    machine.crash()
    for name in machine.fs.listdir(machine.config.partition_directory):
        machine.fs.remove(machine.config.partition_directory / name)
    machine.start()
    assert machine.running.metrics(cluster.now)["unproven"] == 1
    machine.crash()
    machine.wipe()
    machine.format()
    machine.start()
    assert note(machine) == PROVEN
    assert "quorum-state" in machine.fs.listdir(machine.config.partition_directory)
    assert machine.running.metrics(cluster.now)["unproven"] == 0


def test_an_election_that_is_lost_beside_a_log_is_not_made_up() -> None:
    cluster = Cluster()
    cluster.leader()
    cluster.run_until_committed(1)
    machine = cluster.others(cluster.leader())[0]
    machine.crash()
    machine.fs.remove(machine.config.log_dir / FILE_NAME)
    for name in ("quorum-state", "quorum-state.check"):
        machine.fs.remove(machine.config.partition_directory / name)
    Host.open(machine.fs, FakePorts(), machine.config, rng=Random(1))
    assert note(machine) is None


@pytest.mark.parametrize("node_id", [NodeId(1), None])
def test_what_nobody_with_an_id_owns_has_no_note(node_id: NodeId | None) -> None:
    fs = ScriptedDisk()
    settings = replace(config(1), node_id=node_id, directory_id=None)
    Host.open(fs, FakePorts(), settings, rng=Random(1))
    assert ProofFile(fs, settings.log_dir).exists() is (node_id is not None)
