"""A pykraft observer of Kafka's controllers installs their snapshot byte for byte and reads the voters from it.

The controller takes a snapshot every thousand bytes, and cleans its log once a minute, which no setting changes. So the
observer is first one that could have had the whole log and is given the snapshot all the same, since Kafka has one; a
minute later, after it was down, it is one whose log ends before Kafka's begins.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from lab.kafka.java import Kafka, Main
from lab.nodes.logs import Stream, read_stream, wait_for_end_offset
from pykraft.errors import UsageError
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import HOST
from pykraft.log.os_fs import OsFs
from pykraft.protocol.records import decode_control, scan
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path, list_snapshots
from pykraft.snapshot.head import read_head
from pykraft.types import Endpoint, KRaftVoters, OffsetAndEpoch
from tests.kafka.controller import JavaController
from tests.kafka.dump import dump_log
from tests.kafka.observer import NODE_ID, MetadataObserver
from tests.kafka.test_quorum_tool import REPLICATION, STATUS, masked_status, ours, shown, wait_for_controller
from tests.kafka.test_voter_tool import refusal

pytestmark = pytest.mark.kafka

OFTEN = {
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "internal.metadata.log.segment.bytes": "1000",
    "metadata.max.retention.bytes": "2000",
}
RECORDS = 3
"""Kafka's controller writes a record of no meaning every half second."""
CLEAN_TIMEOUT_S = 90.0


def snapshots(partition: Path) -> list[OffsetAndEpoch]:
    """The real ones that are there now, oldest first."""
    if not partition.exists():
        return []
    return [each for each in list_snapshots(OsFs(), partition) if each != BOOTSTRAP_ID]


def wait_for_install(
    controller: JavaController, observer: MetadataObserver, process: Child, *, after: int = 0
) -> OffsetAndEpoch:
    """Wait until the observer has one snapshot, of a later offset than this; it is the controller's, to the byte."""

    def installed() -> OffsetAndEpoch | None:
        found = snapshots(observer.partition)
        return found[0] if len(found) == 1 and found[0].offset > after else None

    found = wait_until(installed, f"a snapshot behind offset {after} to be installed", alive=[process])
    theirs, ours = checkpoint_path(controller.partition, found), checkpoint_path(observer.partition, found)
    assert ours.read_bytes() == theirs.read_bytes()
    return found


def batches_from(stream: Stream, offset: int) -> list[bytes]:
    return [
        stream.data[position : position + header.size_bytes]
        for position, header in scan(stream.data)
        if header.base_offset >= offset
    ]


@pytest.mark.long
@pytest.mark.conformance(151)
def test_an_observer_installs_kafkas_snapshot_and_knows_who_votes(
    kafka: Kafka, children: Children, tmp_path: Path
) -> None:
    controller = JavaController(kafka, children, tmp_path / "n1", properties=OFTEN)
    java = controller.start()
    wait_for_controller(controller, java)
    wait_until(lambda: snapshots(controller.partition) or None, "a snapshot of Kafka's", alive=[java])
    observer = MetadataObserver(children, tmp_path / "n9", controller)
    process = observer.start()

    installed = wait_for_install(controller, observer, process)
    _, head = read_head(OsFs(), observer.partition, installed)
    assert head.kraft_version == 1
    assert head.voters is not None
    [voter] = head.voters.voters
    assert voter.key.id == 1
    assert voter.listeners.get("CONTROLLER") == Endpoint(HOST, controller.controller_port)

    stream = wait_for_end_offset(observer.partition, installed.offset + RECORDS, process)
    assert stream.start_offset == installed.offset
    followed = batches_from(stream, installed.offset)
    assert batches_from(read_stream(controller.partition), installed.offset)[: len(followed)] == followed
    controls = [decode_control(each) for each in followed if next(scan(each))[1].is_control]
    assert not any(isinstance(record, KRaftVoters) for records in controls for record in records)

    check_tools(kafka, observer)

    assert process.stop() == 0
    stopped_at = read_stream(observer.partition).end_offset
    process = observer.start()
    wait_for_end_offset(observer.partition, stopped_at + RECORDS, process)
    files = [checkpoint_path(observer.partition, installed), *observer.partition.glob("*.log")]
    assert dump_log(kafka, files, "--deep-iteration").complaints == []
    assert process.stop() == 0
    end_offset = read_stream(observer.partition).end_offset

    def is_cleaned() -> bool:
        return min(int(path.stem) for path in controller.partition.glob("*.log")) > end_offset

    wait_until(is_cleaned, "Kafka to clean its log", timeout_s=CLEAN_TIMEOUT_S, alive=[java])
    process = observer.start()
    installed_again = wait_for_install(controller, observer, process, after=end_offset)
    stream = wait_for_end_offset(observer.partition, installed_again.offset + RECORDS, process)
    assert stream.start_offset == installed_again.offset
    assert observer.voters() == [1]

    check_tail(controller, cleaned_after=installed.offset)


def check_tools(kafka: Kafka, observer: MetadataObserver) -> None:
    """Kafka's tool and ours, given no other node: only the snapshot told it of the voters."""
    assert observer.voters() == [1]
    itself = ("--bootstrap-controller", f"{HOST}:{observer.port}")
    mine, theirs = shown(kafka, *itself, *STATUS)
    assert masked_status(mine) == masked_status(theirs)
    assert f'CurrentObservers:       [{{"id": {NODE_ID}, "directoryId": "{observer.directory_id}"}}]' in theirs
    mine, _ = shown(kafka, *itself, *REPLICATION)
    assert [row.split("\t")[6].strip() for row in mine.splitlines()] == ["Status", "Leader", "Observer"]
    add = ("--command-config", str(observer.config), "add-controller")
    error, text = refusal(kafka.run(Main.QUORUM, *itself, *add))
    assert error == "InvalidRequest"
    assert "doesn't support the finalized version 1" in text


def check_tail(controller: JavaController, *, cleaned_after: int) -> None:
    """A log that begins behind a snapshot is read from its first record on, or with the snapshot before it."""
    lines = tailed(controller, "--load-snapshot", "--follow", "--max-records", "20")
    state = [line for line in lines if "snapshot" in line]
    assert 0 < len(state) < 20
    newest = f"{lines[len(state)]['offset']:020}-{state[0]['epoch']:010}"
    assert {line["snapshot"] for line in state} == {newest}, "the log follows where the snapshot ends"
    first_offset = tailed(controller, "--max-records", "1")[0]["offset"]
    assert cleaned_after < first_offset <= lines[len(state)]["offset"]
    below = ours("tail", *bootstrap(controller), "--from", str(first_offset - 1))
    assert isinstance(below.exception, UsageError)
    assert f"offset {first_offset - 1} is not there" in str(below.exception)


def bootstrap(controller: JavaController) -> tuple[str, str]:
    return "--bootstrap-controller", f"{HOST}:{controller.controller_port}"


def tailed(controller: JavaController, *words: str) -> list[dict[str, Any]]:
    """What ``pykraft tail`` prints of the controller's log, records of Raft included."""
    result = ours("tail", *bootstrap(controller), "--print-control", "--json", *words)
    assert result.exit_code == 0, result.exception
    return [json.loads(line) for line in result.output.splitlines()]
