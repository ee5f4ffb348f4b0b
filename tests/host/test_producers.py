"""Each proposal gets one outcome; batches contain the planned values; claimed sizes are never too small."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.core.effects import PlannedBatch
from pykraft.errors import NotLeaderError, UsageError
from pykraft.host import producers as module
from pykraft.host.producers import Committed, OutcomeUnknown, Producers, ProposalOutcome, Rejected
from pykraft.protocol import records
from pykraft.types import Epoch, LeaderChange, NodeId, Offset

BATCH_SIZE_BYTES_MAX = 10_000


class Application:
    """Proposes and remembers the outcomes by name."""

    def __init__(self) -> None:
        self.producers = Producers(batch_size_bytes_max=BATCH_SIZE_BYTES_MAX)
        self.outcomes: list[tuple[str, ProposalOutcome]] = []

    def propose(self, name: str, *values: bytes) -> int:
        def decided(outcome: ProposalOutcome) -> None:
            self.outcomes.append((name, outcome))

        return self.producers.propose(values or (name.encode(),), epoch=Epoch(3), on_outcome=decided).handle

    def append(self, base_offset: int, *handles: int, count: int, epoch: int = 3) -> list[bytes]:
        """Encode a batch of these proposals; its values."""
        header, data = self.producers.encode(plan(base_offset, count, epoch, *handles))
        assert (header.base_offset, header.end_offset, header.epoch) == (base_offset, base_offset + count, epoch)
        return records.decode_values(data)


def plan(base_offset: int, count: int, epoch: int, *handles: int) -> PlannedBatch:
    return PlannedBatch(
        base_offset=Offset(base_offset),
        end_offset=Offset(base_offset + count),
        epoch=Epoch(epoch),
        timestamp_ms=77,
        handles=handles,
    )


def committed(base_offset: int, count: int = 1, epoch: int = 3) -> Committed:
    return Committed(base_offset=Offset(base_offset), epoch=Epoch(epoch), count=count)


def unknown(base_offset: int, epoch: int = 3) -> OutcomeUnknown:
    return OutcomeUnknown(base_offset=Offset(base_offset), epoch=Epoch(epoch))


def test_a_proposal_tells_the_core_its_count_and_size() -> None:
    proposed = Producers(batch_size_bytes_max=BATCH_SIZE_BYTES_MAX).propose(
        [b"a", b"bc"], epoch=Epoch(4), on_outcome=lambda _: None
    )
    assert (proposed.epoch, proposed.count) == (4, 2)
    assert proposed.size_bytes >= records.batch_size_bytes([b"a", b"bc"]) - records.HEADER_SIZE_BYTES


@pytest.mark.parametrize("values", [[], [b""], [b"a", b""]])
def test_what_no_reader_accepts_is_refused_before_anything_happens(values: list[bytes]) -> None:
    producers = Producers(batch_size_bytes_max=BATCH_SIZE_BYTES_MAX)
    with pytest.raises(UsageError):
        producers.propose(values, epoch=Epoch(1), on_outcome=lambda _: None)
    assert len(producers) == 0


@pytest.mark.conformance(112)
def test_a_batch_joins_the_values_of_its_proposals_in_order() -> None:
    app = Application()
    first, second = app.propose("a", b"a1", b"a2"), app.propose("b", b"b1")
    assert app.append(10, first, second, count=3) == [b"a1", b"a2", b"b1"]


def test_later_changes_of_the_list_do_not_change_the_proposal() -> None:
    app = Application()
    values = [b"a"]
    handle = app.producers.propose(values, epoch=Epoch(3), on_outcome=lambda _: None).handle
    values.append(b"b")
    assert app.append(0, handle, count=1) == [b"a"]


def test_proposals_are_committed_one_by_one_as_the_high_watermark_passes_their_ends() -> None:
    app = Application()
    handles = [app.propose("a", b"a1", b"a2"), app.propose("b"), app.propose("c")]
    app.append(10, *handles, count=4)
    app.producers.committed(Offset(11))
    assert app.outcomes == []
    app.producers.committed(Offset(13))
    assert app.outcomes == [("a", committed(10, 2)), ("b", committed(12))]
    app.producers.committed(Offset(14))
    assert app.outcomes[2:] == [("c", committed(13))]
    assert len(app.producers) == 0


def test_a_rejected_proposal_is_never_in_the_log() -> None:
    app = Application()
    error = NotLeaderError(2, 5)
    app.producers.reject(app.propose("a"), error)
    assert app.outcomes == [("a", Rejected(error=error))]
    assert len(app.producers) == 0


def test_what_was_appended_is_open_when_the_leadership_is_lost() -> None:
    app = Application()
    waiting = app.propose("waits")
    app.append(10, app.propose("appended"), count=1)
    app.producers.lost(Epoch(3))
    assert app.outcomes == []
    app.producers.lost(None)
    assert app.outcomes == [("appended", unknown(10))]
    app.producers.reject(waiting, NotLeaderError(None, 4))
    assert len(app.producers) == 0


def test_leading_a_later_epoch_does_not_decide_what_was_appended_in_an_earlier_one() -> None:
    app = Application()
    app.append(10, app.propose("old"), count=1, epoch=3)
    app.append(12, app.propose("new"), count=1, epoch=5)
    app.producers.lost(Epoch(5))
    assert app.outcomes == [("old", unknown(10, 3))]


def test_at_the_end_every_proposal_has_an_outcome() -> None:
    app = Application()
    app.append(10, app.propose("appended"), count=1)
    app.propose("waits")
    app.producers.end()
    assert app.outcomes[0] == ("appended", replace(unknown(10), has_ended=True))
    assert isinstance(app.outcomes[1][1], Rejected)
    app.producers.end()
    assert len(app.outcomes) == 2


def test_an_outcome_may_lead_to_the_next_proposal() -> None:
    producers = Producers(batch_size_bytes_max=BATCH_SIZE_BYTES_MAX)
    handles: list[int] = []

    def again(outcome: ProposalOutcome) -> None:
        assert isinstance(outcome, Committed)
        handles.append(producers.propose([b"b"], epoch=Epoch(3), on_outcome=lambda _: None).handle)

    first = producers.propose([b"a"], epoch=Epoch(3), on_outcome=again).handle
    producers.encode(plan(0, 1, 3, first))
    producers.committed(Offset(1))
    assert len(handles) == len(producers) == 1


@pytest.mark.conformance(112)
def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNDECIDED_PROPOSALS_MAX", 2)
    app = Application()
    app.append(0, app.propose("a"), count=1)
    app.propose("b")
    assert not app.producers.is_overfull
    app.propose("c")
    assert app.producers.is_overfull


@pytest.mark.conformance(112, 116)
def test_control_records_become_a_control_batch() -> None:
    record = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1), NodeId(2)), granting_voters=(NodeId(1),))
    planned = PlannedBatch(
        base_offset=Offset(4), end_offset=Offset(5), epoch=Epoch(2), timestamp_ms=9, control=(record,)
    )
    header, data = Producers(batch_size_bytes_max=BATCH_SIZE_BYTES_MAX).encode(planned)
    assert header.is_control
    assert records.decode_control(data) == [record]


@pytest.mark.conformance(113)
@given(st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=80), min_size=1, max_size=8))
def test_proposals_whose_claims_fit_into_a_batch_do_fit(sizes: list[list[int]]) -> None:
    app = Application()
    room = BATCH_SIZE_BYTES_MAX - records.HEADER_SIZE_BYTES
    values: list[bytes] = []
    for one in sizes:
        mine = [b"x" * size for size in one]
        claimed = app.producers.propose(mine, epoch=Epoch(3), on_outcome=lambda _: None).size_bytes
        if claimed > room:
            continue
        room -= claimed
        values += mine
    assert not values or records.batch_size_bytes(values) <= BATCH_SIZE_BYTES_MAX


@pytest.mark.conformance(9, 113, "H48")
@given(st.integers(1, 40), st.integers(-300, 300))
def test_a_proposal_that_fits_only_alone_may_go_and_one_byte_more_may_not(count: int, slack: int) -> None:
    values = [b"x" * 100] * (count - 1)
    last = BATCH_SIZE_BYTES_MAX - records.batch_size_bytes([*values, b"x" * 100]) + 100 + slack
    values.append(b"x" * last)
    size_bytes = records.batch_size_bytes(values) - records.HEADER_SIZE_BYTES
    claimed = (
        Producers(batch_size_bytes_max=BATCH_SIZE_BYTES_MAX)
        .propose(values, epoch=Epoch(3), on_outcome=lambda _: None)
        .size_bytes
    )
    assert claimed >= size_bytes
    assert (claimed <= BATCH_SIZE_BYTES_MAX - records.HEADER_SIZE_BYTES) == (
        records.batch_size_bytes(values) <= BATCH_SIZE_BYTES_MAX
    )


def test_a_clients_batch_is_placed_as_it_is_and_decided_like_values() -> None:
    producers = Producers(batch_size_bytes_max=1_000)
    outcomes: list[ProposalOutcome] = []
    accepted: list[int] = []
    batch = records.encode_batch([b"a", b"b"], base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=7)
    proposed = producers.propose_batch(batch, epoch=Epoch(3), on_outcome=outcomes.append, on_accepted=accepted.append)
    assert (proposed.count, proposed.is_batch, proposed.size_bytes) == (2, True, len(batch.data) - 61)
    producers.accepted(proposed.handle, Offset(5))
    plan = PlannedBatch(
        base_offset=Offset(5), end_offset=Offset(7), epoch=Epoch(3), timestamp_ms=9, handles=(proposed.handle,)
    )
    header, data = producers.encode(plan)
    assert (header.base_offset, header.epoch, bytes(data[16:])) == (5, 3, batch.data[16:])
    producers.committed(Offset(7))
    assert outcomes == [Committed(base_offset=Offset(5), epoch=Epoch(3), count=2)]
    assert accepted == [5]
