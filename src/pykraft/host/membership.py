"""What the files of a node say of voters when it starts: the newest snapshot, then the log from where that ends.

It refuses to know which of it is in force (`pykraft.core.membership`).

Source: KIP-853; Kafka's ``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pykraft.log.fs import Fs
from pykraft.log.log import Log
from pykraft.log.membership import membership_of
from pykraft.snapshot.bootstrap import membership_in_snapshot
from pykraft.types import KRaftVoters, MembershipRecord, Offset


def membership_at_start(
    fs: Fs, log: Log, control_offsets: Iterable[Offset]
) -> Iterator[tuple[Offset, MembershipRecord]]:
    """By ascending offset; what a snapshot says stands at the last offset that it contains, -1 for the bootstrap one.

    A bootstrap checkpoint without voters is that of a node that joins others: their log says at which level they are.
    ``control_offsets`` are those that recovery found; what a snapshot took the place of since is not looked for.

    Errors: StorageError; CorruptionError; ProtocolError for a control batch that is not Raft's.
    """
    snapshot_end, records = membership_in_snapshot(fs, log.path, log.end_offset)
    if snapshot_end or any(isinstance(record, KRaftVoters) for record in records):
        yield from ((Offset(snapshot_end - 1), record) for record in records)
    held = [offset for offset in control_offsets if log.start_offset <= offset < log.end_offset]
    yield from (entry for entry in membership_of(log, held) if entry[0] >= snapshot_end)
