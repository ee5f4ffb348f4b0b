"""A snapshot with other voters than those at its end is found."""

from __future__ import annotations

import pytest

from pykraft.protocol.records import encode_control_batch
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.snapshot_voters import SnapshotNamesItsVoters
from pykraft.sim.machine.ledger import Ledger
from pykraft.types import Epoch, KRaftVersion, KRaftVoters, Offset, SnapshotFooter, SnapshotHeader, VoterSet
from tests.sim.invariants.fakes import BEFORE, entry, keyed, node, snapshot_id, view, voter_record, world

OLD, NEW = keyed(1, 2), keyed(1, 2, 3)


def content(voters: VoterSet | None) -> bytes:
    head = (SnapshotHeader(0), KRaftVersion(1), *(() if voters is None else (KRaftVoters(voters),)))
    batches = (
        encode_control_batch(head, base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=0).data,
        encode_control_batch((SnapshotFooter(),), base_offset=Offset(len(head)), epoch=Epoch(1), timestamp_ms=0).data,
    )
    return b"".join(batches)


def look(end: int, voters: VoterSet | None, *, bytes_: bytes | None = None) -> None:
    """The log says OLD at 2 and NEW at 5; a third record at 6 is not committed."""
    where = world()
    where.members.electorate.records[:] = [voter_record(2, OLD), voter_record(5, NEW), voter_record(6, keyed(1))]
    where.committed = Ledger([entry(offset) for offset in range(6)])
    where.contents[1, snapshot_id(end)] = content(voters) if bytes_ is None else bytes_
    made = SnapshotNamesItsVoters(where)
    known = view(snapshots=(snapshot_id(end),))
    made.changed(node(1), known, known)
    made.changed(node(1), BEFORE, known)


def test_the_voters_at_its_end_are_right() -> None:
    look(2, None)
    look(3, OLD)
    look(5, OLD)
    look(6, NEW)
    look(7, NEW)


def test_what_is_no_snapshot_is_for_others_to_find() -> None:
    look(5, OLD, bytes_=b"hollow")


@pytest.mark.parametrize(("end", "voters"), [(3, None), (5, NEW), (6, OLD), (7, keyed(1))])
def test_any_others_are_found(end: int, voters: VoterSet | None) -> None:
    with pytest.raises(ViolationError, match=f"a snapshot up to {end} that names the voters"):
        look(end, voters)
