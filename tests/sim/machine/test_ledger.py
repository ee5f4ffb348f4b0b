"""A ledger follows the host's storage jobs: appends, truncations, and nothing else."""

from pykraft.core.effects import InstallSnapshot, MoveLogStart, TruncateTo, WriteElectionState
from pykraft.log.lane import AppendBytes
from pykraft.protocol.batch import read_header
from pykraft.protocol.records import encode_batch
from pykraft.sim.machine.ledger import Entry, Ledger, entry_at
from pykraft.types import Election, Epoch, Io, Offset, OffsetAndEpoch


def batch(base_offset: int, *values: bytes, epoch: int = 1) -> bytes:
    return encode_batch(values or (b"a",), base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=0).data


def appended(*batches: bytes) -> AppendBytes:
    return AppendBytes(io=Io(1), batches=[(read_header(data), data) for data in batches])


def test_an_empty_log_holds_nothing() -> None:
    ledger = Ledger()
    assert (ledger.end_offset, ledger.last_epoch, ledger.at(0)) == (0, 0, None)


def test_appends_and_truncations_are_followed_and_elections_are_not() -> None:
    ledger = Ledger()
    ledger.submitted(appended(batch(0), batch(1, b"a", b"b"), batch(3, epoch=2)))
    assert (ledger.end_offset, ledger.last_epoch) == (4, 2)
    ledger.submitted(WriteElectionState(io=Io(2), election=Election(), voters=(), kraft_version=0))
    ledger.submitted(TruncateTo(io=Io(3), end_offset=Offset(2)))
    assert (ledger.end_offset, ledger.last_epoch) == (1, 1)


def test_an_offset_is_found_in_its_batch() -> None:
    ledger = Ledger([Entry(0, 2, 1, 7), Entry(2, 3, 1, 8)])
    assert [ledger.at(offset) for offset in (0, 1, 2, 3)] == [Entry(0, 2, 1, 7)] * 2 + [Entry(2, 3, 1, 8), None]
    assert entry_at([], 0) is None


def test_a_snapshot_takes_the_place_of_everything_and_cleaning_of_what_is_before() -> None:
    ledger = Ledger()
    ledger.submitted(appended(batch(0), batch(1, b"a", b"b"), batch(3, epoch=2)))
    ledger.submitted(MoveLogStart(io=Io(2), snapshot_id=OffsetAndEpoch(Offset(3), Epoch(1))))
    assert (ledger.begin, ledger.end_offset, ledger.at(2)) == (OffsetAndEpoch(Offset(3), Epoch(1)), 4, None)
    ledger.submitted(MoveLogStart(io=Io(3), snapshot_id=OffsetAndEpoch(Offset(3), Epoch(1))))
    assert ledger.begin == OffsetAndEpoch(Offset(3), Epoch(1))
    ledger.submitted(InstallSnapshot(io=Io(4), snapshot_id=OffsetAndEpoch(Offset(9), Epoch(4))))
    assert (ledger.end_offset, ledger.last_epoch, ledger.at(3)) == (9, 4, None)
