"""Our tool adds voters to Kafka's controllers and removes them; our observer learns it from their log.

Kafka's tool says the same before and after. The second controller is Kafka's own; then our observer, which never leads,
becomes a voter itself for a while. Only Kafka's leader can add either.

A pykraft leader transfers its leadership to a Kafka node; only Kafka's own messages are used.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lab.kafka.java import STOPPED_BY_SIGTERM, JavaNode, Kafka, Main
from lab.nodes.cluster import JournalKeeper, PykraftNode
from lab.nodes.logs import read_stream, require_identical, wait_for_end_offset
from lab.nodes.verdict import check_journal
from pykraft.cli.main import pykraft
from pykraft.errors import OutcomeUnknownError, RefusedError, UsageError
from pykraft.local.child import Children, wait_until
from pykraft.local.journal import record_spans
from pykraft.local.voters import HOST, free_ports
from pykraft.log.small_files.meta import FILE_NAME, parse_meta
from pykraft.types import ZERO_UUID, uuid_text
from tests.kafka.controller import JavaController
from tests.kafka.observer import MetadataObserver
from tests.kafka.test_quorum_tool import STATUS, masked_status, ours, shown, wait_for_controller
from tests.kafka.test_voter_tool import voters_in
from tests.processes.elections import wait_for_known_leader

pytestmark = pytest.mark.kafka


def directory_id(controller: JavaController) -> str:
    path = controller.partition.parent / FILE_NAME
    found = parse_meta(path, path.read_bytes()).directory_id
    assert found is not None
    return uuid_text(found)


@pytest.mark.conformance(150, 151)
def test_our_tool_changes_kafkas_voters_and_our_observer_follows(
    kafka: Kafka, children: Children, tmp_path: Path
) -> None:
    first = JavaController(kafka, children, tmp_path / "n1")
    second = JavaController(kafka, children, tmp_path / "n2", node_id=2, joins=first)
    observer = MetadataObserver(children, tmp_path / "n9", first, never_leads=True)
    java = first.start()
    wait_for_controller(first, java)
    alive = [java, second.start(), observer.start()]

    everywhere = ("--bootstrap-controller", f"{HOST}:{first.controller_port}")
    itself = ("--bootstrap-controller", f"{HOST}:{observer.port}")
    add = (*everywhere, "--command-config", str(second.config), "add-controller")
    dry = ours("quorum", *add, "--dry-run").output
    assert dry == kafka.run(Main.QUORUM, *add, "--dry-run").stdout
    assert f"controller 2 with directory id {directory_id(second)} and endpoints: CONTROLLER://{HOST}:" in dry

    def added(*words: str) -> bool:
        """It has to catch up first."""
        result = ours("quorum", *words)
        assert result.exit_code == 0 or isinstance(result.exception, RefusedError | OutcomeUnknownError), (
            result.exception
        )
        return result.exit_code == 0

    wait_until(lambda: added(*add), "controller 2 to be a voter", alive=alive)
    again = ours("quorum", *add)
    assert isinstance(again.exception, RefusedError)
    assert "DUPLICATE_VOTER" in str(again.exception)

    wait_until(lambda: observer.voters() == [1, 2], "the observer to know both voters", alive=alive)
    mine, theirs = shown(kafka, *itself, *STATUS)
    assert masked_status(mine) == masked_status(theirs)
    assert voters_in(theirs) == [1, 2]
    assert directory_id(second) in theirs

    remove = (*everywhere, "remove-controller", "--controller-id", "2", "--controller-directory-id")
    wrong = ours("quorum", *remove, directory_id(first))
    assert isinstance(wrong.exception, RefusedError)
    assert "VOTER_NOT_FOUND" in str(wrong.exception)
    wrong = ours("quorum", *remove, uuid_text(ZERO_UUID))
    assert isinstance(wrong.exception, RefusedError | UsageError)
    assert ours("quorum", *remove, directory_id(second)).exit_code == 0
    wait_until(lambda: observer.voters() == [1], "the observer to know the only voter", alive=alive)

    add = (*everywhere, "--command-config", str(observer.config), "add-controller")
    wait_until(lambda: added(*add), "our node to be a voter", alive=alive)
    wait_until(lambda: observer.voters() == [1, 9], "our node to know that it votes", alive=alive)
    remove = (*everywhere, "remove-controller", "--controller-id", "9", "--controller-directory-id")
    assert ours("quorum", *remove, observer.directory_id).exit_code == 0
    wait_until(lambda: observer.voters() == [1], "our node to know that it votes no more", alive=alive)


JAVA = 3
RECORDS = 100


def test_kafkas_node_leads_when_it_is_named(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    ports = dict(zip((1, 2, JAVA), free_ports(3), strict=True))
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    ours = {
        i: PykraftNode(children, journal, tmp_path / f"n{i}", node_id=i, ports=ports, throughput=200) for i in (1, 2)
    }
    java = JavaNode(kafka, children, tmp_path / f"n{JAVA}", node_id=JAVA, ports=ports, throughput=200)
    bootstrap = ",".join(f"{HOST}:{ports[i]}" for i in ours)

    def transfer(to: int) -> Result:
        words = ["quorum", "--bootstrap-controller", bootstrap, "--timeout", "5", "transfer", "--to", str(to)]
        return CliRunner().invoke(pykraft, words)

    for node in ours.values():
        node.format()  # or they would wait for Kafka's node
        node.start()
    led = journal.wait_for_leader(since=0)
    journal.wait_for_acknowledged(RECORDS, since=0)
    java.start()
    wait_for_end_offset(java.partition, RECORDS, java.process)

    done = wait_until(lambda: found if (found := transfer(JAVA)).exit_code == 0 else None, "Kafka's node to catch up")
    assert done.stdout.startswith(f"Node {JAVA} leads epoch ")
    known = wait_for_known_leader(java.partition, java.process, after_epoch=led.epoch)
    assert known.id == JAVA
    for node in ours.values():
        assert wait_for_known_leader(node.partition, node.process, after_epoch=led.epoch) == known
    wait_for_end_offset(ours[1].partition, read_stream(java.partition).end_offset + RECORDS, java.process)

    foreign = transfer(1)
    assert isinstance(foreign.exception, UsageError), foreign
    assert "does not offer TransferLeadership" in str(foreign.exception)
    assert {node.process.stop() for node in ours.values()} == {0}
    assert java.process.stop() == STOPPED_BY_SIGTERM

    partitions = {1: ours[1].partition, 2: ours[2].partition, JAVA: java.partition}
    streams = {f"node {node_id}": read_stream(partition) for node_id, partition in partitions.items()}
    require_identical(streams, end_offset=journal.end_offset)
    verdict = check_journal(journal.acknowledgements(), record_spans(streams["node 1"].data))
    assert verdict.is_clean, verdict
