"""A frozen snapshot covers the beginning of the log or replaces it; older ones go with the log that they cover."""

from dataclasses import replace

import pytest

from pykraft.core.effects import InstallSnapshot, MoveLogStart, NotifyHighWatermark, Report
from pykraft.core.events import CorruptionFound, SnapshotFrozen, SnapshotsExpired
from pykraft.core.on.corruption import on_corruption_found
from pykraft.core.on.snapshot import on_snapshot_frozen, on_snapshots_expired
from pykraft.core.quarantine import Quarantine
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, SnapshotDownload, State
from pykraft.types import Epoch, KRaftVersion, KRaftVoters, Offset, OffsetAndEpoch
from tests.core import replicas
from tests.core.said import damage, place


def freeze(made: Replica, at: OffsetAndEpoch) -> None:
    voters = KRaftVoters(replicas.voter_set(1, 2))
    on_snapshot_frozen(made, SnapshotFrozen(snapshot_id=at, membership=(KRaftVersion(1), voters)), replicas.NOW)


def committed(state: State, up_to: int = 4) -> Replica:
    made = replicas.replica(state)
    made.log.commit_to(Offset(up_to))
    return made


@pytest.mark.parametrize("state", [replicas.follower(), replicas.leader(), replicas.unattached(), replicas.resigned()])
def test_one_of_what_the_log_holds_is_remembered(state: State) -> None:
    made = committed(state)
    freeze(made, place(4, 1))
    assert replicas.done(made) == []
    assert made.log.snapshots == (place(4, 1),)


@pytest.mark.conformance(107, 122, "H26")
@pytest.mark.parametrize(
    "state", [replicas.follower(), replicas.unattached(), replicas.prospective(), replicas.candidate()]
)
def test_one_that_holds_more_takes_the_place_of_the_log(state: State) -> None:
    made = committed(state)
    freeze(made, place(30, 5))
    found = replicas.done(made)
    assert replicas.only(found, InstallSnapshot).snapshot_id == place(30, 5)
    assert replicas.only(found, NotifyHighWatermark).high_watermark == made.high_watermark == 30
    assert (made.log.start_offset, made.log.end, made.log.snapshots) == (30, place(30, 5), (place(30, 5),))
    assert (made.voters, made.kraft_version, made.voter_history.voters_offset) == (replicas.voter_set(1, 2), 1, 29)


@pytest.mark.parametrize(("up_to", "is_installed"), [(6, True), (7, False)])
def test_one_of_an_older_epoch_takes_the_place_of_records_that_were_never_committed(
    up_to: int, *, is_installed: bool
) -> None:
    """The log ends at 10 in epoch 3, which began at 6."""
    made = committed(replicas.follower(), up_to)
    freeze(made, place(30, 2))
    assert ("InstallSnapshot" in replicas.kinds(replicas.done(made))) is is_installed
    assert made.log.end == (place(30, 2) if is_installed else place(10, 3))


def test_a_resigned_leader_has_no_high_watermark_to_raise() -> None:
    made = committed(replicas.resigned())
    freeze(made, place(30, 5))
    assert (made.log.end_offset, made.high_watermark) == (30, None)


def test_the_download_is_over() -> None:
    made = committed(replace(replicas.follower(), download=SnapshotDownload(snapshot_id=place(30, 5))))
    freeze(made, place(4, 1))
    assert isinstance(made.state, Follower)
    assert made.state.download is not None
    freeze(made, place(30, 5))
    assert made.state.download is None


@pytest.mark.conformance(107)
@pytest.mark.parametrize(
    ("state", "at"),
    [
        (replicas.leader(), (30, 5)),
        (replicas.follower(), (9, 2)),
        (replicas.follower(), (10, 1)),
        (replicas.follower(), (3, 9)),
    ],
)
def test_one_that_fits_nowhere_is_told_and_left(state: State, at: tuple[int, int]) -> None:
    made = committed(state)
    freeze(made, place(*at))
    assert "does not extend the log" in replicas.only(replicas.done(made), Report).text
    assert (made.log.start_offset, made.log.end_offset, made.log.snapshots) == (0, 10, ())


def test_damage_that_a_snapshot_replaces_is_cut() -> None:
    made = committed(replicas.follower())
    on_corruption_found(made, CorruptionFound(damage=damage(6)), replicas.NOW)
    freeze(made, place(30, 5))
    assert made.log.quarantine is not None
    assert made.log.quarantine.is_cut


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_fetch_under_way_is_forgotten_when_a_snapshot_takes_the_place_of_the_log(is_damaged: bool) -> None:
    made = committed(replicas.follower())
    if is_damaged:
        on_corruption_found(made, CorruptionFound(damage=damage(6)), replicas.NOW)
        replicas.done(made)
    correlation_id = made.connections.sent(1, replicas.NOW.mono_ms)
    freeze(made, place(30, 5))
    assert not made.connections.received(1, correlation_id)
    assert made.log.committed_end_offset == 30


@pytest.mark.parametrize(
    ("state", "at"), [(replicas.follower(), (4, 1)), (replicas.follower(), (10, 1)), (replicas.candidate(), (30, 5))]
)
def test_what_was_asked_stands_if_the_log_stays_or_the_answer_is_not_about_the_log(
    state: State, at: tuple[int, int]
) -> None:
    made = committed(state)
    correlation_id = made.connections.sent(2, replicas.NOW.mono_ms)
    freeze(made, place(*at))
    assert made.connections.received(2, correlation_id)


@pytest.mark.conformance(110)
def test_the_log_begins_at_the_oldest_that_is_kept() -> None:
    made = committed(replicas.leader(), 10)
    for at in (place(3, 1), place(8, 3), place(10, 3)):
        freeze(made, at)
    on_snapshots_expired(made, SnapshotsExpired(oldest_kept=place(8, 3)), replicas.NOW)
    assert replicas.only(replicas.done(made), MoveLogStart).snapshot_id == place(8, 3)
    assert (made.log.start_offset, made.log.snapshots) == (8, (place(8, 3), place(10, 3)))
    assert made.log.snapshot_instead_of(Offset(7), made.log.last_epoch) == place(10, 3)


def test_nothing_is_cleaned_while_the_files_still_hold_damage() -> None:
    made = committed(replicas.leader(), 10)
    for at in (place(8, 3), place(10, 3)):
        freeze(made, at)
    quarantine = Quarantine(epoch=Epoch(5), until_offset=None, damages=(), is_cut=False)
    for is_cut, moved in ((False, []), (True, ["MoveLogStart"])):
        made.log.quarantine = replace(quarantine, is_cut=is_cut)
        on_snapshots_expired(made, SnapshotsExpired(oldest_kept=place(8, 3)), replicas.NOW)
        assert replicas.kinds(replicas.done(made)) == moved


@pytest.mark.conformance(106)
@pytest.mark.parametrize("oldest", [(4, 1), (8, 3)])
def test_one_that_is_gone_or_not_committed_moves_nothing(oldest: tuple[int, int]) -> None:
    made = committed(replicas.leader())
    made.log.add_snapshot(place(8, 3))
    on_snapshots_expired(made, SnapshotsExpired(oldest_kept=place(*oldest)), replicas.NOW)
    assert replicas.kinds(replicas.done(made)) == []
    assert made.log.start_offset == 0
