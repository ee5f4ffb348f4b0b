"""Which records clients may write, by what is known of the quorum's replicas.

Source: KIP-511; ours (ADR 079).
"""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from pykraft.core.leader.progress import OBSERVER_SESSION_MS
from pykraft.core.messages import FetchRequest
from pykraft.errors import ErrorCode
from pykraft.host.clients import records_profile as module
from pykraft.host.clients.records_profile import RecordsProfile
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.messages import ApiKey
from pykraft.types import Epoch, NodeId, Offset, ReplicaKey
from tests.host.clients.test_produce_requests import told
from tests.host.clients.world import FOLLOWS, LEADS, Leader, batch_of, config, produce, resealed
from tests.host.fakes import FakePorts

OURS, JAVA = "pykraft", "apache-kafka-java"
SETTLED_MS = 2_000
"""The fetch timeout: after it a leader has heard every voter that runs."""


class Desk:
    """The profile of voter 1 of three; it leads since 0 ms."""

    def __init__(self, records: str = "auto") -> None:
        self.ports = FakePorts()
        self.profile = RecordsProfile(self.ports, config(client_records=records))
        self.at(0)

    def at(self, mono_ms: int) -> None:
        """A step at this time."""
        self.profile.look(LEADS)
        self.profile.poll(mono_ms)
        self.profile.look(LEADS)

    def fetched(self, replica_id: int | None, software: str | None, *, epoch: int = 4) -> None:
        """A replica fetches, and a step follows."""
        self.profile.replica_fetched(fetch(replica_id, epoch=epoch), software)
        self.profile.look(LEADS)

    @property
    def why(self) -> str | None:
        """Why the strict profile holds; None if it does not."""
        strict = self.profile.strict(LEADS)
        return None if strict is None else strict.why


def fetch(replica_id: int | None, *, epoch: int = 4) -> FetchRequest:
    return FetchRequest(
        replica=None if replica_id is None else ReplicaKey(NodeId(replica_id)),
        epoch=Epoch(4),
        fetch_offset=Offset(3),
        last_fetched_epoch=Epoch(epoch),
        wait_ms_max=0,
        size_bytes_max=1,
        high_watermark=None,
    )


@pytest.mark.parametrize(("records", "is_strict"), [("any", False), ("kraft", True)])
def test_an_explicit_setting_wins(records: str, is_strict: bool) -> None:
    desk = Desk(records)
    for software in (OURS, JAVA):
        desk.fetched(2, software)
        desk.fetched(3, software)
        assert (desk.why is not None) == is_strict
    assert desk.ports.reports == []


def test_any_records_are_taken_once_every_voter_is_known_to_be_pykraft() -> None:
    desk = Desk()
    desk.fetched(2, OURS)
    assert desk.why == "voter 3 is not known to be pykraft (pykraft.client.records=auto)"
    desk.profile.found_pykraft(NodeId(3))
    assert desk.why is None
    assert desk.ports.reports == [], "nothing changed after the grace period"


def test_the_clients_of_a_new_leader_try_again_until_it_has_heard_the_voters() -> None:
    desk = Desk()
    for mono_ms, code in (
        (SETTLED_MS - 1, ErrorCode.NOT_ENOUGH_REPLICAS),
        (SETTLED_MS, ErrorCode.INVALID_RECORD),
        (10 * SETTLED_MS, ErrorCode.INVALID_RECORD),
    ):
        desk.at(mono_ms)
        strict = desk.profile.strict(LEADS)
        assert strict is not None
        assert strict.code == code
    later = LEADS._replace(epoch=Epoch(5))
    desk.profile.look(later)
    strict = desk.profile.strict(later)
    assert strict is not None
    assert strict.code == ErrorCode.NOT_ENOUGH_REPLICAS, "it is new again"


@pytest.mark.parametrize("name", [JAVA, None, "x" * 65, "a b"])
def test_a_java_replica_that_joins_later_changes_the_profile_and_the_log_warns(name: str | None) -> None:
    desk = Desk()
    desk.fetched(2, OURS)
    desk.fetched(3, OURS)
    assert desk.why is None
    desk.fetched(3, name)
    shown = JAVA if name == JAVA else "a client without a name"
    why = f"replica 3 is not pykraft, it calls itself {shown} (pykraft.client.records=auto)"
    assert desk.why == why
    desk.fetched(7, JAVA)
    warning = (
        f"clients may write only what Kafka's own replicas can read: {why}; "
        "such a replica stops at other records that are in the log already"
    )
    assert desk.ports.reports == [warning]
    desk.fetched(3, OURS)
    desk.fetched(7, OURS)
    assert desk.ports.reports[-1] == "clients may write any records: every replica is known to be pykraft"
    assert len(desk.ports.reports) == 3


