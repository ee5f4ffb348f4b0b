"""Damage in a replica's own log: what it gives up in each state, and when it leaves quarantine.

It follows 2 in epoch 5 unless a test says otherwise; its log ends at 10 in epoch 3, which began at 6.

Source: ours; Raft paper §5.4.3 (Leader Completeness), §5.4.1 (votes).
"""

from dataclasses import replace

import pytest

from pykraft.core.effects import AppendFetched, EnterQuarantine, InstallSnapshot, LeaveQuarantine, Report, TruncateTo
from pykraft.core.events import CorruptionFound
from pykraft.core.log_view import LogView
from pykraft.core.on.corruption import on_corruption_found
from pykraft.core.quarantine import Quarantine
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Resigned, State, Unattached
from pykraft.types import Epoch, Io, Offset, OffsetAndEpoch
from tests.core import replicas
from tests.core.said import batch, damage, fetched, vote


def quarantine(*, epoch: int = 5, until: int | None = None, is_cut: bool = True) -> Quarantine:
    return Quarantine(
        epoch=Epoch(epoch), until_offset=None if until is None else Offset(until), damages=(damage(6),), is_cut=is_cut
    )


def following(found: Quarantine, *, last_epoch: int = 5) -> Replica:
    """In quarantine; the last record of its log, at 9, is of this epoch."""
    made = replicas.replica(replicas.follower())
    made.log.lose_from(Offset(9))
    made.log.append(base_offset=Offset(9), end_offset=Offset(10), epoch=Epoch(last_epoch))
    made.log.submit(Io(1))
    made.log.persist(Io(1))
    made.log.quarantine = found
    return made


@pytest.mark.parametrize("make", replicas.STATES.values(), ids=replicas.STATES.keys())
def test_in_every_state_the_log_ends_before_the_damage_and_nobody_leads_or_campaigns(make: object) -> None:
    assert callable(make)
    made = replicas.replica(make())
    made.log.commit_to(Offset(8))
    on_corruption_found(made, CorruptionFound(damage=damage(7)), replicas.NOW)
    found = replicas.done(made)
    entered = replicas.only(found, EnterQuarantine)
    assert (entered.end_offset, entered.quarantine) == (7, made.log.quarantine)
    assert made.log.quarantine == Quarantine(
        epoch=Epoch(5), until_offset=Offset(10), damages=(damage(7),), is_cut=False
    )
    assert (made.log.end_offset, made.log.flushed_end_offset, made.log.committed_end_offset) == (7, 7, 7)
    assert isinstance(made.state, Unattached | Follower | Resigned)
    assert (made.epoch, made.may_campaign) == (5, False)
    assert any(
        "log at position 700: expected CRC 1, found CRC 2" in one.text for one in found if isinstance(one, Report)
    )
    assert "TruncateTo" not in replicas.kinds(found)


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (replicas.candidate(), Unattached),
        (replicas.prospective(), Unattached),
        (replicas.prospective(leader_id=2), Follower),
        (replicas.leader(), Resigned),
        (replicas.resigned(), Resigned),
        (replicas.follower(), Follower),
    ],
)
def test_who_led_resigns_and_who_campaigned_waits(state: State, after: type[State]) -> None:
    made = replicas.replica(state)
    voted = made.voted
    on_corruption_found(made, CorruptionFound(damage=damage(7)), replicas.NOW)
    assert type(made.state) is after
    assert made.voted == voted


def test_the_high_watermark_falls_with_the_log_and_answers_under_way_do_not_count() -> None:
    made = replicas.replica(replace(replicas.follower(), high_watermark=Offset(9)))
    correlation_id = made.connections.sent(2, replicas.NOW.mono_ms)
    on_corruption_found(made, CorruptionFound(damage=damage(7)), replicas.NOW)
    assert made.high_watermark == 7
    assert not made.connections.received(2, correlation_id)


def test_what_was_cut_off_before_it_was_found_concerns_nobody() -> None:
    made = replicas.replica(replicas.follower())
    on_corruption_found(made, CorruptionFound(damage=damage(10)), replicas.NOW)
    assert replicas.done(made) == []
    assert made.log.quarantine is None


@pytest.mark.parametrize(("until", "expected"), [(None, None), (3, 10), (20, 20)])
def test_a_second_place_keeps_what_is_known_of_the_first(until: int | None, expected: int | None) -> None:
    made = following(quarantine(epoch=4, until=until))
    on_corruption_found(made, CorruptionFound(damage=damage(7)), replicas.NOW)
    found = made.log.quarantine
    assert found is not None
    assert (found.epoch, found.until_offset, found.is_cut) == (5, expected, False)
    assert found.damages == (damage(6), damage(7))


@pytest.mark.parametrize("pre_vote", [False, True])
def test_nobody_gets_a_vote_of_a_replica_in_quarantine(*, pre_vote: bool) -> None:
    made = replicas.replica()
    made.log.quarantine = quarantine()
    found = replicas.ask(made, vote(candidate=3, epoch=5, pre_vote=pre_vote, end=(99, 4)))
    assert "vote_granted=False" in str(found)
    assert made.voted is None


