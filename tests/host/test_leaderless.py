"""Why there is no leader is reported at growing intervals, and once that it is over.

A node that does not match the voter set logs what the set expects and which command repairs it, once.
"""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from pykraft import types
from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME, NodeConfig
from pykraft.core.quarantine import Quarantine
from pykraft.core.status import Status
from pykraft.host.leaderless import INTERVAL_MS_MAX, LeaderlessReport, VoterMismatch, own_problem
from tests.host.cluster import Cluster
from tests.host.fakes import FakePorts, at, config, listeners
from tests.host.test_peers import Desk
from tests.rpc.test_connection import vote_answer

LED = {"leader_id": types.NodeId(2), "epoch": types.Epoch(5), "role": "follower"}


class Office:
    """Node 1 of a quorum with so many voters, and what it reports."""

    def __init__(self, *, voters: int = 3, **raft: Any) -> None:
        self.desk = Desk()
        self.config = config(1, voters=voters, **raft)
        self.status = Status(voters=self.config.voters)
        self.report = LeaderlessReport(self.desk.ports, self.config, types.ReplicaKey(types.NodeId(1)), self.desk.peers)

    def refuse(self, *peers: int) -> None:
        """Ask these peers now; each refuses the connection."""
        for peer in peers:
            self.desk.send(peer_id=peer)
            self.desk.peers.on_closed(self.desk.ports.dialed[-1][0], is_refused=True, reason="connection refused")

    def poll(self, now_ms: int, **changes: Any) -> list[str]:
        """What is reported at this time."""
        before = len(self.desk.ports.reports)
        self.report.poll(self.status._replace(**changes), at(now_ms))
        return self.desk.ports.reports[before:]


@pytest.fixture
def office() -> Office:
    return Office()


def test_each_voter_is_told_with_its_reason(office: Office) -> None:
    assert not office.poll(0)
    office.desk.now_ms = 1_500
    office.refuse(2, 3)
    assert not office.poll(2_999)
    assert office.poll(3_000) == [
        (
            "no leader for 3 s: voter 2 at node2:9002: connection refused, for 1 s; "
            "voter 3 at node3:9003: connection refused, for 1 s"
        )
    ]


def test_intervals_grow_up_to_a_bound(office: Office) -> None:
    told_ms = [now_ms for now_ms in range(0, 2_000_000, 1_000) if office.poll(now_ms)]
    gaps = [after - before for before, after in itertools.pairwise(told_ms)]
    assert told_ms[:4] == [3_000, 9_000, 21_000, 45_000]
    assert office.desk.ports.kinds[:3] == [
        types.ReportKind.EVENT,
        types.ReportKind.LEADERLESS,
        types.ReportKind.LEADERLESS,
    ]
    assert gaps[-2:] == [INTERVAL_MS_MAX, INTERVAL_MS_MAX]


def test_the_end_is_told_once_and_only_if_the_begin_was(office: Office) -> None:
    assert not office.poll(0)
    assert not office.poll(2_000, **LED)
    assert not office.poll(3_000)
    assert office.poll(6_000)
    assert office.poll(7_900, **LED) == ["node 2 leads epoch 5, after 4 s without a leader"]
    assert not office.poll(8_000, **LED)
    assert not office.poll(9_000)
    assert not office.poll(10_000, **LED)


def test_a_voter_that_tries_its_former_leader_again_has_no_leader_until_that_answers(office: Office) -> None:
    assert not office.poll(0, **LED)
    asks = {**LED, "role": "prospective-voted"}
    told: list[str] = []
    for now_ms in range(1_000, 8_000, 1_000):
        office.desk.now_ms = now_ms
        office.refuse(2)
        told += office.poll(now_ms, **(asks if now_ms % 2_000 else LED))
    assert told == ["no leader for 3 s: voter 2 at node2:9002: connection refused, for 3 s"]
    office.desk.send(peer_id=2)
    office.desk.connect()
    office.desk.peers.on_frame(office.desk.ports.dialed[-1][0], vote_answer(wire_id=1))
    assert office.poll(8_000, **LED) == ["node 2 leads epoch 5, after 7 s without a leader"]


def test_a_leader_that_resigned_is_none(office: Office) -> None:
    office.poll(0, leader_id=types.NodeId(1), role="resigned")
    assert office.poll(3_000, leader_id=types.NodeId(1), role="resigned")


def test_longer_elections_are_waited_for() -> None:
    office = Office(election_timeout_ms=4_000)
    office.poll(0)
    assert not office.poll(11_999)
    assert office.poll(12_000) == ["no leader for 12 s: no other node was asked yet"]


def test_who_was_asked_just_now_and_who_is_no_voter_is_left_out(office: Office) -> None:
    office.poll(0)
    office.refuse(9)
    office.desk.now_ms = 2_500
    office.refuse(2)
    assert office.poll(3_000) == ["no leader for 3 s: no other node was asked yet"]


