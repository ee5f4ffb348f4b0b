"""A pykraft voter is emptied beside two of Kafka's: it helps to elect nobody before it has heard both (ADR 022)."""

import shutil
from pathlib import Path

import pytest

from lab.kafka.java import STOPPED_BY_SIGTERM, Kafka
from lab.nodes.logs import read_stream, require_identical, wait_for_end_offset
from pykraft.local.child import Children, wait_until
from tests.kafka.test_mixed_quorum import RECORDS, MixedQuorum

PROVEN = "the directory is proven"


@pytest.mark.kafka
def test_an_emptied_voter_of_ours_waits_until_both_of_kafkas_were_heard(
    kafka: Kafka, children: Children, tmp_path: Path
) -> None:
    """It is emptied while one of Kafka's is down; the other one says its epoch, and that is not enough."""
    quorum = MixedQuorum(kafka, children, tmp_path)
    leader, follower, _ = quorum.start_java_first()
    ours = quorum.ours
    wait_for_end_offset(ours.partition, read_stream(leader.partition).end_offset + RECORDS, ours.process)

    ours.process.kill()
    follower.process.kill()
    shutil.rmtree(ours.partition.parent)
    said_before = len(ours.log_path.read_text())

    def says(text: str) -> bool:
        return text in ours.log_path.read_text()[said_before:]

    ours.start()
    wait_until(lambda: says("UNPROVEN DIRECTORY"), "ours to say that it is unproven", alive=[ours.process])
    waiting_for = f"has heard from node {follower.node_id}:"
    wait_until(lambda: says(waiting_for), "ours to have heard the other one", alive=[ours.process])
    assert not says(PROVEN)

    follower.start()
    wait_until(lambda: says(PROVEN), "ours to be proven", alive=[ours.process])
    end_offset = read_stream(leader.partition).end_offset + RECORDS
    for node in quorum.nodes.values():
        wait_for_end_offset(node.partition, end_offset, node.process)
    assert ours.process.stop() == 0
    assert {node.process.stop() for node in quorum.java.values()} == {STOPPED_BY_SIGTERM}
    streams = {f"node {node_id}": read_stream(node.partition) for node_id, node in quorum.nodes.items()}
    require_identical(streams, end_offset=end_offset)
