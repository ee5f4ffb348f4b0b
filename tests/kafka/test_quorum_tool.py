"""Kafka's own ``kafka-metadata-quorum`` and ours show the same, of our quorum and of Kafka's; ours reads Kafka's logs.

What changes from one look to the next (offsets, lags, times) is masked with its width kept, so that columns, padding
and tabs are compared byte by byte; the numbers themselves are then compared by their order.
"""

import base64
import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lab.kafka.java import JavaNode, Kafka, Main
from lab.nodes.cluster import Cluster
from lab.nodes.logs import read_stream, wait_for_end_offset
from pykraft.cli.main import pykraft
from pykraft.client.serde import bytes_serde
from pykraft.errors import QuorumUnavailableError, UsageError
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import HOST, free_ports
from pykraft.log.os_fs import OsFs
from pykraft.protocol.records import decode_records, scan
from pykraft.snapshot.files import parse_snapshot_file
from pykraft.snapshot.head import SnapshotReader
from pykraft.types import OffsetAndEpoch
from tests.kafka.controller import JavaController

pytestmark = pytest.mark.kafka

MOVING_LABELS = re.compile(r"^((?:HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs): +)-?\d+$", re.MULTILINE)
MOVING_COLUMNS = slice(2, 6)
"""LogEndOffset, Lag and the two times."""
STATUS = ("describe", "--status")
REPLICATION = ("describe", "--replication")


def ours(*arguments: str) -> Result:
    return CliRunner().invoke(pykraft, arguments)


def shown(kafka: Kafka, *arguments: str) -> tuple[str, str]:
    """What our tool and Kafka's print for the same arguments."""
    mine = ours("quorum", *arguments)
    assert mine.exit_code == 0, mine.exception
    theirs = kafka.run(Main.QUORUM, *arguments)
    assert (theirs.status, theirs.stderr) == (0, "")
    return mine.output, theirs.stdout


def masked_status(text: str) -> str:
    masked, count = MOVING_LABELS.subn(r"\1#", text)
    assert count == 3
    return masked


def masked_table(text: str) -> str:
    """The rows with moving numbers masked; all of one row have the width of the column."""
    head, *rows = text.splitlines(keepends=True)
    masked = [head]
    for row in rows:
        cells = row.split("\t")
        cells[MOVING_COLUMNS] = ["#" * len(cell) for cell in cells[MOVING_COLUMNS]]
        masked.append("\t".join(cells))
    return "".join(masked)


def high_watermark(text: str) -> int:
    return int(text.splitlines()[3].split()[1])


@pytest.mark.conformance(150)
def test_both_tools_show_the_same_of_our_quorum(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, throughput=50)
    leader = cluster.start().node
    cluster.journal.wait_for_acknowledged(20, since=0)

    for node in list(cluster.nodes.values())[:2]:
        mine, theirs = shown(kafka, "--bootstrap-controller", f"{HOST}:{node.port}", *STATUS)
        assert masked_status(mine) == masked_status(theirs)
        assert mine.splitlines()[1] == f"LeaderId:               {leader}"
        assert 0 < high_watermark(mine) <= high_watermark(theirs)
    bootstrap = ("--bootstrap-controller", ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values()))
    mine, theirs = shown(kafka, *bootstrap, *REPLICATION)
    assert masked_table(mine) == masked_table(theirs)
    assert [row.split("\t")[6].strip() for row in theirs.splitlines()] == ["Status", "Leader", "Follower", "Follower"]
    for my_row, their_row in zip(mine.splitlines()[1:], theirs.splitlines()[1:], strict=True):
        for at in (2, 4, 5):
            assert 0 < int(my_row.split("\t")[at]) <= int(their_row.split("\t")[at])
    mine, theirs = shown(kafka, *bootstrap, *REPLICATION, "--human-readable")
    assert masked_table(mine) == masked_table(theirs)
    assert all(row.count(" ms ago") == 2 for row in mine.splitlines()[1:])


def wait_for_controller(controller: JavaController, process: Child) -> None:
    def leads() -> bool:
        result = ours("quorum", "--bootstrap-controller", f"{HOST}:{controller.controller_port}", *STATUS)
        return result.exit_code == 0 and high_watermark(result.output) > 5

    wait_until(leads, "the Java controller to lead", alive=[process])


