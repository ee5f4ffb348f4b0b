"""What the oracles of the replicated log report, and what they accept."""

from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.effects import TruncateTo
from pykraft.core.on import fetch_request
from pykraft.core.state import Leader
from pykraft.host.delivery import CommittedBatch
from pykraft.log.lane import AppendBytes
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.protocol.batch import read_header
from pykraft.sim.faults.wipe import BackupFaults
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log import (
    AppendedEpochIsKnown,
    BatchesFitAnswers,
    BriefLeaderHandsOver,
    CommittedAlike,
    CommittedIsNeverCut,
    CommittedStaysKnown,
    CutsAreTold,
    FetchIsDurableFirst,
    ForgottenIsTold,
    LeaderCompleteness,
    LogMatching,
    MajorityHoldsHighWatermark,
    MonotonicHighWatermark,
    OneBatchAStep,
    StrangersAddNothing,
)
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.sim.machine.ledger import Entry, Ledger
from pykraft.sim.machine.spoken import LogEnd, Spoken
from pykraft.sim.run.world import World
from pykraft.types import Io, Offset, ReportKind
from tests.core.replicas import leader, resigned
from tests.sim.invariants.fakes import (
    BEFORE,
    appends,
    batch,
    begins_anew,
    encoded,
    entry,
    node,
    operation,
    report,
    snapshot_id,
    submit,
    truncates,
    view,
    world,
)
from tests.sim.worlds import SEED_OF_THREE, THREE, harm_to, led, run_for, run_until


# append_epoch: A batch of an epoch that its node has not reached is found.
def test_known_epochs_are_accepted_and_a_leader_appends_its_own() -> None:
    made = AppendedEpochIsKnown(world())
    made.submitted(node(role="follower", epoch=3), appends(encoded(0, b"a", epoch=1), encoded(1, b"b", epoch=3)))
    made.submitted(node(role="leader", epoch=3), appends(encoded(0, epoch=3)))
    made.submitted(node(role="leader", epoch=3), truncates(0))


@pytest.mark.parametrize(("role", "epoch"), [("follower", 4), ("leader", 2), ("leader", 4)])
def test_other_epochs_are_found(role: str, epoch: int) -> None:
    with pytest.raises(ViolationError, match=f"{role} in epoch 3, appends at offset 0 a batch of epoch {epoch}"):
        AppendedEpochIsKnown(world()).submitted(node(role=role, epoch=3), appends(encoded(0, b"a", epoch=epoch)))


# batch_size: A batch of several proposals that is larger than a Fetch asks for is found.
LARGE = b"x" * 600_000


def looked(role: str, *bases: int | None, gone: int | None = None) -> None:
    where = world()
    for number, base in enumerate(bases):
        where.history.operations.append(operation(number, b"v", base_offset=base))
    if gone is not None:
        where.history.operations[gone].is_alive = lambda: False
    where.history.operations.append(operation(9, b"v", base_offset=5, epoch=2))
    at: Any = node(1, role=role)
    made = BatchesFitAnswers(where)
    made.submitted(at, appends(encoded(3, b"small"), encoded(4, LARGE, LARGE), encoded(6)))
    made.submitted(at, truncates(3))


def test_one_large_proposal_is_right_and_so_is_a_followers_append() -> None:
    looked("leader", 4, 6, None)
    looked("follower", 4, 5)


def test_what_a_process_accepted_that_is_gone_does_not_count() -> None:
    looked("leader", 4, 5, gone=0)


def test_several_are_one_too_many() -> None:
    with pytest.raises(ViolationError, match="for 2 proposals, and batches are filled up to 1048576"):
        looked("leader", 4, 5)


# brief_leader: A voter that never leads is found when it writes more than LeaderChange, stays, or hands over to the
# wrong voter.
LEADS, RESIGNED = view("leader"), view("resigned")


def made(state: Any, *, never_leads: bool = True, end_offset: int = 10) -> Any:
    raft = SimpleNamespace(state=state, log=SimpleNamespace(end_offset=end_offset))
    found = node(1, role="leader", raft=raft)
    found.config = SimpleNamespace(raft=replace(found.config.raft, never_leads=never_leads))
    found.ledger = SimpleNamespace(end_offset=end_offset)
    return found


def job(data: bytes) -> AppendBytes:
    return AppendBytes(io=Io(1), batches=[(read_header(data), data)])