def test_bootstrap_servers_are_told_as_such(office: Office) -> None:
    office.poll(0)
    office.refuse(-2)
    assert office.poll(3_000) == ["no leader for 3 s: bootstrap server node-2:8998: connection refused, for 3 s"]


def test_a_node_that_is_no_voter_needs_no_proof(office: Office) -> None:
    office.report = LeaderlessReport(
        office.desk.ports, office.config, types.ReplicaKey(types.NodeId(9)), office.desk.peers
    )
    office.poll(0, is_proven=False)
    assert office.poll(3_000, is_proven=False) == ["no leader for 3 s: no other node was asked yet"]


def test_of_many_peers_some_are_told() -> None:
    office = Office(voters=13)
    office.poll(0)
    office.refuse(*range(2, 14))
    [line] = office.poll(3_000)
    assert line.count("connection refused") == 10
    assert line.endswith("; and 2 more peers")


def damage(name: str) -> types.Damage:
    return types.Damage(
        path=name, position=4, expected="a", found="b", start_offset=types.Offset(0), end_offset=types.Offset(1)
    )


QUARANTINE = Quarantine(epoch=types.Epoch(1), until_offset=None, damages=(), is_cut=True)
OWN = {
    "in quarantine": (
        3,
        {"quarantine": replace(QUARANTINE, damages=(damage("/d/0.log"),))},
        (
            "this node is in quarantine, since its log is damaged at /d/0.log, and does not vote until it has fetched "
            "the log again from a leader: check the disk, and start the voters that are down"
        ),
    ),
    "the only voter in quarantine": (
        1,
        {"quarantine": replace(QUARANTINE, damages=(damage("/d/0.log"), damage("/d/1.log")))},
        (
            "this node is the only voter, and in quarantine, since its log is damaged at /d/0.log and 1 more place: "
            "stop it, and see what pykraft verify advises"
        ),
    ),
    "in quarantine without a list": (
        1,
        {"quarantine": QUARANTINE},
        (
            "this node is the only voter, and in quarantine, since its log is damaged: stop it, and see what pykraft "
            "verify advises"
        ),
    ),
    "unproven": (
        3,
        {"is_proven": False},
        (
            "this node's directory is unproven, so it does not vote until the other voters have answered: start those "
            "that are down"
        ),
    ),
}


@pytest.mark.parametrize(("voters", "changes", "told"), OWN.values(), ids=OWN)
def test_what_keeps_the_node_itself_from_leading(voters: int, changes: dict[str, Any], told: str) -> None:
    office = Office(voters=voters)
    office.poll(0, **changes)
    assert office.poll(3_000, **changes) == [f"no leader for 3 s: {told}"]


def test_a_client_is_told_the_same_without_the_folder() -> None:
    damaged = replace(QUARANTINE, damages=(damage("/d/0.log"),))
    status = Office().status._replace(quarantine=damaged, is_proven=False)
    key = types.ReplicaKey(types.NodeId(1))
    told = (
        "it is in quarantine, since its log is damaged at 0.log, and does not vote until it has fetched the log again "
    )
    assert own_problem(status, key) == f"{told}from a leader: check the disk, and start the voters that are down"
    assert own_problem(status._replace(quarantine=None), None) is None


def test_a_node_that_lost_all_others_explains_why_it_has_no_leader(cluster: Cluster) -> None:
    cluster.leader()
    alone, *others = cluster.machines.values()
    for other in others:
        other.crash()
    cluster.run_until(lambda: alone.running.status.serving_leader is None)
    begun_ms = cluster.now.mono_ms
    alone.reports.clear()
    while cluster.now.mono_ms < begun_ms + 20_000:
        cluster.run(500)
        alone.running.explain(cluster.now)
    told = [line for line in alone.reports if line.startswith("no leader for ")]
    assert "voter 2 at node2:9002: " in told[-1]
    assert "voter 3 at node3:9003: " in told[-1]
    alone.running.end()
    alone.running.explain(at(cluster.now.mono_ms + 1_000_000))
    assert [line for line in alone.reports if line.startswith("no leader for ")] == told


ADD = (
    "pykraft quorum --bootstrap-controller node2:9002 add-controller --command-config FILE, with the properties file "
    "of this node"
)
LASTING_MS = 1 + config(1).raft.fetch_timeout_ms
"""A set that is in force for so long is not one of the past that is only passed through."""
OLD, NEW = types.Uuid(b"O" * 16), types.Uuid(b"N" * 16)


def own(node_id: int = 1, *, auto_join: bool = False) -> NodeConfig:
    return replace(config(node_id, auto_join=auto_join), voters=types.VoterSet())


def entry(node_id: int, directory: types.Uuid = OLD, *, told: types.Listeners | None = None) -> types.Voter:
    return types.Voter(
        key=types.ReplicaKey(types.NodeId(node_id), directory), listeners=listeners(node_id) if told is None else told
    )


def in_log(*voters: types.Voter) -> Status:
    return Status(voters=types.VoterSet.of(voters), kraft_version=1)


