"""What the oracles of leaders report, and what they accept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.leader.progress import Progress, ReplicaProgress
from pykraft.core.state import Leader
from pykraft.sim.facts.view import View
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.invariant import KeptLeader
from pykraft.sim.invariants.leaders import (
    GoodbyesAreHeeded,
    LeaderIsDurableFirst,
    LeaderWithoutMajorityResigns,
    SilentVotersAreTold,
    SingleLeader,
    StableLeadership,
    TransferLeavesNothing,
    TransferPausesAreShort,
)
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


def begun() -> tuple[Any, SilentVotersAreTold]:
    where = world()
    made = SilentVotersAreTold(where)
    made.changed(node(1), view(), view("leader"))
    return where, made


def check_silence(where: Any, made: SilentVotersAreTold, ms: int, **known: Any) -> None:
    where.clock.now_us = ms * 1_000
    made.after_event(leading(ms, **known), view("leader"))


def test_a_leader_that_dials_or_asks_again_is_accepted_and_one_that_is_heard() -> None:
    where, made = begun()
    check_silence(where, made, 1_000)
    made.dialed(node(1), 2)
    check_silence(where, made, 2_500)
    where.clock.now_us = 2_500_000
    made.before_send(node(1), Spoken(epoch=1, target_id=2))
    made.before_send(node(1), Spoken(epoch=1))
    check_silence(where, made, 4_400)
    check_silence(where, made, 6_000, fetched_ms=5_000)


def test_nobody_else_has_to() -> None:
    where, made = begun()
    where.clock.now_us = 9_000_000
    made.after_event(leading(9_000), view("follower"))


def test_one_that_was_paused_or_waits_for_its_disk_has_time() -> None:
    where, made = begun()
    where.clock.now_us = 9_000_000
    stalled = leading(9_000)
    stalled.disk.io_errors.stalled_until_us = 8_000_000
    made.after_event(stalled, view("leader"))


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
    made = LeaderWithoutMajorityResigns(world(voters))
    leads = view("leader", voters=voters_of(voters))
    made.changed(node(1, ms=100), BEFORE, leads)
    made.after_event(at, leads)


@pytest.mark.parametrize("fetched_ms", [(1_500, None), (1_500, 2_900), (None, 1_500)])
def test_a_leader_of_a_majority_is_accepted(fetched_ms: tuple[int | None, ...]) -> None:
    looked(3, leader(3_000, *fetched_ms))


def test_the_time_of_a_new_leader_counts_from_its_election_and_an_only_voter_leads_for_ever() -> None:
    looked(3, leader(1_600, None, None))
    looked(1, leader(99_000))
    LeaderWithoutMajorityResigns(world()).after_event(node(), view("follower"))


@pytest.mark.parametrize(("voters", "fetched_ms"), [(3, (1_400, None)), (5, (2_900, 1_400, None, None))])
def test_a_leader_of_a_minority_is_found(voters: int, fetched_ms: tuple[int | None, ...]) -> None:
    with pytest.raises(ViolationError, match="no majority has fetched from it for 1600 ms"):
        looked(voters, leader(3_000, *fetched_ms))


def test_a_voter_that_downloads_a_snapshot_counts_until_it_stops() -> None:
    where = world(3)
    made = LeaderWithoutMajorityResigns(where)
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
    made = LeaderWithoutMajorityResigns(where)
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


# named_leader: A leader that names itself too early is found.
def test_a_leader_names_itself_when_its_disk_knows() -> None:
    made = LeaderIsDurableFirst(world(epoch=3, leader_id=1))
    made.before_send(node(1), Spoken(epoch=3, leader_id=1))
    made.before_send(node(2), Spoken(epoch=3, leader_id=1))
    made.before_send(node(2), Spoken(epoch=3))
    LeaderIsDurableFirst(world(epoch=4, leader_id=None)).before_send(node(1), Spoken(epoch=3, leader_id=1))


def test_one_that_is_too_early_is_found() -> None:
    for disk in ({"epoch": 3, "leader_id": None}, {"epoch": 2, "leader_id": 1}):
        with pytest.raises(ViolationError, match="node 1 says that it leads epoch 3"):
            LeaderIsDurableFirst(world(**disk)).before_send(node(1), Spoken(epoch=3, leader_id=1))


# single_leader: Two leaders of one epoch are found, in memory or on disk, whichever node names them.
def test_one_leader_for_each_epoch_is_accepted() -> None:
    made = SingleLeader(world())
    for epoch, leader_id in ((1, 2), (1, 2), (2, None), (2, 1), (1, 2)):
        made.changed(node(), BEFORE, view(epoch=epoch, leader_id=leader_id))
    made.changed(node(4), BEFORE, BEFORE)


@pytest.mark.parametrize("now", [view(epoch=2, leader_id=3), view("down", 0, disk_epoch=2, disk_leader_id=3)])
def test_a_second_leader_of_an_epoch_is_found_also_when_the_first_is_long_gone(now: View) -> None:
    made = SingleLeader(world())
    for epoch in (1, 2, 3):
        made.changed(node(), BEFORE, view(epoch=epoch, leader_id=1))
    with pytest.raises(ViolationError, match="epoch 2 has leaders 1 and 3"):
        made.changed(node(2), BEFORE, now)


def test_a_leader_that_only_a_flipped_bit_named_is_none() -> None:
    made = SingleLeader(world())
    made.facts.claims.misnamed.add((2, 3))
    for leader_id in (3, 1, 3):
        made.changed(node(), BEFORE, view(epoch=2, leader_id=leader_id))


# transfer: A leader that resigns for a voter that lacks records, or with uncommitted records, is found.
RESIGNED = report(ReportKind.RESIGNED_FOR_TARGET, 2, 3)


def resigned(fetched: LogEnd, committed: int) -> None:
    where = world()
    where.ledger(node()).entries += [entry(0), entry(1, epoch=2)]
    made = TransferLeavesNothing(where)
    made.before_send(node(3), Spoken(epoch=fetched.epoch, fetched=fetched))
    made.before_send(node(3), Spoken(epoch=2))
    leader = node(committed_end_offset=committed)
    made.reported(leader, report())
    made.reported(leader, RESIGNED)


def test_the_target_has_everything_and_all_is_committed() -> None:
    resigned(LogEnd(epoch=2, offset=2), 2)


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


@pytest.mark.parametrize(
    "at",
    [
        transfer_pauses_leader(499),
        transfer_pauses_leader(1_400, fetched_ms=901),
        transfer_pauses_leader(1_400, begun_ms=901),
        node(1, raft=None),
    ],
)
def test_a_target_that_was_heard_or_could_not_be_may_be_waited_for(at: Any) -> None:
    TransferPausesAreShort(world()).reported(at, BEGINS)


@pytest.mark.parametrize("at", [transfer_pauses_leader(1_400), transfer_pauses_leader(1_400, fetched_ms=900)])
def test_one_that_has_been_silent_for_long_may_not(at: Any) -> None:
    with pytest.raises(ViolationError, match="leader 1 begins a transfer to node 2, which has been silent for"):
        TransferPausesAreShort(world()).reported(at, BEGINS)


def test_after_one_that_failed_a_leader_rests() -> None:
    made = TransferPausesAreShort(world())

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
        GoodbyesAreHeeded(world()).after_event(sent_goodbyes(goodbye()), FOLLOWS)


@pytest.mark.parametrize(
    "departure", [goodbye(epoch=0), goodbye(leader_id=3), goodbye(has_successors=True), goodbye(leader_id=9)]
)
def test_a_goodbye_of_others_or_one_with_successors_is_no_reason(departure: Departure) -> None:
    follows = view("follower", leader_id=9 if departure.leader_id == 9 else 2)
    GoodbyesAreHeeded(world()).after_event(sent_goodbyes(departure), follows)


def test_who_campaigns_or_may_not_is_in_order() -> None:
    made = GoodbyesAreHeeded(world())
    made.after_event(sent_goodbyes(goodbye()), view("prospective"))
    for excused in (
        sent_goodbyes(goodbye(), is_leaving=True),
        sent_goodbyes(goodbye(), is_proven=False),
        sent_goodbyes(goodbye(), is_damaged=True),
    ):
        GoodbyesAreHeeded(world()).after_event(excused, FOLLOWS)


def test_a_voter_that_never_leads_has_to_grant_pre_votes_only() -> None:
    made = sent_goodbyes(goodbye())
    made.config.raft = replace(made.config.raft, never_leads=True)
    GoodbyesAreHeeded(world()).after_event(made, FOLLOWS)


def test_while_the_leader_is_heard_a_goodbye_proves_nothing_and_counts_when_it_is_heard_no_more() -> None:
    made = GoodbyesAreHeeded(world())
    made.after_event(sent_goodbyes(goodbye()), view("follower", leader_id=2, has_fetched=True))
    with pytest.raises(ViolationError, match="node 1 waits"):
        made.after_event(sent_goodbyes(goodbye()), FOLLOWS)


def test_each_goodbye_is_looked_at_once_and_a_new_process_was_told_nothing() -> None:
    made = GoodbyesAreHeeded(world())
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
    made = StableLeadership(where)
    for node_id, was, now in changes:
        made.changed(node(node_id), was, now)


def test_a_candidate_is_found_while_a_majority_hears_the_leader() -> None:
    story = [(1, BEFORE, LEADER), (2, BEFORE, HEARING), (3, BEFORE, ASKING), (3, ASKING, CANDIDATE)]
    with pytest.raises(ViolationError, match=r"while the majority \[1, 2\] heard the leader of epoch 1"):
        lived(*story)
    lived(*story, has_pre_votes=False)


@pytest.mark.parametrize(
    "story",
    [
        [(1, BEFORE, LEADER), (3, BEFORE, ASKING), (3, ASKING, CANDIDATE)],
        [(1, BEFORE, LEADER), (4, BEFORE, HEARING), (3, BEFORE, ASKING), (3, ASKING, CANDIDATE)],
        [(1, BEFORE, LEADER), (3, BEFORE, ASKING), (2, BEFORE, HEARING), (3, ASKING, CANDIDATE)],
        [
            (1, BEFORE, LEADER),
            (2, BEFORE, HEARING),
            (2, HEARING, BEFORE),
            (3, BEFORE, ASKING),
            (3, ASKING, CANDIDATE),
        ],
    ],
)
def test_without_a_majority_that_hears_all_the_time_a_candidate_is_right(story: list[tuple[int, View, View]]) -> None:
    lived(*story)


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
        kept_leader_lived(
            (1, BEFORE, LEADER),
            (3, BEFORE, ASKING),
            (3, ASKING, CANDIDATE),
        )


def test_a_leader_counts_only_if_it_led_before_the_question_and_leads_still() -> None:
    late = kept_leader_lived((3, BEFORE, ASKING), (1, BEFORE, LEADER), (3, ASKING, CANDIDATE))
    gone = kept_leader_lived(
        (1, BEFORE, LEADER),
        (1, LEADER, BEFORE),
        (3, BEFORE, ASKING),
        (3, ASKING, CANDIDATE),
    )
    assert late.questions == [([], 1, 1)]
    assert gone.questions == [([], 1, 3)]