def with_end(end_offset: int) -> Leader:
    state = leader()
    state.progress.voters[state.progress.voters[min(state.progress.voters)].key.id].end_offset = Offset(10)
    state.progress.voters[max(state.progress.voters)].end_offset = Offset(end_offset)
    return state


def test_it_may_write_its_leader_change_only() -> None:
    oracle = BriefLeaderHandsOver(world())
    oracle.submitted(made(leader()), job(encoded(3)))
    oracle.submitted(made(leader(), never_leads=False), job(encoded(3, b"value")))
    with pytest.raises(ViolationError, match="appends proposals at 3 in epoch 1"):
        oracle.submitted(made(leader()), job(encoded(3, b"value")))


def test_it_goes_when_another_voter_has_its_log() -> None:
    oracle = BriefLeaderHandsOver(world())
    for accepted in (made(with_end(9)), made(with_end(10), never_leads=False), made(resigned())):
        oracle.after_event(accepted, LEADS)
    with pytest.raises(ViolationError, match="leads on in epoch 1"):
        oracle.after_event(made(with_end(10)), LEADS)


def test_it_names_a_voter_with_its_log_first() -> None:
    where = world()
    oracle = BriefLeaderHandsOver(where)
    where.nodes = {3: SimpleNamespace(node_id=3, ledger=SimpleNamespace(end_offset=10))}
    oracle.changed(made(resigned()), LEADS, RESIGNED)
    oracle.reported(made(resigned()), report(ReportKind.HANDED_OVER, 1, 2))
    oracle.changed(made(resigned()), LEADS, RESIGNED)
    oracle.reported(made(resigned()), report(ReportKind.HANDED_OVER, 1, 2))
    with pytest.raises(ViolationError, match="hands 11 records over to node 3, which has 10"):
        oracle.changed(made(resigned(), end_offset=11), LEADS, RESIGNED)
    oracle.reported(made(resigned()), report(ReportKind.HANDED_OVER, 1, 2))
    oracle.changed(made(leader()), LEADS, LEADS)


# committed: Deliveries that differ are found.
def test_the_same_deliveries_everywhere_are_accepted() -> None:
    made = CommittedAlike(world())
    for node_id in (1, 2):
        made.delivered(node(node_id), [batch(0), batch(1, b"a", b"b")])


@pytest.mark.parametrize("other", [batch(0, b"x"), batch(0, b"a", epoch=2), batch(0, b"a", b"b"), batch(0)])
def test_another_batch_at_the_same_offset_is_found(other: CommittedBatch) -> None:
    made = CommittedAlike(world())
    made.delivered(node(1), [batch(0, b"a")])
    with pytest.raises(ViolationError, match="another batch"):
        made.delivered(node(2), [other])


# committed_cut: A truncation of committed records is found.
def cut(offset: int) -> None:
    where = world()
    where.committed = Ledger([entry(0), entry(1)])
    where.ledgers[1] = Ledger([entry(0), entry(1), entry(2), entry(3)])
    made = CommittedIsNeverCut(where)
    made.submitted(node(1, epoch=1), appends(encoded(4, b"a")))
    made.submitted(node(1, epoch=1), truncates(offset))


@pytest.mark.parametrize("offset", [2, 3, 9])
def test_what_is_not_committed_may_be_cut(offset: int) -> None:
    cut(offset)


def test_other_records_at_committed_offsets_may_be_cut() -> None:
    where = world()
    where.committed, where.ledgers[1] = Ledger([entry(0, epoch=2)]), Ledger([entry(0, epoch=1)])
    CommittedIsNeverCut(where).submitted(node(1, epoch=1), truncates(0))


@pytest.mark.parametrize("offset", [0, 1])
def test_what_is_committed_may_not(offset: int) -> None:
    with pytest.raises(
        ViolationError, match=f"cuts its log to {offset}, and with it the committed batch at 1 of epoch 1"
    ):
        cut(offset)


@pytest.mark.parametrize(("is_damaged", "is_rotten"), [(True, True), (True, False), (False, True)])
def test_a_replica_in_quarantine_whose_epochs_have_rotted_fetches_them_again(
    *, is_damaged: bool, is_rotten: bool
) -> None:
    where = world()
    where.committed, where.ledgers[1] = Ledger([entry(0)]), Ledger([entry(0)])
    rotten = node(1, epoch=1, is_damaged=is_damaged, is_rotten=is_rotten)
    if is_damaged and is_rotten:
        CommittedIsNeverCut(where).submitted(rotten, truncates(0))
    else:
        with pytest.raises(ViolationError, match="cuts its log to 0"):
            CommittedIsNeverCut(where).submitted(rotten, truncates(0))


