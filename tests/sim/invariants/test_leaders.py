"""What the oracles of leaders report, and what they accept."""

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.leader.progress import Progress, ReplicaProgress
from pykraft.core.state import Leader
from pykraft.sim.invariants import ViolationError, leaders
from pykraft.sim.invariants.invariant import KeptLeader, View
from pykraft.sim.machine.spoken import Departure, LogEnd, SliceAsked, Spoken
from pykraft.types import Epoch, Listeners, NodeId, Offset, OffsetAndEpoch, ReplicaKey, ReportKind, Voter, VoterSet
from tests.sim.invariants.fakes import BEFORE, entry, node, report, view, voters_of, world

# announced: A leader that does not try to reach a silent voter is found.
BOUND_US = 2_000_000


def leading(ms: int, *, fetched_ms: int | None = None) -> Any:
    """Node 1 leads 2 and 3, of which 3 fetches all the time."""
    voters = {
        node_id: ReplicaProgress(key=node(node_id).key, fetched_mono_ms=heard_ms)
        for node_id, heard_ms in ((1, None), (2, fetched_ms), (3, ms))
    }
    state = object.__new__(Leader)
    state.progress = SimpleNamespace(voters=voters)  # type: ignore[assignment]
    made = node(1, ms=ms, role="leader", raft=SimpleNamespace(state=state))
    made.disk.io_errors = SimpleNamespace(stalled_until_us=0)
    return made


def begun() -> tuple[Any, leaders.SilentVotersAreTold]:
    where = world()
    made = leaders.SilentVotersAreTold(where)
    made.changed(node(1), view(), view("leader"))
    return where, made


def check_silence(where: Any, made: leaders.SilentVotersAreTold, ms: int, **known: Any) -> None:
    where.clock.now_us = ms * 1_000
    made.after_event(leading(ms, **known), view("leader"))


