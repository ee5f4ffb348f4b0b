"""The control records of a log, with their offsets: what they say about voters (KIP-853), and which voters led.

`pykraft.core.voter_history` decides which of them is in force.

Source: KIP-853 §Log; Kafka ``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pykraft.log.log import Log
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.records import control_records
from pykraft.types import ControlRecord, Offset


def control_records_of(log: Log, control_offsets: Iterable[Offset]) -> Iterator[tuple[Offset, ControlRecord]]:
    """The records in the control batches that begin at these offsets (ascending).

    Errors: StorageError; CorruptionError for damaged bytes; ProtocolError for a control batch that is not Raft's.
    """
    for offset in control_offsets:
        yield from control_records(log.read(offset, HEADER_SIZE_BYTES))