@pytest.mark.parametrize(("epoch", "is_found"), [(3, False), (4, True), (5, True)])
def test_the_leader_of_an_older_epoch_may_not_know_of_a_commit(epoch: int, is_found: bool) -> None:
    where = world()
    where.committed = Ledger([entry(0, epoch=2), entry(1, epoch=2), entry(2, epoch=4)])
    where.ledgers[6] = Ledger([entry(0, epoch=2), entry(1, epoch=2)])
    made = CommittedIsNeverCut(where)
    for leader_epoch, high_watermark in ((2, 1), (4, 3)):
        now = view("leader", leader_epoch, high_watermark=high_watermark)
        made.changed(node(4), BEFORE, now)
    if is_found:
        with pytest.raises(ViolationError, match="cuts its log to 1"):
            made.submitted(node(6, epoch=epoch), truncates(1))
    else:
        made.submitted(node(6, epoch=epoch), truncates(1))
        with pytest.raises(ViolationError, match="cuts its log to 0"):
            made.submitted(node(6, epoch=epoch), truncates(0))


def test_a_snapshot_takes_the_place_of_what_it_holds_and_of_no_more() -> None:
    where = world()
    where.committed, where.ledgers[1] = Ledger([entry(0), entry(1)]), Ledger([entry(0), entry(1), entry(2)])
    made = CommittedIsNeverCut(where)
    made.submitted(node(1, epoch=1), begins_anew(2))
    with pytest.raises(ViolationError, match="cuts its log to 1"):
        made.submitted(node(1, epoch=1), begins_anew(1))


# committed_known: A node that forgets at a start what it knew to be committed is found.
HOME = Path("/home")


@pytest.mark.parametrize(("known", "end", "after"), [(8, 10, 8), (8, 10, 9), (8, 6, 6), (None, 10, 0)])
def test_what_was_committed_is_known_after_a_start_as_far_as_the_log_goes(
    known: int | None, end: int, after: int
) -> None:
    restarted(known, end, after)


def test_what_is_forgotten_is_found() -> None:
    with pytest.raises(ViolationError, match="everything below 8 is committed, and after its start below 7"):
        restarted(8, 10, 7)


def restarted(known: int | None, end: int, after: int) -> None:
    """A node whose file calls ``known`` committed starts; its log ends at ``end``, and it calls ``after`` committed."""
    disk = VirtualDisk(Random(1))
    disk.mkdir(HOME)
    if known is not None:
        point = RecoveryPoint.create(disk, HOME, Offset(10))
        point.raise_to(Offset(10), Offset(known))
    found = node(1, committed_end_offset=Offset(after), log_end_offset=Offset(end))
    found.config.partition_directory, found.disk = HOME, disk
    made = CommittedStaysKnown(world())
    made.starting(found)
    made.after_event(found, view())


# cuts_told: A truncation without a report of both offsets is noticed; one of a damaged log is not judged.
CUT = TruncateTo(io=Io(1), end_offset=Offset(4))


def cuts_told_made() -> CutsAreTold:
    facts: Any = world()
    facts.ledger = lambda node: SimpleNamespace(end_offset=9)
    return CutsAreTold(facts)


def test_a_cut_in_silence_is_noticed() -> None:
    oracle = cuts_told_made()
    oracle.submitted(node(), SimpleNamespace())  # type: ignore[arg-type]
    oracle.reported(node(), report(ReportKind.TRUNCATION, 9, 5))
    with pytest.raises(ViolationError, match="node 1 cuts its log from 9 to 4; it last said: some words"):
        oracle.submitted(node(), CUT)


def test_a_cut_that_is_told_or_of_a_damaged_log_passes() -> None:
    oracle = cuts_told_made()
    oracle.submitted(node(is_damaged=True), CUT)
    oracle.reported(node(), report(ReportKind.TRUNCATION, 9, 4))
    oracle.submitted(node(), CUT)


# fetch_durable: A Fetch that acknowledges more or less than the platter holds is found.
def fetch_durable_made(durable: int) -> FetchIsDurableFirst:
    where = world()
    where.held[1] = [entry(offset) for offset in range(durable)]
    return FetchIsDurableFirst(where)