@pytest.mark.conformance(150)
def test_both_tools_show_the_same_of_kafkas_quorum_and_ours_reads_its_log(
    kafka: Kafka, children: Children, tmp_path: Path
) -> None:
    controller = JavaController(kafka, children, tmp_path / "n1")
    process = controller.start()
    wait_for_controller(controller, process)
    controllers = ("--bootstrap-controller", f"{HOST}:{controller.controller_port}")
    brokers = ("--bootstrap-server", f"{HOST}:{controller.broker_port}")

    mine, theirs = shown(kafka, *controllers, *STATUS)
    assert masked_status(mine) == masked_status(theirs)
    assert mine.splitlines()[0] == f"ClusterId:              {controller.cluster_id}"
    mine, theirs = shown(kafka, *controllers, *REPLICATION)
    assert masked_table(mine) == masked_table(theirs)
    mine, theirs = shown(kafka, *brokers, *STATUS)
    assert masked_status(mine) == masked_status(theirs)

    wrong = ours("quorum", "--bootstrap-server", f"{HOST}:{controller.controller_port}", *STATUS)
    assert isinstance(wrong.exception, UsageError)
    assert "bootstrap from it as a controller" in str(wrong.exception)
    wrong = ours("tail", "--bootstrap-controller", f"{HOST}:{controller.broker_port}")
    assert isinstance(wrong.exception, QuorumUnavailableError)
    assert "is it a controller?" in str(wrong.exception)

    printed = [json.loads(line) for line in ours("tail", *controllers, "--json", "--print-control").output.splitlines()]
    assert [list(each["control"]) for each in printed[:3]] == [["LeaderChange"], ["KRaftVersion"], ["KRaftVoters"]]
    stream = wait_for_end_offset(controller.partition, len(printed), process)
    records = [
        record
        for position, header in scan(stream.data)
        for record in decode_records(stream.data[position : position + header.size_bytes])
    ]
    assert [each["offset"] for each in printed] == list(range(len(printed)))
    assert [base64.b64decode(each["valueBase64"]) for each in printed[3:]] == [
        record.value for record in records[3 : len(printed)]
    ]


def test_a_snapshot_of_kafkas_is_loaded_or_the_log_is_read_from_its_begin(
    kafka: Kafka, children: Children, tmp_path: Path
) -> None:
    often = {"metadata.log.max.record.bytes.between.snapshots": "100"}
    controller = JavaController(kafka, children, tmp_path / "n1", properties=often)
    process = controller.start()
    wait_for_controller(controller, process)
    wait_until(lambda: len(list(controller.partition.glob("*.checkpoint"))) > 1, "a snapshot", alive=[process])
    bootstrap = ("--bootstrap-controller", f"{HOST}:{controller.controller_port}")

    # The log is still whole, but Kafka gives whoever begins at 0 its snapshot.
    from_0 = ours("tail", *bootstrap, "--print-control", "--max-records", "5", "--exclude", "").output.splitlines()
    assert [int(line.split("\t")[0]) for line in from_0] == [0, 1, 2, 3, 4]
    loaded = ours("tail", *bootstrap, "--load-snapshot", "--json").output.splitlines()
    name = json.loads(loaded[0])["snapshot"]
    of_it = [json.loads(line) for line in loaded if "snapshot" in json.loads(line)]
    with closing(SnapshotReader.of(OsFs(), controller.partition, id_in(name), bytes_serde)) as reader:
        values = [value for batch in reader for value in batch.records]
    assert [base64.b64decode(each["valueBase64"]) for each in of_it] == values
    offsets = [json.loads(line)["offset"] for line in loaded[len(of_it) :]]
    assert offsets == list(range(id_in(name).offset, id_in(name).offset + len(offsets)))


def id_in(name: str) -> OffsetAndEpoch:
    """The snapshot of this name."""
    found = parse_snapshot_file(f"{name}.checkpoint")
    assert found is not None
    return found.snapshot_id


def test_a_test_raft_server_is_read_and_cannot_be_described(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    [port] = free_ports(1)
    node = JavaNode(kafka, children, tmp_path / "n1", node_id=1, ports={1: port})
    node.start()
    wait_for_end_offset(node.partition, 100, node.process)
    bootstrap = ("--bootstrap-controller", f"{HOST}:{port}")

    tailed = ours("tail", *bootstrap, "--follow", "--max-records", "300")
    assert tailed.exit_code == 0, tailed.exception
    lines = tailed.output.splitlines()
    assert [int(line.split("\t")[0]) for line in lines] == list(range(1, 301))
    assert read_stream(node.partition).end_offset > 300
    described = ours("quorum", *bootstrap, *STATUS)
    assert isinstance(described.exception, QuorumUnavailableError)
    assert str(described.exception).endswith(f"{HOST}:{port}: it answers DescribeCluster with UNKNOWN_SERVER_ERROR")
