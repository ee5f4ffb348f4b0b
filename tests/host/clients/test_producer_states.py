"""Idempotent producers: which batch is the next one, which repeats another, and what a truncation takes back."""

from typing import Any

import pytest

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.clients.producer_states import BATCHES_KEPT, COUNTER_BITS, ProducerStates
from pykraft.protocol.batch import BatchHeader
from pykraft.types import Epoch, Offset
from tests.host.clients.world import batch_of

EPOCH = Epoch(4)
ID = (EPOCH << COUNTER_BITS) + 1


def header(sequence: int, count: int = 1, *, at: int = 0, producer_id: int = ID, epoch: int = 0) -> BatchHeader:
    values = [b"v"] * count
    return batch_of(values, at=at, producer_id=producer_id, producer_epoch=epoch, sequence=sequence)[0]


def refusal(states: ProducerStates, asked: BatchHeader) -> ErrorCode:
    with pytest.raises(ProtocolError) as refused:
        states.check(asked, EPOCH)
    return refused.value.code


@pytest.fixture
def states() -> ProducerStates:
    return ProducerStates()


def test_sequences_have_no_gaps(states: ProducerStates) -> None:
    assert refusal(states, header(1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, 3), EPOCH) is None
    states.appended(header(0, 3))
    assert states.check(header(3), EPOCH) is None
    assert refusal(states, header(4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(states, header(1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_begin_anew_after_the_largest(states: ProducerStates) -> None:
    states.appended(header(2**31 - 2, 3, at=5))
    assert states.check(header(1), EPOCH) is None


def test_a_repeated_batch_is_the_known_one(states: ProducerStates) -> None:
    states.appended(header(0, 3, at=10))
    states.appended(header(3, 2, at=13))
    known = states.check(header(0, 3, at=0), EPOCH)
    assert known is not None
    assert (known.base_offset, known.end_offset) == (10, 13)
    assert refusal(states, header(0, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "another batch"


def test_a_new_producer_epoch_begins_at_0_and_ends_the_old_one(states: ProducerStates) -> None:
    states.appended(header(0, 3))
    assert refusal(states, header(3, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    states.appended(header(0, 1, at=3, epoch=1))
    assert refusal(states, header(3)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check(header(1, epoch=1), EPOCH) is None
    states.truncate_to(Offset(3))
    assert states.check(header(3), EPOCH) is None, "the new epoch was never written"


def test_a_truncation_takes_batches_back(states: ProducerStates) -> None:
    states.appended(header(0, 2, at=0))
    states.appended(header(2, 2, at=2))
    states.truncate_to(Offset(2))
    assert states.check(header(2, 2), EPOCH) is None
    states.truncate_to(Offset(0))
    assert len(states) == 0
    assert states.check(header(0), EPOCH) is None


def test_what_is_not_committed_is_never_forgotten(states: ProducerStates) -> None:
    for at in range(10):
        states.appended(header(at, at=at))
    states.truncate_to(Offset(1))
    assert states.check(header(1), EPOCH) is None
    for at in range(1, 10):
        states.committed(Offset(at))
        states.appended(header(at, at=at))
    # Nine are committed, of which five are kept, and one is not.
    assert refusal(states, header(8 - BATCHES_KEPT)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(9 - BATCHES_KEPT), EPOCH) is not None


def test_a_truncation_of_all_that_is_under_way_leaves_what_is_committed(states: ProducerStates) -> None:
    states.appended(header(0, at=0))
    states.committed(Offset(1))
    for at in range(1, 1 + BATCHES_KEPT):
        states.appended(header(at, at=at))
    states.truncate_to(Offset(1))
    assert states.check(header(1), EPOCH) is None
    assert states.check(header(0), EPOCH) is not None, "it is in the log"


def test_a_proposal_is_noted_once_and_can_be_withdrawn(states: ProducerStates) -> None:
    known = states.propose(header(0, 2))
    assert states.check(header(0, 2), EPOCH) is known
    known.base_offset = Offset(7)
    states.appended(header(0, 2, at=7))
    assert states.check(header(2), EPOCH) is None
    second = states.propose(header(2))
    states.withdraw(ID, second)
    states.withdraw(ID, second)
    states.withdraw(ID + 1, second)
    assert states.check(header(2), EPOCH) is None


def test_ids_ascend_and_are_never_issued_twice(states: ProducerStates) -> None:
    issued = [states.issue(Epoch(4)), states.issue(Epoch(4)), states.issue(Epoch(5)), states.issue(Epoch(5))]
    assert issued == sorted(set(issued))
    assert issued[0] >> COUNTER_BITS == 4


@pytest.mark.parametrize("sequence", [0, 3])
def test_an_id_older_than_what_is_known_is_refused_whatever_its_sequence(sequence: int) -> None:
    states = ProducerStates(producers_max=1)
    states.appended(header(0))
    states.appended(header(0, at=1, producer_id=ID + 5))
    assert len(states) == 1
    assert refusal(states, header(sequence)) == ErrorCode.UNKNOWN_PRODUCER_ID, "it was evicted"
    after = ProducerStates()
    after.begin_anew(Epoch(4))
    assert refusal(after, header(sequence)) == ErrorCode.UNKNOWN_PRODUCER_ID, "its batches may be in a snapshot"
    assert after.check(header(0, producer_id=5 << COUNTER_BITS), Epoch(5)) is None


def test_an_unknown_producer_begins_anew_under_the_next_producer_epoch() -> None:
    states = ProducerStates(producers_max=1)
    unknown, forget = ErrorCode.UNKNOWN_PRODUCER_ID, header(0, at=9, producer_id=ID + 5)
    states.appended(header(0))
    states.appended(forget)
    assert refusal(states, header(0, epoch=1)) == unknown, "nobody refused it before, so this may be in the log"
    assert refusal(states, header(0, epoch=1)) == unknown
    assert refusal(states, header(0, epoch=0)) == unknown
    assert refusal(states, header(0, epoch=1)) == unknown, "the earlier refusal counts"
    assert refusal(states, header(1, epoch=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, epoch=2), EPOCH) is None
    states.appended(header(0, at=10, epoch=2))
    assert states.check(header(1, epoch=2), EPOCH) is None
    states.appended(forget)
    assert refusal(states, header(0, epoch=3)) == unknown, "it was forgotten again"
    with pytest.raises(ProtocolError, match="older than what is known"):
        states.check(header(0, epoch=4), Epoch(EPOCH + 1))
    assert states.check(header(0, epoch=5), Epoch(EPOCH + 1)) is None


def test_refusals_are_bounded() -> None:
    states = ProducerStates(producers_max=1)
    states.begin_anew(EPOCH)
    for producer_id in (ID, ID + 1):
        assert refusal(states, header(0, producer_id=producer_id)) == ErrorCode.UNKNOWN_PRODUCER_ID
    assert refusal(states, header(0, epoch=1)) == ErrorCode.UNKNOWN_PRODUCER_ID, "its refusal was forgotten"
    assert states.check(header(0, epoch=2), EPOCH) is None


def test_a_producer_with_a_proposal_that_is_not_in_the_log_yet_is_not_evicted() -> None:
    states = ProducerStates(producers_max=1)
    first, second = (states.propose(header(sequence)) for sequence in (0, 1))
    states.appended(header(0, at=5, producer_id=ID + 1))
    assert len(states) == 1
    for at, known in enumerate((first, second), start=6):
        known.base_offset = Offset(at)
        states.appended(header(known.first_sequence, at=at))
    assert states.check(header(2), EPOCH) is None
    states.appended(header(0, at=8, producer_id=ID + 2))
    assert refusal(states, header(2)) == ErrorCode.UNKNOWN_PRODUCER_ID


def test_an_id_that_nobody_issued_is_refused() -> None:
    assert refusal(ProducerStates(), header(0, producer_id=9 << COUNTER_BITS)) == ErrorCode.UNKNOWN_PRODUCER_ID


def test_batches_without_a_producer_change_nothing(states: ProducerStates) -> None:
    plain: Any = batch_of()[0]
    states.appended(plain)
    assert len(states) == 0
