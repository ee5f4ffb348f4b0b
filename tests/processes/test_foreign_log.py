"""A node with the log of another quorum of the same cluster id: its alarm is one line, and it follows nobody blindly.

Raft takes logs for equal up to an offset where both have the same epoch. Where a batch of the leader begins before
the end of the node's log and goes beyond it, the logs cannot be equal, and the node knows it.
"""

from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster, PykraftNode
from lab.nodes.logs import read_stream
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import QUICK
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.protocol.batch import scan
from pykraft.types import Offset
from tests.log.logs import batch
from tests.processes.test_damaged_directories import logged

RECORDS = 500
FOREIGN = "has other records than this one"


def give_another_history(node: PykraftNode) -> int:
    """Its last batch is one of another quorum, which ends within one of this quorum's; returns the new log end."""
    stream = read_stream(node.partition)
    header = next(each for _, each in scan(stream.data) if each.base_offset > RECORDS / 2 and each.records_count > 1)
    _, foreign = batch(header.base_offset, epoch=header.epoch, fill=7)
    for path in node.partition.glob("0*"):
        path.unlink()
    (node.partition / f"{0:020d}.log").write_bytes(stream.until(header.base_offset) + foreign)
    end_offset = header.base_offset + 1
    RecoveryPoint.create(OsFs(), node.partition, Offset(end_offset)).close()
    return end_offset


@pytest.mark.processes
def test_the_log_of_another_quorum_is_an_alarm_of_one_line(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, properties=QUICK)
    leader_id = cluster.start().node
    foreign = next(node for node in cluster.nodes.values() if node.node_id != leader_id)
    cluster.journal.wait_for_acknowledged(RECORDS, since=0)
    cluster.wait_until_caught_up()
    for node in cluster.nodes.values():
        node.process.kill()
    end_offset = give_another_history(foreign)
    mark = cluster.journal.mark()
    for node in cluster.nodes.values():
        node.start()
    wait_until(lambda: bool(logged(foreign, FOREIGN)), "the node to know", alive=[foreign.process])
    # The others go on.
    cluster.journal.wait_for_acknowledged(RECORDS, since=mark, except_by=foreign.node_id)
    cluster.journal.wait_for_acknowledged(RECORDS, since=cluster.journal.mark(), except_by=foreign.node_id)
    (alarm,) = logged(foreign, FOREIGN)
    assert "ERROR" in alarm
    assert f"this log ends at {end_offset}" in alarm
    assert len(logged(foreign, "closing the connection")) <= 1
    for node in cluster.nodes.values():
        node.process.kill()
    assert read_stream(foreign.partition).end_offset == end_offset
