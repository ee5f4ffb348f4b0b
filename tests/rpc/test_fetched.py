"""Records of a Fetch answer: whole valid batches are kept, and the rest is described."""

import pytest

from pykraft.core.messages import FetchedBatch, FetchResponse
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.rpc.fetched import read_batches, read_runs, with_batches
from pykraft.types import Epoch, KRaftVersion, KRaftVoters, Listeners, NodeId, Offset, ReplicaKey, Uuid, Voter, VoterSet

FIRST = encode_batch([b"a", b"bb"], base_offset=Offset(3), epoch=Epoch(1), timestamp_ms=1).data
SECOND = encode_batch([b"ccc"], base_offset=Offset(5), epoch=Epoch(2), timestamp_ms=2).data
MESSAGE = FetchResponse(
    error=0, epoch=Epoch(2), leader_id=NodeId(1), high_watermark=Offset(5), log_start_offset=Offset(0)
)


def test_whole_batches_come_with_their_bytes() -> None:
    fetched = read_batches(FIRST + SECOND)
    assert [bytes(view) for _, view in fetched.batches] == [FIRST, SECOND]
    assert [(header.base_offset, header.end_offset, header.epoch) for header, _ in fetched.batches] == [
        (3, 5, 1),
        (5, 6, 2),
    ]
    assert fetched.invalid is None


def test_views_are_of_the_frame() -> None:
    frame = bytearray(FIRST)
    ((_, view),) = read_batches(frame).batches
    assert view.obj is frame


@pytest.mark.conformance(143)
@pytest.mark.parametrize("size_bytes", [0, 1, 60, 61, len(SECOND) - 1])
def test_a_last_batch_that_is_cut_off_is_no_fault(size_bytes: int) -> None:
    fetched = read_batches(FIRST + SECOND[:size_bytes])
    assert len(fetched.batches) == 1
    assert fetched.invalid is None


@pytest.mark.conformance(144)
@pytest.mark.parametrize("size_bytes", [1, 60, 61, len(FIRST) - 1])
def test_a_first_batch_that_is_cut_off_is_a_fault(size_bytes: int) -> None:
    fetched = read_batches(FIRST[:size_bytes])
    assert fetched.batches == ()
    assert fetched.invalid == f"{size_bytes} bytes that hold no whole batch"
    assert read_batches(b"").invalid is None


@pytest.mark.conformance(144)
def test_a_bad_batch_ends_what_is_kept_and_is_named() -> None:
    bad = bytearray(SECOND)
    bad[-1] ^= 1
    fetched = read_batches(FIRST + bytes(bad) + SECOND)
    assert [bytes(view) for _, view in fetched.batches] == [FIRST]
    assert fetched.invalid is not None
    assert "CRC" in fetched.invalid


@pytest.mark.parametrize("rest", [b"", FIRST[:60], SECOND[:-1], b"\0" * 61, SECOND[:-1] + b"x"])
def test_runs_come_with_the_same_faults(rest: bytes) -> None:
    fetched = read_batches(FIRST + rest)
    runs, invalid = read_runs(FIRST + rest)
    assert [bytes(run.data) for run in runs] == [bytes(view) for _, view in fetched.batches]
    assert invalid == fetched.invalid
    assert read_runs(rest)[1] == read_batches(rest).invalid


def test_the_message_for_the_core_has_headers_only() -> None:
    message = with_batches(MESSAGE, read_batches(FIRST + b"\0" * 61))
    header = FetchedBatch(base_offset=Offset(3), end_offset=Offset(5), epoch=Epoch(1), size_bytes=len(FIRST))
    assert message.batches == (header,)
    assert message.invalid is not None
    assert message.high_watermark == MESSAGE.high_watermark


@pytest.mark.conformance(139)
def test_what_a_control_batch_says_of_voters_comes_along() -> None:
    voters = VoterSet((Voter(key=ReplicaKey(NodeId(1), Uuid(bytes(15) + b"\1")), listeners=Listeners()),))
    records = (KRaftVersion(1), KRaftVoters(voters))
    control = encode_control_batch(records, base_offset=Offset(5), epoch=Epoch(1), timestamp_ms=1).data
    told = with_batches(MESSAGE, read_batches(FIRST + control))
    assert [batch.membership for batch in told.batches] == [(), ((5, records[0]), (6, records[1]))]