def fetch(offset: int, *, epoch: int = 1, target_id: int = 2) -> Spoken:
    return Spoken(epoch=1, fetched=LogEnd(epoch=epoch, offset=offset), target_id=target_id)


def test_what_the_platter_holds_may_be_told() -> None:
    fetch_durable_made(5).before_send(node(leader_id=2), fetch(5))
    fetch_durable_made(0).before_send(node(leader_id=2), fetch(0, epoch=0))
    fetch_durable_made(5).before_send(node(leader_id=2), Spoken(epoch=1))


def test_a_question_to_somebody_else_or_of_a_damaged_node_acknowledges_nothing() -> None:
    fetch_durable_made(5).before_send(node(leader_id=2), fetch(9, target_id=3))
    fetch_durable_made(5).before_send(node(leader_id=2, is_damaged=True), fetch(4))


def test_a_snapshot_that_the_node_has_not_heard_of_may_hold_more() -> None:
    oracle = fetch_durable_made(7)
    oracle.facts.news.add(1)  # type: ignore[attr-defined]
    oracle.before_send(node(leader_id=2), fetch(5))


@pytest.mark.parametrize(("offset", "epoch"), [(6, 1), (4, 1), (5, 2)])
def test_anything_else_is_found(offset: int, epoch: int) -> None:
    with pytest.raises(
        ViolationError, match=f"at {offset} after epoch {epoch}, its disk holds a log up to 5 of epoch 1"
    ):
        fetch_durable_made(5).before_send(node(leader_id=2), fetch(offset, epoch=epoch))


# foreign_records: A stranger's batch in a log is found.
def test_what_only_a_stranger_wrote_is_found() -> None:
    where = world()
    made, batch = StrangersAddNothing(where), encoded(4, b"a")
    made.submitted(node(1), appends(batch))
    job = appends(batch)
    where.claims.batches.add((4, job.batches[0][0].crc))
    made.submitted(node(1), truncates(3))
    made.submitted(node(1), appends(encoded(4, b"b")))
    with pytest.raises(ViolationError, match="node 1 appends the batch of a stranger at 4"):
        made.submitted(node(1), job)


# forgotten_told: In a real world with an older directory, a leader that says nothing is noticed, and one that says so
# is not.
def with_older_directory() -> World:
    """A follower has just lost most of what it acknowledged; only this oracle watches."""
    world, leader = led(World(SEED_OF_THREE, scenario=THREE, oracles=(ForgottenIsTold,)))
    world.users.begin()
    faults = BackupFaults(harm_to(world))
    faults.use_dice(Random(1))
    run_until(world, faults.kinds["older directory"])
    goal = world.users.acknowledged + 200
    run_until(world, lambda: world.users.acknowledged > goal)
    follower = next(node for node in world.facts.voters() if node.node_id != leader.node_id)
    run_until(world, lambda: int(follower.node_id) in faults._copies and faults._put_back(follower))
    return world


def test_a_leader_that_says_so_passes() -> None:
    run_for(with_older_directory(), 3_000_000)


@pytest.mark.interpreted
def test_a_silent_leader_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_older_directory()
    monkeypatch.setattr(fetch_request, "_watch_voter", lambda replica, leader, voter, fetch_offset: None)
    with pytest.raises(ViolationError, match=r"and has acknowledged \d+; node \d, the leader of epoch \d+, is silent"):
        run_for(world, 3_000_000)


# high_watermark: A high watermark of the newest leader that decreases is found.
def test_a_high_watermark_that_rises_or_stays_is_accepted() -> None:
    made = MonotonicHighWatermark(world())
    for epoch, high_watermark in ((1, 5), (1, 5), (1, 7), (2, None), (2, 7), (3, 9)):
        made.changed(node(), BEFORE, view("leader", epoch, high_watermark=high_watermark))


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_high_watermark_that_falls_is_found(epoch: int) -> None:
    made = MonotonicHighWatermark(world())
    made.changed(node(), BEFORE, view("leader", 1, high_watermark=5))
    with pytest.raises(ViolationError, match="is at 4, but 5 was reached before"):
        made.changed(node(2), BEFORE, view("leader", epoch, high_watermark=4))


def test_an_old_leader_and_followers_do_not_count() -> None:
    made = MonotonicHighWatermark(world())
    made.changed(node(), BEFORE, view("leader", 2, high_watermark=5))
    made.changed(node(2), BEFORE, view("leader", 1, high_watermark=4))
    made.changed(node(3), BEFORE, view("follower", 2, high_watermark=3))