def heard(node: NodeConfig, *seen: Status, directory: types.Uuid = NEW) -> list[tuple[str, bool]]:
    """What it reports, and whether that is an alarm, while it sees these sets one after the other."""
    ports = FakePorts()
    key = None if node.node_id is None else types.ReplicaKey(node.node_id, directory)
    standing = VoterMismatch(ports, node, key)
    for nth, status in enumerate(seen):
        begun_ms = nth * LASTING_MS
        for after_ms in (0, LASTING_MS - 1):
            standing.poll(status, types.Instant(mono_ms=begun_ms + after_ms, wall_ms=0))
    return [(text, text in ports.alarms) for text in ports.reports]


def test_another_disk_is_an_alarm_with_both_directory_ids_and_both_commands() -> None:
    expected, found = types.uuid_text(OLD), types.uuid_text(NEW)
    text = (
        f"the voters expect node 1 with directory id {expected}, and its directory has {found}: it only observes; "
        "start it on its former directory; or, if that is lost: pykraft quorum --bootstrap-controller node2:9002 "
        f"remove-controller --controller-id 1 --controller-directory-id {expected}; "
        f"then, when it has caught up: {ADD}"
    )
    assert heard(own(), in_log(entry(1), entry(2))) == [(text, True)]


def test_who_is_not_in_the_set_is_told_how_to_get_there() -> None:
    text = f"node 1 is not among the voters 2, 3: it only observes; to make it one, when it has caught up: {ADD}"
    assert heard(own(), in_log(entry(2), entry(3))) == [(text, False)]


def test_static_voters_stand_in_a_property() -> None:
    static = Status(voters=types.VoterSet.of([entry(2), entry(3)]))
    text = (
        "node 1 is not among the voters 2, 3: it only observes; to make it one, name it in controller.quorum.voters "
        "of all nodes"
    )
    assert heard(own(), static) == [(text, False)]


@pytest.mark.parametrize("ids", [(1, 2), (2, 3)])
def test_who_joins_by_itself_needs_no_command(ids: tuple[int, int]) -> None:
    [(text, _)] = heard(own(auto_join=True), in_log(*map(entry, ids)))
    assert "by itself" in text
    assert "pykraft quorum" not in text


def test_it_is_told_when_it_votes_again_and_nothing_twice() -> None:
    node, without = own(), in_log(entry(2), entry(3))
    texts = [text for text, _ in heard(node, in_log(entry(1, NEW)), without, in_log(entry(1, NEW), entry(2)))]
    assert texts == [
        f"node 1 is not among the voters 2, 3: it only observes; to make it one, when it has caught up: {ADD}",
        "node 1 is a voter now",
    ]
    assert len(heard(node, without, in_log(entry(2), entry(3)))) == 1


def test_sets_of_the_past_are_passed_through_without_a_word() -> None:
    ports = FakePorts()
    standing = VoterMismatch(ports, own(), types.ReplicaKey(types.NodeId(1), NEW))
    for at_ms, status in enumerate([in_log(entry(1), entry(2)), in_log(entry(2)), in_log(entry(1, NEW), entry(2))]):
        standing.poll(status, types.Instant(mono_ms=at_ms, wall_ms=0))
    standing.poll(status, types.Instant(mono_ms=10 * LASTING_MS, wall_ms=0))
    assert ports.reports == []


def test_a_mismatch_is_told_when_it_lasts_and_a_match_at_once() -> None:
    ports = FakePorts()
    standing = VoterMismatch(ports, own(), types.ReplicaKey(types.NodeId(1), NEW))
    without, with_it = in_log(entry(2)), in_log(entry(1, NEW), entry(2))
    standing.poll(without, types.Instant(mono_ms=0, wall_ms=0))
    standing.poll(without, types.Instant(mono_ms=LASTING_MS - 2, wall_ms=0))
    assert ports.reports == []
    standing.poll(without, types.Instant(mono_ms=LASTING_MS - 1, wall_ms=0))
    standing.poll(with_it, types.Instant(mono_ms=LASTING_MS, wall_ms=0))
    assert [text.partition(":")[0] for text in ports.reports] == [
        "node 1 is not among the voters 2",
        "node 1 is a voter now",
    ]


def test_a_set_without_addresses_leaves_the_address_open() -> None:
    [(text, _)] = heard(own(), in_log(entry(2, told=types.NO_LISTENERS)))
    assert "--bootstrap-controller HOST:PORT add-controller" in text


@pytest.mark.parametrize(
    ("node", "status"),
    [
        (own(), Status()),
        (own(), in_log(entry(1, NEW))),
        (own(), Status(voters=config(1).voters)),
        (replace(own(), node_id=None), in_log(entry(2))),
        (replace(own(), topic_name=METADATA_TOPIC_NAME, topic_id=METADATA_TOPIC_ID), in_log(entry(2))),
    ],
    ids=["nothing known yet", "a voter", "a static voter", "without an id", "an observer of Kafka's"],
)
def test_who_is_what_it_should_be_hears_nothing(node: NodeConfig, status: Status) -> None:
    assert heard(node, status) == []
