"""A quorum of processes is started, stopped and checked; the check finds faults in its logs.

A journal holds every whole line that was written, whatever happened to the writer.
"""

import os
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster, JournalKeeper, Site
from lab.nodes.logs import read_stream
from lab.nodes.verdict import JournalVerdict
from pykraft.config.properties import parse_properties
from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local.child import Children
from pykraft.local.journal import Started, Stopped
from pykraft.local.voters import QUICK, free_ports
from pykraft.types import NodeId

pytestmark = pytest.mark.processes


def test_a_quorum_is_started_stopped_and_checked(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, throughput=500, properties=QUICK)
    led = cluster.start()
    assert led.node == cluster.journal.leader_id()
    cluster.journal.wait_for_acknowledged(200, since=0)
    caught_up_offset = cluster.wait_until_caught_up()
    assert cluster.stop() == {1: 0, 2: 0, 3: 0}

    verdict = cluster.check(caught_up_offset=caught_up_offset)
    assert verdict.is_clean
    assert verdict.acknowledged >= 200

    follower = next(node for node_id, node in cluster.nodes.items() if node_id != led.node)
    (segment,) = follower.partition.glob("*.log")
    segment.write_bytes(segment.read_bytes()[:1_000])
    with pytest.raises(LocalQuorumError, match=f"node {follower.node_id} ends at"):
        cluster.check(caught_up_offset=caught_up_offset)


def test_a_load_that_is_ended_is_ended_everywhere(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, throughput=500, properties=QUICK)
    cluster.start()
    cluster.journal.wait_for_acknowledged(200, since=0)
    cluster.end_load()
    end_offset = cluster.journal.end_offset
    assert cluster.wait_until_caught_up() == end_offset
    assert {read_stream(node.partition).end_offset for node in cluster.nodes.values()} == {end_offset}
    assert {node.process.status for node in cluster.nodes.values()} == {None}


def test_a_quorum_that_cannot_start_says_which_process_ended(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, properties={"controller.quorum.election.timeout.ms": "soon"})
    with pytest.raises(LocalQuorumError, match=r"node \d ended with 2"):
        cluster.start()


def test_records_that_do_not_say_which_they_are_cannot_be_checked(children: Children, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="records of 19 bytes cannot be checked"):
        Cluster(children, tmp_path, record_size_bytes=19).check(caught_up_offset=0)


def test_a_dynamic_quorum_takes_further_nodes(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, size=1, throughput=500, properties=QUICK, is_dynamic=True)
    assert cluster.start().node == 1
    joiner = cluster.join(2)
    joiner.start()
    cluster.journal.wait_for_acknowledged(200, since=0)
    caught_up_offset = cluster.wait_until_caught_up()
    assert cluster.stop() == {1: 0, 2: 0}
    assert cluster.check(caught_up_offset=caught_up_offset).is_clean
    with pytest.raises(LocalQuorumError, match=r"formatting node 2 ended with 2: .*already formatted"):
        joiner.format("--no-initial-controllers")


@pytest.mark.parametrize(
    ("statuses", "problems", "told"),
    [
        ({1: 0, 2: 1, 3: 0}, (), r"a status other than 0: \{2: 1\}"),
        (
            {1: 0, 2: 0, 3: 0},
            ("a record is missing",),
            "the log differs from what was acknowledged: .*a record is missing",
        ),
    ],
)
def test_a_quorum_finishes_well_or_says_why_not(
    monkeypatch: pytest.MonkeyPatch,
    children: Children,
    tmp_path: Path,
    statuses: dict[int, int],
    problems: tuple[str, ...],
    told: str,
) -> None:
    cluster = Cluster(children, tmp_path)
    checked: list[int] = []

    def check(*, caught_up_offset: int) -> JournalVerdict:
        checked.append(caught_up_offset)
        return JournalVerdict(problems=problems)

    monkeypatch.setattr(cluster, "end_load", lambda: None)
    monkeypatch.setattr(cluster, "wait_until_caught_up", lambda: 7)
    monkeypatch.setattr(cluster, "stop", lambda: statuses)
    monkeypatch.setattr(cluster, "check", check)
    with pytest.raises(LocalQuorumError, match=told):
        cluster.finish()
    assert checked == [7] * bool(problems)