# leader_completeness: A leader without a committed record is found, even if the commit becomes known later.
COMMITTED = [entry(0), entry(1)]


@pytest.mark.parametrize("log", [COMMITTED, [*COMMITTED, entry(2, epoch=2)]])
def test_a_leader_with_all_that_is_committed_is_accepted(log: list[Entry]) -> None:
    where = world()
    LeaderCompleteness(where).changed(node(2), BEFORE, view("leader", 1))
    where.committed, where.ledgers[2] = Ledger(COMMITTED), Ledger(log)
    LeaderCompleteness(where).changed(node(2), BEFORE, view("leader", 2))
    LeaderCompleteness(where).changed(node(3), BEFORE, view("follower", 2))


@pytest.mark.parametrize("log", [[], COMMITTED[:1], [entry(0), entry(1, crc=9)]])
def test_a_new_leader_without_a_committed_record_is_found(log: list[Entry]) -> None:
    where = world()
    where.committed, where.ledgers[2] = Ledger(COMMITTED), Ledger(log)
    with pytest.raises(ViolationError, match="leader 2 of epoch 2 does not hold what is committed up to 2 in epoch 1"):
        LeaderCompleteness(where).changed(node(2), BEFORE, view("leader", 2))


def test_it_is_found_when_an_older_leader_learns_of_the_commit_later() -> None:
    where = world()
    made = LeaderCompleteness(where)
    newest = node(2, role="leader", epoch=2)
    made.changed(newest, BEFORE, view("leader", 2))
    where.committed = Ledger(COMMITTED)
    was = view("leader", 1)
    with pytest.raises(ViolationError, match="leader 2 of epoch 2"):
        made.changed(node(1), was, view("leader", 1, high_watermark=2))
    newest.status = newest.status._replace(role="resigned")
    made.changed(node(1), was, view("leader", 1, high_watermark=2))


@pytest.mark.parametrize("offset", [2, 5])
def test_a_snapshot_before_the_log_holds_it_too(offset: int) -> None:
    where = world()
    where.committed, where.ledgers[2] = Ledger(COMMITTED), Ledger(begin=snapshot_id(offset))
    LeaderCompleteness(where).changed(node(2), BEFORE, view("leader", 2))


# log_matching: Two batches with one offset and epoch are found, and one batch after two different logs.
def test_the_same_logs_are_accepted_however_they_are_cut_into_jobs() -> None:
    where = world()
    made = LogMatching(where)
    submit(made, where, node(1), appends(encoded(0, b"a"), encoded(1, b"b"), encoded(2, b"c", epoch=2)))
    submit(made, where, node(2), appends(encoded(0, b"a")), truncates(9))
    submit(made, where, node(2), appends(encoded(1, b"b"), encoded(2, b"c", epoch=2)))


def test_what_only_its_author_had_may_come_anew() -> None:
    where = world()
    made = LogMatching(where)
    submit(made, where, node(1), appends(encoded(0, b"a")), truncates(0), appends(encoded(0, b"b")))
    submit(made, where, node(2), appends(encoded(0, b"b")))


@pytest.mark.parametrize("node_id", [1, 3])
def test_another_batch_of_the_same_offset_and_epoch_is_found(node_id: int) -> None:
    where = world()
    made = LogMatching(where)
    for at in (1, 2):
        submit(made, where, node(at), appends(encoded(0, b"a")))
    submit(made, where, node(1), truncates(0))
    with pytest.raises(ViolationError, match=f"node {node_id} appends another batch .* at offset 0 of epoch 1"):
        made.submitted(node(node_id), appends(encoded(0, b"x")))


def test_the_same_batch_after_another_log_is_found() -> None:
    where = world()
    made = LogMatching(where)
    submit(made, where, node(1), appends(encoded(0, b"a"), encoded(1, b"b", epoch=2)))
    submit(made, where, node(2), appends(encoded(0, b"a", epoch=2)))
    with pytest.raises(ViolationError, match="to another log than was seen before"):
        made.submitted(node(2), appends(encoded(1, b"b", epoch=2)))


