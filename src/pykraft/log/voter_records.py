"""The KIP-853 control records about voters in a log, with their offsets.

`pykraft.core.voter_history` decides which of them is in force.

Source: KIP-853 §Log; Kafka ``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pykraft.log.log import Log
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.records import membership_records
from pykraft.types import MembershipRecord, Offset


def voter_records_of(log: Log, control_offsets: Iterable[Offset]) -> Iterator[tuple[Offset, MembershipRecord]]:
    """The records in the control batches that begin at these offsets (ascending).

    Errors: StorageError; CorruptionError for damaged bytes; ProtocolError for a control batch that is not Raft's.
    """
    for offset in control_offsets:
        yield from membership_records(log.read(offset, HEADER_SIZE_BYTES))