def test_an_observer_of_kafkas_counts_for_five_minutes_after_its_last_fetch() -> None:
    desk = Desk()
    desk.fetched(2, OURS)
    desk.fetched(3, OURS)
    for replica_id in (9, None):
        desk.fetched(replica_id, JAVA)
    desk.at(1_000)
    desk.fetched(9, JAVA)
    desk.at(OBSERVER_SESSION_MS)
    assert desk.why is not None
    assert desk.why.startswith("replica 9 ")
    desk.at(OBSERVER_SESSION_MS + 1_000)
    assert desk.why is None


def test_an_observer_without_an_id_is_named_and_a_consumer_does_not_count() -> None:
    desk = Desk()
    desk.fetched(2, OURS)
    desk.fetched(3, OURS)
    desk.fetched(None, "a-consumer", epoch=-1)
    assert desk.why is None
    desk.fetched(None, JAVA)
    assert desk.why is not None
    assert desk.why.startswith("an observer without an id is not pykraft")


def test_a_voter_of_kafkas_that_fell_silent_is_still_not_pykraft() -> None:
    desk = Desk()
    desk.fetched(2, OURS)
    desk.fetched(3, JAVA)
    desk.at(2 * OBSERVER_SESSION_MS)
    assert desk.why == "voter 3 is not known to be pykraft (pykraft.client.records=auto)"


def test_a_voter_that_becomes_kafkas_is_not_pykraft_any_more() -> None:
    desk = Desk()
    desk.fetched(2, OURS)
    desk.fetched(3, OURS)
    desk.fetched(3, JAVA)
    desk.at(OBSERVER_SESSION_MS)
    assert desk.why == "voter 3 is not known to be pykraft (pykraft.client.records=auto)"


def test_made_up_replicas_are_bounded_and_a_forgotten_voter_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPLICAS_MAX", 2)
    desk = Desk()
    desk.fetched(2, OURS)
    desk.fetched(3, OURS)
    desk.fetched(2, OURS)
    desk.fetched(8, OURS)
    assert desk.why == "voter 3 is not known to be pykraft (pykraft.client.records=auto)"
    for replica_id in (11, 12, 13):
        desk.fetched(replica_id, JAVA)
    assert desk.why is not None
    assert desk.why.startswith("replica 12 ")


def test_a_follower_logs_nothing() -> None:
    desk = Desk()
    desk.profile.replica_fetched(fetch(3), JAVA)
    desk.profile.poll(SETTLED_MS)
    desk.profile.look(FOLLOWS)
    assert desk.ports.reports == []


def test_a_producer_hears_which_rule_its_batch_broke_and_why_it_holds() -> None:
    leader = Leader(client_records="auto")
    leader.clients.look(leader.status)
    leader.clients.poll(0)
    plain = bytes(batch_of()[1])
    zipped = resealed(plain[:HEADER_SIZE_BYTES] + gzip.compress(plain[HEADER_SIZE_BYTES:]), attributes=1)
    raw = bytearray(zipped)
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    zipped = resealed(raw)
    for now_ms, code in ((1, ErrorCode.NOT_ENOUGH_REPLICAS), (SETTLED_MS, ErrorCode.INVALID_RECORD)):
        leader.clients.poll(now_ms)
        leader.ask(ApiKey.PRODUCE, 11, produce(zipped))
        part = told(leader)
        assert part["error_code"] == code
        assert part["error_message"] == (
            "Kafka's own replicas cannot read this batch, since it is compressed with gzip; "
            "it is refused because voter 2 is not known to be pykraft (pykraft.client.records=auto)"
        )
    leader.ask(ApiKey.PRODUCE, 11, produce(plain))
    leader.decide()
    leader.commit()
    assert told(leader)["error_code"] == ErrorCode.NONE, "the strict profile takes it"
    for replica_id in (2, 3):
        leader.clients.replica_fetched(replace(fetch(replica_id)), OURS)
    leader.ask(ApiKey.PRODUCE, 11, produce(zipped))
    leader.decide()
    leader.commit()
    assert told(leader)["error_code"] == ErrorCode.NONE
