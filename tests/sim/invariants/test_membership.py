"""What the oracles of membership report, and what they accept."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykraft.core.leader.pending import Addition
from pykraft.core.messages import AddVoterRequest, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.sim.facts.members import VoterRecord, VoterRequest
from pykraft.sim.invariants import ViolationError, membership
from pykraft.sim.machine.spoken import LogEnd, Spoken
from pykraft.sim.scenario.settings import LISTENER, PORTS_APART, listeners_of
from pykraft.types import NO_LISTENERS, Endpoint, Listeners, NodeId, Offset, ReplicaKey, ReportKind, Voter, VoterSet
from tests.core.replicas import leader
from tests.sim.invariants import fakes


# asked_levels: A leader that adds a voter, and asks it nothing, is found.
def adding(*, is_ready: bool, offset: int | None = None) -> Any:
    """A leader that adds voter 4."""
    (voter,) = fakes.keyed(4).voters
    state = leader()
    state.change = Addition(
        request_id=1,
        voter=voter,
        ack_when_committed=True,
        deadline_ms=1_000,
        offset=None if offset is None else Offset(offset),
    )
    connections = SimpleNamespace(is_ready=lambda peer_id: is_ready and peer_id == 4)
    return fakes.node(1, role="leader", raft=SimpleNamespace(state=state, connections=connections))


def test_an_addition_that_asks_nothing_is_found() -> None:
    with pytest.raises(ViolationError, match="leader 1 adds voter 4, and asks it nothing"):
        membership.NewVotersAreAsked(fakes.world()).after_event(adding(is_ready=True), fakes.view("leader"))


def test_a_request_under_way_is_accepted_also_when_it_fails_later() -> None:
    made, found = membership.NewVotersAreAsked(fakes.world()), adding(is_ready=False)
    made.after_event(found, fakes.view("leader"))
    found.host.raft.connections.is_ready = lambda peer_id: True
    made.after_event(found, fakes.view("leader"))


# caught_up: A new voter that never caught up with its leader is found.
def fetch(epoch: int, offset: int) -> Spoken:
    return Spoken(epoch=epoch, fetched=LogEnd(epoch=epoch, offset=offset))


def test_who_has_the_first_record_of_the_epoch_may_join_and_nobody_else() -> None:
    where = fakes.world()
    where.members.electorate.records = [fakes.voter_record(0, fakes.keyed(1, 2))]
    where.ledger(fakes.node()).entries += [fakes.entry(0, epoch=1), fakes.entry(1, epoch=2), fakes.entry(2, epoch=2)]
    made = membership.NewVoterHasCaughtUp(where)
    joined = fakes.voter_record(3, fakes.keyed(1, 2, 3), epoch=2)
    for asked in (fetch(1, 9), fetch(2, 1)):
        made.before_send(fakes.node(3), asked)
        with pytest.raises(ViolationError, match="which began at 1, adds voter 3"):
            made.voters_written(fakes.node(), joined, 3)
    made.before_send(fakes.node(3), fetch(2, 2))
    made.before_send(fakes.node(3), Spoken(epoch=2))
    made.voters_written(fakes.node(), joined, 3)


# change_told: An answer that a change is done is found if no such change was committed since the request.
KEY = fakes.keyed(3).voters[0].key
ADD = AddVoterRequest(voter=KEY, listeners=NO_LISTENERS, timeout_ms=1)
REMOVE = RemoveVoterRequest(voter=KEY)


def answered(message: AddVoterRequest | RemoveVoterRequest, answer: ErrorCode, since: int = 5) -> None:
    """Voter 3 was removed at 4 and added at 6, which is committed, and is to be removed at 8, which is not."""
    where = fakes.world()
    where.committed.entries += [fakes.entry(4), fakes.entry(6)]
    where.members.electorate.records = [
        fakes.voter_record(4, fakes.keyed(1, 2)),
        fakes.voter_record(6, fakes.keyed(1, 2, 3)),
        fakes.voter_record(8, fakes.keyed(1, 2)),
    ]
    made: Any = SimpleNamespace(message=message, answer=answer, since=since)
    membership.ChangeIsCommittedWhenTold(where).answered(made)


@pytest.mark.parametrize(("message", "since", "what"), [(REMOVE, 5, "removed"), (ADD, 7, "added")])
def test_what_is_in_doubt_or_was_before_may_not(message: RemoveVoterRequest, since: int, what: str) -> None:
    with pytest.raises(ViolationError, match=f"voter 3 was {what}, and no committed voter set says so"):
        answered(message, ErrorCode.NONE, since)


# endpoints: A voter with an invalid host name is found, and one at an address where it never was.
def made() -> membership.VotersCanBeDialed:
    """Node 2 has moved twice."""
    facts = fakes.world()
    moves = {1: 0, 2: 2, 3: 0}
    facts.nodes = {
        node_id: SimpleNamespace(config=SimpleNamespace(advertised_listeners=listeners_of(node_id, times)))
        for node_id, times in moves.items()
    }
    return membership.VotersCanBeDialed(facts)


def test_hosts_are_hosts() -> None:
    made().voters_written(fakes.node(1), fakes.voter_record(3, fakes.voters_of(3)), 0)
    nowhere = Listeners(((LISTENER, Endpoint("a\0b", 2)),))
    voters = VoterSet.of([Voter(key=ReplicaKey(NodeId(2)), listeners=nowhere)])
    with pytest.raises(ViolationError, match="leader 1 writes voters at 4 of whom 2 is at"):
        made().voters_written(fakes.node(1), fakes.voter_record(4, voters), 0)


@pytest.mark.parametrize(("port", "was_there"), [(2, True), (2 * PORTS_APART + 2, True), (999, False), (60_002, False)])
def test_a_voter_was_at_its_address(port: int, *, was_there: bool) -> None:
    listeners = Listeners(((LISTENER, Endpoint("node-2", port)),))
    record = fakes.voter_record(4, VoterSet.of([Voter(key=ReplicaKey(NodeId(2)), listeners=listeners)]))
    if was_there:
        made().voters_written(fakes.node(1), record, 0)
        return
    with pytest.raises(ViolationError, match=f"2 is at 'node-2', port {port}"):
        made().voters_written(fakes.node(1), record, 0)


# level_first: A voter set without a level before it is found.
def test_the_first_set_brings_the_level_with_it() -> None:
    where = fakes.world()
    made = membership.LevelBeforeVoters(where)
    first = fakes.voter_record(3, fakes.keyed(1, 2, 3), level=1)
    made.voters_written(fakes.node(), first, 0)
    with pytest.raises(ViolationError, match=r"its log knows no kraft\.version"):
        made.voters_written(fakes.node(), fakes.voter_record(3, fakes.keyed(1, 2, 3)), 0)
    where.members.electorate.records = [first]
    made.voters_written(fakes.node(), fakes.voter_record(5, fakes.keyed(1, 2)), 5)


def test_others_are_found() -> None:
    where = fakes.world()
    where.members.electorate.records = [fakes.voter_record(0, fakes.keyed(1, 2))]
    made = membership.VotersAreOfTheLog(where)
    made.submitted(fakes.node(), fakes.truncates(3))
    with pytest.raises(ViolationError, match=r"takes \[1, 2, 3\] for the voters, its log says \[1, 2\]"):
        made.after_event(fakes.node(), fakes.view())


# one_change: A voter set that follows an uncommitted one is found.
def test_a_set_follows_what_is_committed() -> None:
    where = fakes.world()
    made = membership.OneChangeInDoubt(where)
    made.voters_written(fakes.node(), fakes.voter_record(3, fakes.keyed(1, 2, 3)), 0)
    where.members.electorate.records = [fakes.voter_record(3, fakes.keyed(1, 2, 3))]
    made.voters_written(fakes.node(), fakes.voter_record(9, fakes.keyed(1, 2)), 4)
    made.voters_written(fakes.node(), fakes.voter_record(9, fakes.keyed(1, 2, 3), is_opening=True), 3)
    with pytest.raises(ViolationError, match="the one at 3 is in doubt: 3 is committed"):
        made.voters_written(fakes.node(), fakes.voter_record(9, fakes.keyed(1, 2)), 3)


# one_voter: A voter set that differs by two voters is found, and one without a directory id.
def written(before: VoterSet, record: VoterRecord) -> None:
    where = fakes.world()
    where.members.electorate.records = [fakes.voter_record(0, before)]
    membership.VotersChangeByOne(where).voters_written(fakes.node(), record, 5)


def test_an_upgrade_gives_the_configured_voters_their_disks() -> None:
    written(fakes.voters_of(3), fakes.voter_record(5, fakes.keyed(1, 2, 3), level=1))
    for wrong in (fakes.keyed(1, 2), fakes.voters_of(3)):
        with pytest.raises(ViolationError, match=r"after 1:3f, 2:3f, 3:3f"):
            written(fakes.voters_of(3), fakes.voter_record(5, wrong, level=1))


@pytest.mark.parametrize(
    "record",
    [
        fakes.voter_record(5, fakes.keyed(1, 2, 4)),
        fakes.voter_record(5, fakes.keyed(1)),
        fakes.voter_record(0, fakes.keyed(1, 2), level=1, is_opening=True),
    ],
)
def test_two_voters_at_a_time_are_found(record: VoterRecord) -> None:
    with pytest.raises(ViolationError, match="leader 1 of epoch 1 writes the voters 1:0101"):
        written(fakes.keyed(1, 2, 3), record)


# operator_answered: A leader that does not answer an operator in time is found.
BOUND_US = 10_000_000


def leading() -> Any:
    made = fakes.node(1, role="leader")
    made.process.is_running = True
    made.disk.io_errors = SimpleNamespace(stalled_until_us=0)
    return made


def asked_of(leader: Any) -> tuple[Any, membership.OperatorsAreAnswered, VoterRequest]:
    where = fakes.world()
    made = membership.OperatorsAreAnswered(where)
    asked = VoterRequest(message=cast(Any, "add 4"), process=leader.process, then=lambda _: None, since=0)
    made.asked(asked)
    return where, made, asked


def test_one_that_waits_too_long_is_found() -> None:
    leader = leading()
    where, made, _ = asked_of(leader)
    where.clock.now_us = BOUND_US + 1
    with pytest.raises(ViolationError, match="node 1 has not answered add 4 in 10000001 us"):
        made.after_event(leader, fakes.view("leader"))


# own_epoch: A voter set written before a record of the leader's own epoch is committed is found.
def test_the_last_committed_record_is_of_the_own_epoch() -> None:
    where = fakes.world()
    where.ledger(fakes.node()).entries += [fakes.entry(0, epoch=1), fakes.entry(1, epoch=2)]
    made = membership.OwnEpochBeforeVoters(where)
    made.voters_written(fakes.node(), fakes.voter_record(2, fakes.keyed(1, 2), epoch=2), 2)
    made.voters_written(fakes.node(), fakes.voter_record(0, fakes.keyed(1, 2), epoch=1, is_opening=True), 0)
    for committed_end in (0, 1):
        with pytest.raises(ViolationError, match=f"nothing of its epoch is committed: {committed_end} is"):
            made.voters_written(fakes.node(), fakes.voter_record(2, fakes.keyed(1, 2), epoch=2), committed_end)


# removed_leader: A leader that stays leader after its removal was committed is found.
def test_a_removed_leader_goes_when_that_is_committed() -> None:
    where = fakes.world()
    made = membership.RemovedLeaderResigns(where)
    made.changed(fakes.node(), fakes.BEFORE, fakes.view("leader", high_watermark=9))
    where.members.electorate.records = [fakes.voter_record(4, fakes.keyed(2, 3))]
    for accepted in (
        fakes.view("leader"),
        fakes.view("leader", high_watermark=4),
        fakes.view("resigned", high_watermark=5),
    ):
        made.changed(fakes.node(), fakes.BEFORE, accepted)
    made.changed(fakes.node(2), fakes.BEFORE, fakes.view("leader", high_watermark=9))
    with pytest.raises(ViolationError, match="leads on at 5, it is no voter since 4"):
        made.changed(fakes.node(), fakes.BEFORE, fakes.view("leader", high_watermark=5))


# twins_told: A leader that feeds a twin in silence is noticed; an alarm of this epoch and this voter is enough.
def report_twin(oracle: membership.TwinsAreTold, epoch: int, voter_id: int) -> None:
    raft = SimpleNamespace(state=SimpleNamespace(epoch=epoch))
    oracle.reported(fakes.node(1, role="leader", raft=raft), fakes.report(ReportKind.TWIN, voter_id))


def test_silence_is_noticed() -> None:
    oracle = membership.TwinsAreTold(fakes.world())
    oracle.after_event(fakes.node(1), fakes.view())
    report_twin(oracle, 4, 2)
    oracle.reported(fakes.node(1), fakes.report())
    oracle.facts.claims.fed_twins.add((1, 5, 2))
    with pytest.raises(ViolationError, match="node 1, the leader of epoch 5, has sent records to a second process"):
        oracle.after_event(fakes.node(1), fakes.view())