def test_nor_does_the_one_it_voted_for_before() -> None:
    made = replicas.replica(replicas.STATES["unattached-voted"]())
    made.log.quarantine = quarantine()
    assert "vote_granted=False" in str(replicas.ask(made, vote(candidate=3, epoch=5, end=(99, 4))))


@pytest.mark.parametrize(
    ("found", "last_epoch", "leaves"),
    [
        (quarantine(), 5, True),
        (quarantine(), 4, False),
        (quarantine(epoch=4), 4, False),
        (quarantine(until=99), 5, True),
    ],
)
def test_who_has_all_of_the_present_leader_is_out_of_quarantine(
    found: Quarantine, last_epoch: int, *, leaves: bool
) -> None:
    made = following(found, last_epoch=last_epoch)
    told = replicas.answer(made, fetched(high_watermark=8))
    assert (made.log.quarantine is None) == leaves
    assert ("LeaveQuarantine" in replicas.kinds(told)) == leaves


@pytest.mark.parametrize(
    ("found", "leaves"),
    [(quarantine(), False), (quarantine(epoch=4), True), (quarantine(until=10), True), (quarantine(until=11), False)],
)
def test_while_more_comes_only_a_new_epoch_or_the_former_end_lets_it_out(found: Quarantine, *, leaves: bool) -> None:
    made = following(found)
    told = replicas.answer(made, fetched(batch(10, 12, 5), high_watermark=8))
    assert (made.log.quarantine is None) == leaves
    assert replicas.only(told, AppendFetched).end_offset == 12


def test_bytes_that_are_no_batches_are_not_nothing() -> None:
    made = following(quarantine())
    replicas.answer(made, fetched(invalid="no batch"))
    assert made.log.quarantine is not None


def test_what_is_not_flushed_does_not_count() -> None:
    made = following(quarantine())
    made.log.append(base_offset=Offset(10), end_offset=Offset(11), epoch=Epoch(5))
    made.log.submit(Io(2))
    replicas.answer(made, fetched(high_watermark=8))
    assert made.log.quarantine is not None


def test_the_files_are_cut_when_the_leader_has_what_follows() -> None:
    made = following(quarantine(is_cut=False))
    found = replicas.answer(made, fetched(batch(10, 12, 5)))
    assert replicas.kinds(found)[:2] == ["TruncateTo", "AppendFetched"]
    assert replicas.only(found, TruncateTo).end_offset == 10
    assert made.log.quarantine == quarantine()
    assert replicas.kinds(replicas.answer(made, fetched(batch(12, 13, 5)))) == ["AppendFetched"]


def test_of_files_that_end_before_the_snapshot_nothing_is_left() -> None:
    """Campaign seed 14040: the log began at 93, a snapshot ended at 94, and the batch at 93 was unreadable."""
    made = replicas.replica(replicas.follower())
    end = OffsetAndEpoch(Offset(94), Epoch(3))
    made.log = LogView(
        start_offset=end.offset, end_offset=end.offset, snapshots=[end], quarantine=quarantine(is_cut=False)
    )
    found = replicas.answer(made, fetched(batch(94, 96, 3)))
    assert replicas.kinds(found)[:2] == ["InstallSnapshot", "AppendFetched"]
    assert replicas.only(found, InstallSnapshot).snapshot_id == end
    assert made.log.quarantine == quarantine()
    assert (made.log.start_offset, made.log.end_offset) == (94, 96)


def test_they_are_cut_before_the_quarantine_ends() -> None:
    made = following(quarantine(is_cut=False))
    found = replicas.answer(made, fetched(high_watermark=8))
    assert [kind for kind in replicas.kinds(found) if kind != "NotifyHighWatermark"] == [
        "TruncateTo",
        "Report",
        "LeaveQuarantine",
    ]
    assert replicas.only(found, TruncateTo).io < replicas.only(found, LeaveQuarantine).io


def test_a_log_in_quarantine_is_cut_back_below_what_it_knew_to_be_committed() -> None:
    made = following(quarantine())
    made.log.commit_to(Offset(10))
    found = replicas.answer(made, fetched(diverging=(7, 3)))
    assert replicas.only(found, TruncateTo).end_offset == 7
    assert not made.has_given_up_leader
    assert (made.log.end_offset, made.high_watermark, made.log.committed_end_offset) == (7, 4, 7)


def test_an_epoch_that_the_leader_has_only_later_is_damaged_too() -> None:
    """Campaign seed 15312: the batch before the one that was found had a bit flipped in its epoch, 3 to 7."""
    made = following(quarantine())
    found = replicas.answer(made, fetched(batch(10, 12, 3), high_watermark=10))
    assert replicas.kinds(found)[0] == "TruncateTo"
    assert replicas.only(found, TruncateTo).end_offset == 9
    assert (made.log.end, made.log.quarantine) == (OffsetAndEpoch(Offset(9), Epoch(3)), quarantine())
    assert made.high_watermark == 4
    assert replicas.kinds(replicas.answer(made, fetched(batch(9, 12, 3)))) == ["AppendFetched"]


def test_a_log_that_is_not_damaged_is_not_cut_back_for_an_older_epoch() -> None:
    made = following(quarantine())
    made.log.quarantine = None
    assert "TruncateTo" not in replicas.kinds(replicas.answer(made, fetched(batch(10, 12, 3))))
    assert made.log.end_offset == 10
