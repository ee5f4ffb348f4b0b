"""A node joins through a snapshot; it is killed in between, then its leader; it resumes and gets all of it."""

import os
from pathlib import Path

import pytest

from lab.benchmarks.join import give_snapshot, require_same
from lab.nodes.cluster import Cluster, PykraftNode
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import QUICK
from pykraft.snapshot.files import checkpoint_path, part_path
from pykraft.types import Epoch, OffsetAndEpoch

SNAPSHOT_SIZE_BYTES = 48 * 1024 * 1024
SLOWLY = {"controller.quorum.fetch.snapshot.max.bytes": "131072"}


def wait_for_part(node: PykraftNode, snapshot_id: OffsetAndEpoch, leader_epoch: Epoch, size_bytes: int) -> Path:
    """Wait until so much of it was fetched from the leader of this epoch; stop the node there. Where the part is."""
    path = part_path(node.partition, snapshot_id, leader_epoch=leader_epoch)
    wait_until(
        lambda: path.exists() and path.stat().st_size >= size_bytes,
        f"{size_bytes} bytes of the snapshot in {path.name}",
        alive=[node.process],
    )
    node.process.pause()
    return path


@pytest.mark.long
@pytest.mark.processes
def test_a_download_goes_on_after_a_kill_and_begins_anew_with_another_leader(
    children: Children, tmp_path: Path
) -> None:
    cluster = Cluster(children, tmp_path, throughput=500, properties={**QUICK, **SLOWLY}, is_dynamic=True)
    journal = cluster.journal
    snapshot_id = give_snapshot([*cluster.nodes.values()], SNAPSHOT_SIZE_BYTES)
    led = cluster.start()
    leader = cluster.nodes[led.node]
    joiner = cluster.join(9)
    whole = checkpoint_path(joiner.partition, snapshot_id)
    witness = tmp_path / "witness"

    joiner.start()
    part = wait_for_part(joiner, snapshot_id, led.epoch, SNAPSHOT_SIZE_BYTES // 8)
    joiner.process.kill()
    os.link(part, witness)  # another file is no longer taken for this one
    joiner.start()
    assert wait_for_part(joiner, snapshot_id, led.epoch, SNAPSHOT_SIZE_BYTES // 4).samefile(witness)

    mark = journal.mark()
    leader.process.kill()
    assert not whole.exists()
    joiner.process.resume()
    wait_for_part(joiner, snapshot_id, journal.wait_for_leader(since=mark).epoch, 1)
    assert not part.exists()
    joiner.process.resume()
    journal.wait_for_acknowledged(500, since=mark, except_by=leader.node_id)
    leader.start()
    journal.wait_for_started(leader.node_id, since=mark, process=leader.process)
    wait_until(whole.exists, "the snapshot to be fetched", alive=[joiner.process])
    assert not whole.samefile(witness)
    assert not [*joiner.partition.glob("*.part")]

    cluster.finish()
    require_same(checkpoint_path(leader.partition, snapshot_id), whole)
    assert not [node for node in cluster.nodes.values() if "Traceback" in node.log_path.read_text()]
