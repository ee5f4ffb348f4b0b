"""A node that does not match the voter set logs what the set expects and which command repairs it, once.

Source: KIP-853 §Disk failure; Kafka reports nothing here, and such a node fetches for ever without a vote.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME, NodeConfig
from pykraft.core.status import Status
from pykraft.host.voter_mismatch import VoterMismatch
from pykraft.types import (
    NO_LISTENERS,
    Instant,
    Listeners,
    NodeId,
    ReplicaKey,
    Uuid,
    Voter,
    VoterSet,
    uuid_text,
)
from tests.host.fakes import FakePorts, config, listeners

ADD = (
    "pykraft quorum --bootstrap-controller node2:9002 add-controller --command-config FILE, with the properties file "
    "of this node"
)
LASTING_MS = 1 + config(1).raft.fetch_timeout_ms
"""A set that is in force for so long is not one of the past that is only passed through."""
OLD, NEW = Uuid(b"O" * 16), Uuid(b"N" * 16)


def own(node_id: int = 1, *, auto_join: bool = False) -> NodeConfig:
    return replace(config(node_id, auto_join=auto_join), voters=VoterSet())


def entry(node_id: int, directory: Uuid = OLD, *, told: Listeners | None = None) -> Voter:
    return Voter(key=ReplicaKey(NodeId(node_id), directory), listeners=listeners(node_id) if told is None else told)


def in_log(*voters: Voter) -> Status:
    return Status(voters=VoterSet.of(voters), kraft_version=1)


def heard(node: NodeConfig, *seen: Status, directory: Uuid = NEW) -> list[tuple[str, bool]]:
    """What it reports, and whether that is an alarm, while it sees these sets one after the other."""
    ports = FakePorts()
    key = None if node.node_id is None else ReplicaKey(node.node_id, directory)
    standing = VoterMismatch(ports, node, key)
    for nth, status in enumerate(seen):
        begun_ms = nth * LASTING_MS
        for after_ms in (0, LASTING_MS - 1):
            standing.poll(status, Instant(mono_ms=begun_ms + after_ms, wall_ms=0))
    return [(text, text in ports.alarms) for text in ports.reports]


def test_another_disk_is_an_alarm_with_both_directory_ids_and_both_commands() -> None:
    expected, found = uuid_text(OLD), uuid_text(NEW)
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
    static = Status(voters=VoterSet.of([entry(2), entry(3)]))
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
    standing = VoterMismatch(ports, own(), ReplicaKey(NodeId(1), NEW))
    for at_ms, status in enumerate([in_log(entry(1), entry(2)), in_log(entry(2)), in_log(entry(1, NEW), entry(2))]):
        standing.poll(status, Instant(mono_ms=at_ms, wall_ms=0))
    standing.poll(status, Instant(mono_ms=10 * LASTING_MS, wall_ms=0))
    assert ports.reports == []


def test_a_mismatch_is_told_when_it_lasts_and_a_match_at_once() -> None:
    ports = FakePorts()
    standing = VoterMismatch(ports, own(), ReplicaKey(NodeId(1), NEW))
    without, with_it = in_log(entry(2)), in_log(entry(1, NEW), entry(2))
    standing.poll(without, Instant(mono_ms=0, wall_ms=0))
    standing.poll(without, Instant(mono_ms=LASTING_MS - 2, wall_ms=0))
    assert ports.reports == []
    standing.poll(without, Instant(mono_ms=LASTING_MS - 1, wall_ms=0))
    standing.poll(with_it, Instant(mono_ms=LASTING_MS, wall_ms=0))
    assert [text.partition(":")[0] for text in ports.reports] == [
        "node 1 is not among the voters 2",
        "node 1 is a voter now",
    ]


def test_a_set_without_addresses_leaves_the_address_open() -> None:
    [(text, _)] = heard(own(), in_log(entry(2, told=NO_LISTENERS)))
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