def test_a_log_that_begins_at_a_snapshot_goes_on_where_that_ends() -> None:
    where = world()
    made = LogMatching(where)
    submit(made, where, node(1), appends(encoded(0, b"a"), encoded(1, b"b", epoch=2)))
    where.committed = Ledger(where.ledger(node(1)).entries)
    where.ledgers[2] = Ledger(begin=snapshot_id(1))
    made.submitted(node(2), appends(encoded(1, b"b", epoch=2)))


# majority: A high watermark without a majority that holds those records on disk is found.
LOG = [entry(0), entry(1), entry(2)]


def committed(platters: dict[int, list[Entry]], *wiped: int, told: Spoken | None = None) -> None:
    where = world()
    where.ledgers[1], where.held = Ledger(LOG), platters
    made = MajorityHoldsHighWatermark(where)
    for node_id in wiped:
        made.wiped(node(node_id))
        if told is not None:
            made.before_send(node(node_id), told)
        made.wiped(node(node_id))
    made.changed(node(2), BEFORE, view("follower", high_watermark=9))
    made.changed(node(1), BEFORE, view("leader", high_watermark=2))
    made.changed(node(1), BEFORE, view("leader", high_watermark=2))


@pytest.mark.parametrize("platters", [{2: LOG, 3: LOG[:2]}, {1: LOG, 2: LOG[:2]}, {1: LOG, 2: LOG, 3: LOG}])
def test_what_a_majority_has_on_disk_may_be_committed(platters: dict[int, list[Entry]]) -> None:
    committed(platters)


@pytest.mark.parametrize("platters", [{1: LOG}, {1: LOG, 2: LOG[:1]}, {1: LOG, 2: [entry(0), entry(1, crc=7)]}])
def test_what_only_a_minority_has_on_disk_is_found(platters: dict[int, list[Entry]]) -> None:
    with pytest.raises(ViolationError, match=r"calls 2 committed, of the voters \[1, 2, 3\] only \[1\] have"):
        committed(platters)


def test_the_word_of_a_voter_whose_disk_was_wiped_may_still_be_counted() -> None:
    committed({1: LOG}, 3, told=Spoken(epoch=1, fetched=LogEnd(epoch=1, offset=2)))


@pytest.mark.parametrize(
    "told",
    [
        None,
        Spoken(epoch=1),
        Spoken(epoch=1, fetched=LogEnd(epoch=1, offset=1)),
        Spoken(epoch=0, fetched=LogEnd(epoch=0, offset=2)),
    ],
)
def test_what_it_had_not_told_is_not_counted(told: Spoken | None) -> None:
    with pytest.raises(ViolationError, match=r"only \[1\] have"):
        committed({1: LOG}, 3, told=told)


@pytest.mark.parametrize(("is_damaged", "offset"), [(True, 2), (True, 1), (False, 2)])
def test_the_word_of_a_voter_that_has_found_damage_since_is_counted(offset: int, *, is_damaged: bool) -> None:
    where = world()
    where.ledgers[1], where.held = Ledger(LOG), {1: LOG}
    where.members.nodes_of = lambda _: [node(1), node(2), node(3, is_damaged=is_damaged)]
    made = MajorityHoldsHighWatermark(where)
    made.before_send(node(3), Spoken(epoch=1, fetched=LogEnd(epoch=1, offset=offset)))
    if is_damaged and offset == 2:
        made.changed(node(1), BEFORE, view("leader", high_watermark=2))
        return
    with pytest.raises(ViolationError, match=r"only \[1\] have"):
        made.changed(node(1), BEFORE, view("leader", high_watermark=2))


# one_batch: A backlog that is appended at once is found.
def test_one_batch_is_enough_and_two_before_a_voter_set() -> None:
    made, leader = OneBatchAStep(world()), node(1, role="leader")
    made.submitted(leader, appends(encoded(3, b"a")))
    made.submitted(leader, appends(encoded(4, b"a"), encoded(5, b"b"), encoded(6)))
    made.submitted(leader, truncates(3))
    made.submitted(node(2, role="follower"), appends(encoded(3, b"a"), encoded(4, b"b")))


@pytest.mark.parametrize("count", [2, 3])
def test_more_is_found(count: int) -> None:
    made, leader = OneBatchAStep(world()), node(1, role="leader")
    batches = [encoded(offset, b"a") for offset in range(count)]
    control = [encoded(count)] if count > 2 else []
    with pytest.raises(ViolationError, match=f"appends {count} batches of proposals in one step"):
        made.submitted(leader, appends(*batches, *control))