def test_one_that_has_told_a_silent_voter_only_once_is_found() -> None:
    where, made = begun()
    made.dialed(node(1), 2)
    check_silence(where, made, BOUND_US // 1_000)
    with pytest.raises(ViolationError, match="leader 1 of epoch 1 has not tried to reach voter 2 for 2000 ms"):
        check_silence(where, made, BOUND_US // 1_000 + 100)


# check_quorum: A leader that stays leader too long although nobody fetches from it is found.
def leader(ms: int, *fetched_ms: int | None) -> Any:
    """Node 1 at this time, and when voters 2, 3, … fetched from it."""
    keys = [ReplicaKey(NodeId(node_id)) for node_id in range(1, len(fetched_ms) + 2)]
    progress = Progress(VoterSet.of(Voter(key=key, listeners=Listeners()) for key in keys))
    for key, at_ms in zip(keys[1:], fetched_ms, strict=True):
        progress.of(key).fetched_mono_ms = at_ms
    state = Leader.__new__(Leader)
    state.progress = progress
    return node(1, ms=ms, raft=SimpleNamespace(state=state))


def looked(voters: int, at: Any) -> None:
    made = leaders.LeaderWithoutMajorityResigns(world(voters))
    leads = view("leader", voters=voters_of(voters))
    made.changed(node(1, ms=100), BEFORE, leads)
    made.after_event(at, leads)


@pytest.mark.parametrize(("voters", "fetched_ms"), [(3, (1_400, None)), (5, (2_900, 1_400, None, None))])
def test_a_leader_of_a_minority_is_found(voters: int, fetched_ms: tuple[int | None, ...]) -> None:
    with pytest.raises(ViolationError, match="no majority has fetched from it for 1600 ms"):
        looked(voters, leader(3_000, *fetched_ms))


def test_a_voter_that_downloads_a_snapshot_counts_until_it_stops() -> None:
    where = world(3)
    made = leaders.LeaderWithoutMajorityResigns(where)
    leads = view("leader", voters=voters_of(3))
    made.changed(node(1, ms=100), BEFORE, leads)
    asked = SliceAsked(snapshot_id=OffsetAndEpoch(Offset(5), Epoch(1)), position=500)
    for target_id in (1, 9):  # There is no node 9.
        where.nodes = {1: node(1, ms=2_000)}
        made.before_send(node(2), Spoken(epoch=1, sliced=asked, target_id=target_id))
    where.clock.now_us = 3_000_000
    made.after_event(leader(3_000, None, None), leads)
    where.clock.now_us = 3_600_000
    with pytest.raises(ViolationError, match="no majority has fetched from it for 1600 ms"):
        made.after_event(leader(3_600, None, None), leads)


def test_a_voter_that_still_receives_an_answer_counts_as_long_as_enough_of_it_moves() -> None:
    where = world(3)
    made = leaders.LeaderWithoutMajorityResigns(where)
    leads = view("leader", voters=voters_of(3))
    made.changed(node(1, ms=100), BEFORE, leads)
    unsent = {2: 10**6, 3: 0}
    where.network.unsent_between = lambda source, target: unsent[target]
    for ms in range(200, 5_000, 500):
        where.clock.now_us = ms * 1_000
        made.after_event(leader(ms, None, None), leads)
        unsent[2] -= 20_000 if ms < 4_700 else 5
    where.clock.now_us = 9_000_000
    with pytest.raises(ViolationError, match="no majority has fetched"):
        made.after_event(leader(9_000, None, None), leads)


def test_one_that_is_too_early_is_found() -> None:
    for disk in ({"epoch": 3, "leader_id": None}, {"epoch": 2, "leader_id": 1}):
        with pytest.raises(ViolationError, match="node 1 says that it leads epoch 3"):
            leaders.LeaderIsDurableFirst(world(**disk)).before_send(node(1), Spoken(epoch=3, leader_id=1))


@pytest.mark.parametrize("now", [view(epoch=2, leader_id=3), view("down", 0, disk_epoch=2, disk_leader_id=3)])
def test_a_second_leader_of_an_epoch_is_found_also_when_the_first_is_long_gone(now: View) -> None:
    made = leaders.SingleLeader(world())
    for epoch in (1, 2, 3):
        made.changed(node(), BEFORE, view(epoch=epoch, leader_id=1))
    with pytest.raises(ViolationError, match="epoch 2 has leaders 1 and 3"):
        made.changed(node(2), BEFORE, now)


# transfer: A leader that resigns for a voter that lacks records, or with uncommitted records, is found.
RESIGNED = report(ReportKind.RESIGNED_FOR_TARGET, 2, 3)


def resigned(fetched: LogEnd, committed: int) -> None:
    where = world()
    where.ledger(node()).entries += [entry(0), entry(1, epoch=2)]
    made = leaders.TransferLeavesNothing(where)
    made.before_send(node(3), Spoken(epoch=fetched.epoch, fetched=fetched))
    made.before_send(node(3), Spoken(epoch=2))
    leader = node(committed_end_offset=committed)
    made.reported(leader, report())
    made.reported(leader, RESIGNED)


@pytest.mark.parametrize(
    ("fetched", "committed"),
    [(LogEnd(epoch=2, offset=1), 2), (LogEnd(epoch=1, offset=2), 2), (LogEnd(epoch=2, offset=2), 1)],
)
def test_what_is_missing_or_in_doubt_is_found(fetched: LogEnd, committed: int) -> None:
    with pytest.raises(ViolationError, match="leader 1 of epoch 2 resigns for 3 at 2"):
        resigned(fetched, committed)


# transfer_pauses: A leader that pauses for a transfer in vain, or too often, is found.
BEGINS = report(ReportKind.TRANSFER_BEGUN, 2)
FAILS = report(ReportKind.TRANSFER_FAILED, 2)


def transfer_pauses_leader(ms: int, *, fetched_ms: int | None = None, begun_ms: int = 0) -> Any:
    """A leader since ``begun_ms`` that node 2 has fetched from at ``fetched_ms``."""
    state = Leader.__new__(Leader)
    state.progress, state.begun_ms = Progress(voters_of(3)), begun_ms
    state.progress.voters[NodeId(2)].fetched_mono_ms = fetched_ms
    return node(1, ms=ms, raft=SimpleNamespace(state=state))


@pytest.mark.parametrize("at", [transfer_pauses_leader(1_400), transfer_pauses_leader(1_400, fetched_ms=900)])
def test_one_that_has_been_silent_for_long_may_not(at: Any) -> None:
    with pytest.raises(ViolationError, match="leader 1 begins a transfer to node 2, which has been silent for"):
        leaders.TransferPausesAreShort(world()).reported(at, BEGINS)


def test_after_one_that_failed_a_leader_rests() -> None:
    made = leaders.TransferPausesAreShort(world())

    def at(ms: int) -> Any:
        return transfer_pauses_leader(ms, fetched_ms=ms)

    made.reported(at(100), BEGINS)
    made.reported(at(150), report())
    made.reported(at(200), FAILS)
    with pytest.raises(ViolationError, match="1 ms too soon"):
        made.reported(at(1_099), BEGINS)
    made.reported(at(1_100), BEGINS)
    made.reported(at(1_200), FAILS)
    made.started(at(1_300))
    made.reported(at(1_300), FAILS)
    made.reported(at(1_300), BEGINS)


# goodbye: A follower that waits although its leader resigned without successors is found.
def sent_goodbyes(*departures: Departure, is_leaving: bool = False, is_proven: bool = True, **more: Any) -> Any:
    """A node that was sent these goodbyes."""
    made = node(1, is_proven=is_proven, **more)
    made.process.wiretap.departures = list(departures)
    made.process.is_leaving = is_leaving
    return made


def goodbye(*, epoch: int = 1, leader_id: int = 2, has_successors: bool = False) -> Departure:
    return Departure(epoch=epoch, leader_id=leader_id, has_successors=has_successors)


FOLLOWS = view("follower", leader_id=2)


def test_who_waits_for_a_leader_that_left_is_found() -> None:
    with pytest.raises(ViolationError, match="node 1 waits, though 2 leads epoch 1 no more"):
        leaders.GoodbyesAreHeeded(world()).after_event(sent_goodbyes(goodbye()), FOLLOWS)


def test_while_the_leader_is_heard_a_goodbye_proves_nothing_and_counts_when_it_is_heard_no_more() -> None:
    made = leaders.GoodbyesAreHeeded(world())
    made.after_event(sent_goodbyes(goodbye()), view("follower", leader_id=2, has_fetched=True))
    with pytest.raises(ViolationError, match="node 1 waits"):
        made.after_event(sent_goodbyes(goodbye()), FOLLOWS)


def test_each_goodbye_is_looked_at_once_and_a_new_process_was_told_nothing() -> None:
    made = leaders.GoodbyesAreHeeded(world())
    made.after_event(sent_goodbyes(goodbye(has_successors=True)), FOLLOWS)
    made.after_event(sent_goodbyes(goodbye()), FOLLOWS)
    made.after_event(node(), view("down"))
    made.started(node())
    with pytest.raises(ViolationError):
        made.after_event(sent_goodbyes(goodbye()), FOLLOWS)


# stable_leadership: A candidacy that a majority should have denied is found.
LEADER, ASKING, CANDIDATE = view("leader", 1), view("prospective", 1), view("candidate", 2)
HEARING = view("follower", 1, has_fetched=True)


def lived(*changes: tuple[int, View, View], has_pre_votes: bool = True) -> None:
    where = world()
    where.members.has_pre_votes = has_pre_votes
    made = leaders.StableLeadership(where)
    for node_id, was, now in changes:
        made.changed(node(node_id), was, now)


def test_a_candidate_is_found_while_a_majority_hears_the_leader() -> None:
    story = [(1, BEFORE, LEADER), (2, BEFORE, HEARING), (3, BEFORE, ASKING), (3, ASKING, CANDIDATE)]
    with pytest.raises(ViolationError, match=r"while the majority \[1, 2\] heard the leader of epoch 1"):
        lived(*story)
    lived(*story, has_pre_votes=False)


# kept_leader: A candidate that a majority holds against is found, whoever names the majority.


class Held(KeptLeader):
    """Leaders hold on to themselves, and node 2 always denies."""

    _verb = "kept"
    questions: list[tuple[list[int], int, int]]

    def _holds(self, now: View) -> bool:
        return now.leads

    def _deniers(self, holding: Sequence[int], epoch: int, began: int) -> Iterable[int]:
        self.questions = [([*holding], epoch, began)]
        return (*holding, 2)


def kept_leader_lived(*changes: tuple[int, View, View]) -> Held:
    made = Held(world())
    for node_id, was, now in changes:
        made.changed(node(node_id), was, now)
    return made


def test_the_majority_is_named() -> None:
    with pytest.raises(ViolationError, match=r"while the majority \[1, 2\] kept the leader of epoch 1"):
        kept_leader_lived((1, BEFORE, LEADER), (3, BEFORE, ASKING), (3, ASKING, CANDIDATE))
