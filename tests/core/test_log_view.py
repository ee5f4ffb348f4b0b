"""The core's view of the log, compared with naive lists of records in memory and on a lagging disk.

Every record of the twin is unique, so that what was cut off and what took its place can never be confused.
"""

from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pykraft.core.log_view import BATCH_ENDS_KEPT, LogView
from pykraft.types import Epoch, EpochStart, Io, Offset, OffsetAndEpoch
from tests.core.replicas import END, log_to_10
from tests.core.said import place

Record = tuple[int, int]
"""Epoch, and a number that no other record has."""


def common(one: list[Record], other: list[Record]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class LogAndDisk(RuleBasedStateMachine):
    """Appends and truncations are planned at once and done later, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.view = LogView(start_offset=Offset(0), end_offset=Offset(0))
        self.memory: list[Record] = []
        self.disk: list[Record] = []
        self.jobs: list[tuple[int, Callable[[list[Record]], list[Record]]]] = []
        self.ios = count(1)
        self.numbers = count()
        self.ends = {0}

    def _submit(self, job: Callable[[list[Record]], list[Record]]) -> None:
        io = next(self.ios)
        self.jobs.append((io, job))
        self.memory = job(self.memory)
        self.view.submit(Io(io))

    @rule(step=st.integers(0, 2), sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3))
    def append(self, step: int, sizes: list[int]) -> None:
        epoch = max(1, self.view.last_epoch + step)
        added: list[Record] = []
        for size in sizes:
            base = self.view.end_offset
            self.view.append(base_offset=base, end_offset=Offset(base + size), epoch=Epoch(epoch))
            self.ends.add(base + size)
            added += [(epoch, next(self.numbers)) for _ in range(size)]
        self._submit(lambda records: [*records, *added])

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        end = int(share * len(self.memory))
        self.view.truncate_to(Offset(end))
        self.ends = {each for each in self.ends if each < end} | {end}
        self._submit(lambda records: records[:end])

    @precondition(lambda self: self.jobs)
    @rule(share=st.floats(0, 1))
    def flush(self, share: float) -> None:
        done = self.jobs[: 1 + int(share * (len(self.jobs) - 1))]
        self.jobs = self.jobs[len(done) :]
        for _, job in done:
            self.disk = job(self.disk)
        self.view.persist(Io(done[-1][0]))

    @invariant()
    def the_flushed_end_is_where_disk_and_memory_part(self) -> None:
        assert self.view.flushed_end_offset == common(self.disk, self.memory)
        assert self.view.unflushed_count == len(self.jobs)

    @invariant()
    def whole_batches_end_where_a_batch_does(self) -> None:
        for offset in range(len(self.memory) + 1):
            assert self.view.whole_batches_below(Offset(offset)) == max(end for end in self.ends if end <= offset)

    @invariant()
    def ends_and_epochs_are_those_of_the_records(self) -> None:
        epochs = [epoch for epoch, _ in self.memory]
        assert self.view.end == OffsetAndEpoch(Offset(len(epochs)), Epoch(epochs[-1] if epochs else 0))
        assert [(entry.epoch, entry.start_offset) for entry in self.view.epochs] == [
            (epoch, epochs.index(epoch)) for epoch in sorted(set(epochs))
        ]


TestLogAndDisk = LogAndDisk.TestCase


def test_a_late_completion_of_an_append_does_not_count_for_another_at_its_offsets() -> None:
    log = LogView(
        start_offset=Offset(0), end_offset=Offset(5), epochs=[EpochStart(epoch=Epoch(1), start_offset=Offset(0))]
    )
    log.append(base_offset=Offset(5), end_offset=Offset(10), epoch=Epoch(1))
    log.submit(Io(1))
    log.truncate_to(Offset(5))
    log.submit(Io(2))
    log.append(base_offset=Offset(5), end_offset=Offset(10), epoch=Epoch(2))
    log.submit(Io(3))
    flushed = []
    for io in (1, 2, 3):
        log.persist(Io(io))
        flushed.append(log.flushed_end_offset)
    assert flushed == [5, 5, 10]


def test_batches_are_forgotten_below_the_committed_end_only_and_are_not_known_from_before_the_start() -> None:
    log = LogView(start_offset=Offset(0), end_offset=Offset(10))
    assert log.whole_batches_below(Offset(7)) == 7

    def append(count: int) -> None:
        for _ in range(count):
            log.append(base_offset=log.end_offset, end_offset=Offset(log.end_offset + 2), epoch=Epoch(1))

    append(2 * BATCH_ENDS_KEPT)
    assert log.whole_batches_below(Offset(13)) == 12
    log.commit_to(Offset(3_000))
    append(1)
    assert log.whole_batches_below(Offset(2_999)) == 2_999
    assert log.whole_batches_below(Offset(3_001)) == 3_000
    assert log.whole_batches_below(Offset(3_003)) == 3_002


RUNS = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 4)), max_size=4)


def view_of(epochs: list[int]) -> LogView:
    starts = [EpochStart(epoch=Epoch(epoch), start_offset=Offset(epochs.index(epoch))) for epoch in sorted(set(epochs))]
    return LogView(start_offset=Offset(0), end_offset=Offset(len(epochs)), epochs=starts)


def epochs_of(runs: list[tuple[int, int]], epoch: int = 0) -> list[int]:
    epochs = []
    for step, size in runs:
        epoch += step
        epochs += [epoch] * size
    return epochs


@pytest.mark.conformance(109)
@given(RUNS, st.integers(0, 12), st.integers(0, 8))
def test_a_log_is_a_prefix_when_its_last_record_is_here(
    runs: list[tuple[int, int]], offset: int, last_epoch: int
) -> None:
    epochs = epochs_of(runs)
    is_prefix = offset == 0 or (offset <= len(epochs) and epochs[offset - 1] == last_epoch)
    told = view_of(epochs).diverging_from(Offset(offset), Epoch(last_epoch))
    if is_prefix:
        assert told is None
    elif told is None:
        # The epoch is below every one known here, or begins later: no record of a follower can be there.
        assert offset <= next((at for at, epoch in enumerate(epochs) if epoch > last_epoch), len(epochs))


@pytest.mark.conformance(104, 109)
@given(st.data(), RUNS, RUNS, RUNS)
def test_two_logs_agree_after_rounds_of_divergence_and_no_common_record_is_cut(
    data: st.DataObject, shared: list[tuple[int, int]], ours: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    """Epochs above the shared ones belong to one log or the other, as with two leaders."""
    prefix = epochs_of(shared)
    last = prefix[-1] if prefix else 0
    own = prefix + [2 * (epoch - last) + last for epoch in epochs_of(ours, last)]
    leader = prefix + [2 * (epoch - last) + last + 1 for epoch in epochs_of(theirs, last)]
    follower_view, leader_view = view_of(own), view_of(leader)
    for _ in range(12):
        end = follower_view.end
        diverging = leader_view.diverging_from(end.offset, end.epoch)
        if diverging is None:
            break
        cut = follower_view.truncation_point(diverging)
        assert len(prefix) <= cut < end.offset
        follower_view.truncate_to(cut)
    assert leader_view.diverging_from(follower_view.end_offset, follower_view.last_epoch) is None
    assert own[: follower_view.end_offset] == leader[: follower_view.end_offset]


@pytest.mark.parametrize(
    ("diverging", "expected"),
    [((4, 1), 4), ((8, 1), 6), ((7, 3), 7), ((99, 3), 10), ((5, 2), 6), ((2, 0), 2), ((99, 0), 10), ((99, 9), 10)],
)
def test_where_to_cut(diverging: tuple[int, int], expected: int) -> None:
    offset, epoch = diverging
    assert log_to_10().truncation_point(OffsetAndEpoch(Offset(offset), Epoch(epoch))) == expected


@pytest.mark.conformance(109)
@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [
        (0, 0, None),
        (0, 9, None),
        (10, 3, None),
        (6, 3, None),
        (6, 1, None),
        (3, 1, None),
        (11, 3, (10, 3)),
        (99, 3, (10, 3)),
        (7, 1, (6, 1)),
        (10, 1, (6, 1)),
        (10, 4, (10, 3)),
        (3, 9, (10, 3)),
        (6, 2, (6, 1)),
        (3, 2, (6, 1)),
        (3, 0, (0, 0)),
    ],
)
def test_a_followers_log_is_a_prefix_of_this_one_or_told_where_to_look(
    offset: int, last_epoch: int, diverging: tuple[int, int] | None
) -> None:
    """Epoch 1 from 0, epoch 3 from 6, the end at 10: equal offsets, unknown epochs between and above, too long."""
    expected = None if diverging is None else OffsetAndEpoch(Offset(diverging[0]), Epoch(diverging[1]))
    assert log_to_10().diverging_from(Offset(offset), Epoch(last_epoch)) == expected


@pytest.mark.conformance(109)
def test_an_epoch_before_the_first_one_here_ends_where_that_begins() -> None:
    log = LogView(
        start_offset=Offset(0), end_offset=Offset(9), epochs=[EpochStart(epoch=Epoch(4), start_offset=Offset(0))]
    )
    assert log.diverging_from(Offset(3), Epoch(2)) == OffsetAndEpoch(Offset(0), Epoch(2))


@pytest.mark.conformance("H58")
def test_a_new_leaders_epoch_begins_at_the_end() -> None:
    log = log_to_10()
    log.begin_epoch(Epoch(7))
    assert log.epochs[-1] == EpochStart(epoch=Epoch(7), start_offset=END.offset)


def test_a_log_that_begins_later_diverges_from_an_empty_one() -> None:
    log = LogView(
        start_offset=Offset(4),
        end_offset=Offset(9),
        epochs=[EpochStart(epoch=Epoch(2), start_offset=Offset(4))],
        snapshots=[OffsetAndEpoch(Offset(4), Epoch(1))],
    )
    assert log.diverging_from(Offset(0), Epoch(1)) is None
    assert log.diverging_from(Offset(0), Epoch(9)) == log.end


@pytest.mark.conformance(101, "H58")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda log: log.append(base_offset=Offset(9), end_offset=Offset(11), epoch=Epoch(3)),
        lambda log: log.append(base_offset=Offset(10), end_offset=Offset(10), epoch=Epoch(3)),
        lambda log: log.append(base_offset=Offset(10), end_offset=Offset(11), epoch=Epoch(2)),
        lambda log: log.truncate_to(Offset(11)),
        lambda log: (log.submit(Io(2)), log.submit(Io(2))),
        lambda _: LogView(start_offset=Offset(3), end_offset=Offset(2)),
        lambda _: LogView(start_offset=Offset(3), end_offset=Offset(4)),
        lambda _: LogView(
            start_offset=Offset(0), end_offset=Offset(2), epochs=[EpochStart(epoch=Epoch(1), start_offset=Offset(3))]
        ),
    ],
)
def test_holes_and_steps_back_are_our_bugs(wrong: Callable[[LogView], object]) -> None:
    with pytest.raises(AssertionError):
        wrong(log_to_10())


def test_an_epoch_may_begin_at_the_end_without_a_record_yet() -> None:
    starts = [EpochStart(epoch=Epoch(1), start_offset=Offset(2))]
    assert LogView(start_offset=Offset(0), end_offset=Offset(2), epochs=starts).end == OffsetAndEpoch(
        Offset(2), Epoch(1)
    )


def from_8() -> LogView:
    """Begins at 8, where a snapshot of epoch 3 ends; epoch 5 from 10 to 14, of which a snapshot up to 12."""
    starts = [EpochStart(epoch=Epoch(3), start_offset=Offset(8)), EpochStart(epoch=Epoch(5), start_offset=Offset(10))]
    ids = [place(12, 5), place(8, 3)]
    return LogView(start_offset=Offset(8), end_offset=Offset(14), epochs=starts, snapshots=ids)


@pytest.mark.conformance(109, "H75")
@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (0, 0, "snapshot"),
        (7, 3, "snapshot"),
        (7, 5, "snapshot"),
        (8, 2, "snapshot"),
        (8, 5, "snapshot"),
        (10, 2, "snapshot"),
        (8, 3, None),
        (10, 3, None),
        (11, 5, None),
        (14, 5, None),
        (11, 3, (10, 3)),
        (15, 5, (14, 5)),
        (14, 6, (14, 5)),
        (12, 4, (10, 3)),
    ],
)
def test_a_place_is_valid_or_diverging_or_needs_a_snapshot(
    offset: int, epoch: int, expected: str | tuple[int, int] | None
) -> None:
    log = from_8()
    snapshot_id = log.snapshot_instead_of(Offset(offset), Epoch(epoch))
    assert snapshot_id == (place(12, 5) if expected == "snapshot" else None)
    if snapshot_id is None:
        assert log.diverging_from(Offset(offset), Epoch(epoch)) == (place(*expected) if expected else None)


@pytest.mark.conformance(109)
def test_the_epoch_before_the_first_record_is_the_snapshots() -> None:
    starts = [EpochStart(epoch=Epoch(7), start_offset=Offset(8))]
    log = LogView(start_offset=Offset(8), end_offset=Offset(9), epochs=starts, snapshots=[place(8, 3)])
    assert log.diverging_from(Offset(9), Epoch(5)) == place(8, 3)
    assert log.diverging_from(Offset(8), Epoch(3)) is None


def test_an_empty_log_behind_a_snapshot_ends_in_its_epoch() -> None:
    log = LogView(start_offset=Offset(8), end_offset=Offset(8), snapshots=[place(8, 3)])
    assert log.end == log.latest_snapshot == place(8, 3)
    assert LogView(start_offset=Offset(0), end_offset=Offset(0)).latest_snapshot is None


@pytest.mark.conformance(107)
@pytest.mark.parametrize(("at", "expected"), [((14, 5), False), ((13, 5), False), ((14, 4), False), ((15, 5), True)])
def test_epoch_before_offset_says_which_holds_more(at: tuple[int, int], expected: bool) -> None:
    log = from_8()
    assert log.is_older_than(place(*at)) is expected
    assert log.is_older_than(place(9, 6))


def test_a_log_that_ends_before_the_snapshot_holds_less_whatever_its_epoch() -> None:
    """Campaign seed 17060: records of epoch 3, never committed, stood where the snapshot had some of epoch 2."""
    assert from_8().is_older_than(place(20, 4))


@pytest.mark.parametrize(
    ("committed", "at", "expected"),
    [
        (12, (12, 5), False),
        (12, (11, 5), True),
        (12, (20, 4), False),
        (13, (20, 4), True),
        (14, (20, 5), False),
        (8, (20, 2), True),
    ],
)
def test_committed_records_that_a_snapshot_lacks(committed: int, at: tuple[int, int], expected: bool) -> None:
    """The log starts at a snapshot of epoch 3, and has records of epoch 4 from 10, of epoch 5 from 12 on."""
    starts = [EpochStart(epoch=Epoch(epoch), start_offset=Offset(offset)) for epoch, offset in ((4, 10), (5, 12))]
    log = LogView(start_offset=Offset(8), end_offset=Offset(14), epochs=starts, snapshots=[place(8, 3)])
    log.commit_to(Offset(committed))
    assert log.lacks_committed(place(*at)) is expected


@pytest.mark.parametrize(("at", "expected"), [((20, 4), False), ((30, 5), False), ((30, 4), True), ((35, 4), True)])
def test_a_snapshot_before_our_newest_lacks_nothing_of_a_log_that_damage_has_cut(
    at: tuple[int, int], expected: bool
) -> None:
    """Campaign seed 10921: the leader had no newer one, and a node in quarantine refused it for ever."""
    log = LogView(start_offset=Offset(8), end_offset=Offset(40), snapshots=[place(8, 3), place(30, 5)])
    log.commit_to(Offset(40))
    log.lose_from(Offset(12))
    assert log.lacks_committed(place(*at)) is expected


@pytest.mark.conformance(107)
def test_a_log_that_is_replaced_is_empty_and_durable_up_to_the_snapshot() -> None:
    log = from_8()
    log.append(base_offset=Offset(14), end_offset=Offset(16), epoch=Epoch(5))
    log.submit(Io(1))
    log.replace_by(place(20, 6))
    log.submit(Io(2))
    log.persist(Io(1))
    assert (log.start_offset, log.flushed_end_offset, log.committed_end_offset) == (20, 20, 20)
    assert (log.end, log.epochs, log.snapshots) == (place(20, 6), (), (place(20, 6),))


@pytest.mark.conformance(110, "H75")
def test_a_log_that_is_cleaned_begins_at_a_snapshot() -> None:
    log = from_8()
    log.commit_to(Offset(14))
    log.begin_at(place(12, 5))
    assert (log.start_offset, log.snapshots) == (12, (place(12, 5),))
    assert log.epochs == (EpochStart(epoch=Epoch(5), start_offset=Offset(12)),)


@pytest.mark.conformance("H75")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda log: log.add_snapshot(place(15, 5)),
        lambda log: log.add_snapshot(place(12, 3)),
        lambda log: log.begin_at(place(8, 3)),
        lambda log: log.begin_at(place(12, 5)),
        lambda log: log.begin_at(place(13, 5)),
        lambda log: log.replace_by(place(14, 5)),
    ],
)
def test_snapshots_of_other_logs_are_our_bugs(wrong: Callable[[LogView], object]) -> None:
    with pytest.raises(AssertionError):
        wrong(from_8())


def test_what_a_snapshot_holds_is_committed_whoever_has_said_so() -> None:
    """A voter that was removed campaigned after a restart: its removal was in its snapshot (simulated seed 7002)."""
    ids = [OffsetAndEpoch(Offset(10), Epoch(1)), OffsetAndEpoch(Offset(15), Epoch(1))]
    log = LogView(start_offset=Offset(10), end_offset=Offset(20), epochs=[], snapshots=ids)
    assert (log.committed_end_offset, log.known_committed_end_offset) == (10, 15)
    log.commit_to(Offset(18))
    assert log.known_committed_end_offset == 18
    assert LogView(start_offset=Offset(0), end_offset=Offset(0)).known_committed_end_offset == 0