def test_a_node_may_have_its_log_elsewhere_another_port_and_few_descriptors(children: Children, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    site = Site(port=port, published_port=port, data=elsewhere)
    cluster = Cluster(children, tmp_path, size=1, throughput=500, properties=QUICK, sites={1: site})
    (node,) = cluster.nodes.values()
    node.start(descriptors_max=300)
    cluster.journal.wait_for_acknowledged(100, since=0)
    limits = Path(f"/proc/{node.process.pid}/limits").read_text(encoding="utf-8")
    assert [line.split()[3:5] for line in limits.splitlines() if "open files" in line] == [["300", "300"]]
    assert (elsewhere / "meta.properties").exists()
    assert node.port == port


def test_a_second_process_has_the_id_and_the_address_of_a_node(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path)
    twin, intruder = cluster.second_process(2), cluster.second_process(2, data=tmp_path / "data")
    told, of_node = (parse_properties(node.config.read_text()) for node in (twin, cluster.nodes[2]))
    assert told.pop("log.dirs") != of_node.pop("log.dirs")
    assert told.pop("listeners") != of_node.pop("listeners")
    assert told.pop("advertised.listeners") == f"PLAINTEXT://127.0.0.1:{cluster.nodes[2].port}"
    assert told == of_node
    assert intruder.partition.parent.readlink() == tmp_path / "data"
    assert list(cluster.nodes) == [1, 2, 3]


STARTED = b'{"event":"started","node":4,"run":"0011223344556677","pid":9,"port":15000}\n'
STOPPED = b'{"event":"stopped","node":4}\n'
THE_END = Stopped(node=NodeId(4))


def write(journal: JournalKeeper, *pieces: bytes) -> None:
    reading, writing = os.pipe()
    journal.attach(reading)
    for piece in pieces:
        os.write(writing, piece)
    os.close(writing)


def test_lines_are_kept_however_they_were_cut_and_half_a_line_is_not(tmp_path: Path) -> None:
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    mark = journal.mark()
    write(journal, STARTED[:20], STARTED[20:] + STOPPED, STOPPED[:10])
    journal.wait_for(lambda events: THE_END in events, "the end", since=mark)
    assert [type(event) for event in journal.events()] == [Started, Stopped]
    assert journal.events(since=1) == [THE_END]
    assert journal.path.read_bytes() == STARTED + STOPPED
    assert journal.end_offset == 0


def test_a_line_that_is_none_fails_the_test(tmp_path: Path) -> None:
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    write(journal, b"hello\n")
    with pytest.raises(LocalQuorumError, match="not a line of a journal"):
        journal.wait_for(lambda _: None, "anything")


def test_what_is_never_told_is_named(tmp_path: Path) -> None:
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    with pytest.raises(LocalQuorumError, match="for a leader"):
        journal.wait_for(lambda _: None, "a leader", timeout_s=0.05)


def test_a_journal_that_cannot_be_written_down_is_told_and_read_on() -> None:
    journal = JournalKeeper(Path("/dev/full"))
    write(journal, STARTED, STOPPED)
    with pytest.raises(LocalQuorumError, match="/dev/full: No space left on device"):
        journal.wait_for(lambda _: None, "anything")


def test_a_journal_is_quiet_when_nothing_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    told = iter([STARTED, STOPPED, b""])

    def wait_for_one_more(_: float) -> None:
        mark = journal.mark()
        if line := next(told):
            write(journal, line)
            journal.wait_for(lambda events: len(events) > 0, "a line", since=mark)

    monkeypatch.setattr("time.sleep", wait_for_one_more)
    journal.wait_until_quiet()
    assert journal.mark() == 2


def test_a_journal_that_is_never_quiet_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(journal, "mark", iter(range(10**9)).__next__)
    with pytest.raises(LocalQuorumError, match=r"waited 0\.01 s for the nodes to stop writing"):
        journal.wait_until_quiet(timeout_s=0.01)
