"""An exhausted epoch is repaired as docs/server.md says: stop all nodes, edit one file on each, start them.

Source: ours (ADR 029).
"""

from __future__ import annotations

import json
from pathlib import Path

from pykraft.log.fs import write_atomically
from pykraft.log.small_files.quorum_state import CHECK_NAME, FILE_NAME
from pykraft.types import EPOCH_MAX
from tests.host.cluster import Cluster, Machine

ROOT = Path(__file__).parents[2]


def edit(machine: Machine, epoch: int) -> None:
    """What the page says: another epoch, nobody leads, no vote; the check file goes."""
    path = machine.config.partition_directory / FILE_NAME
    fields = json.loads(machine.fs.read(path)) | {"leaderEpoch": epoch, "leaderId": -1, "votedId": -1}
    write_atomically(machine.fs, path, json.dumps(fields).encode())
    machine.fs.remove(machine.config.partition_directory / CHECK_NAME)


def stopped_quorum() -> Cluster:
    """Three nodes that have committed something; all are down."""
    cluster = Cluster()
    cluster.leader().propose(b"kept")
    cluster.run_until_committed(2)
    cluster.settle()
    for machine in cluster.machines.values():
        machine.crash()
    return cluster


def start(cluster: Cluster) -> None:
    for machine in cluster.machines.values():
        machine.start()


def test_an_exhausted_epoch_is_lowered_with_all_nodes_down_and_nothing_is_lost() -> None:
    cluster = stopped_quorum()
    for machine in cluster.machines.values():
        edit(machine, EPOCH_MAX)
    start(cluster)
    cluster.run(20_000)
    assert {machine.running.status.role for machine in cluster.up} == {"unattached"}
    for machine in cluster.machines.values():
        machine.crash()
    last_epoch = max(epoch for machine in cluster.machines.values() for epoch in machine.epochs_in_log())
    for machine in cluster.machines.values():
        edit(machine, last_epoch + 1)
    start(cluster)
    leader = cluster.leader()
    assert leader.running.status.epoch == last_epoch + 2
    leader.propose(b"new")
    cluster.run_until_committed(4)
    assert [machine.listener.values for machine in cluster.up] == [[b"kept", b"new"]] * 3


def test_the_page_names_what_this_test_does() -> None:
    page = (ROOT / "docs" / "server.md").read_text()
    section = page.split("### An exhausted epoch")[1].split("\n## ")[0]
    for word in ('"leaderEpoch"', '"leaderId":-1', '"votedId":-1', CHECK_NAME, FILE_NAME, "dump"):
        assert word in section
