"""Appends records to a live quorum from outside, one batch at a time, exactly once: an idempotent producer.

Invariant: a batch is sent again, byte for byte, until a node answers that it is committed or why it never will be; the
leader recognizes what it has. Only if the time is over before that, the result is an OutcomeUnknownError.

Source: KIP-98; Kafka's ``KafkaProducer``; ours (ADR 050, 065).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from pykraft.client.remote.leader_fetch import PATIENCE, Patience
from pykraft.client.remote.numbered_appender import NumberedAppender
from pykraft.errors import OutcomeUnknownError, RefusedError, UsageError
from pykraft.protocol.batch import number_batch
from pykraft.protocol.records import encode_batch
from pykraft.types import EPOCH_ZERO, Endpoint, Offset

BATCH_SIZE_BYTES_MAX: Final = 60_000
"""Most bytes of the records of one append: a node accepts requests of 64 KiB."""
RECORD_OVERHEAD_BYTES_MAX: Final = 20
"""Most bytes that a batch adds to a value: three varints and four single bytes."""
_SEQUENCES: Final = 2**31


class Appender(NumberedAppender):
    """Use it in ``async with``, within one event loop; one append at a time."""

    def __init__(
        self, bootstrap: Sequence[Endpoint], *, client_id: str = "pykraft-append", patience: Patience = PATIENCE
    ) -> None:
        """``bootstrap`` has some nodes of the quorum."""
        super().__init__(bootstrap, client_id=client_id, patience=patience)
        self._producer_id: int | None = None
        self._next_sequence = 0

    async def append_values(self, values: Sequence[bytes]) -> Offset:
        """Append these values as one atomic batch; returns the offset of the first when they are committed.

        Errors: OutcomeUnknownError; for all others nothing was appended: QuorumUnavailableError when no leader was
        found within the time, UsageError when nodes serve no clients, or for too large or empty records, RefusedError
        with the leader's reason.
        """
        size_bytes = sum(map(len, values)) + RECORD_OVERHEAD_BYTES_MAX * len(values)
        if not values or not all(values) or size_bytes > BATCH_SIZE_BYTES_MAX:
            raise UsageError(
                f"an append has at least one record, a record at least one byte, and all together at most "
                f"{BATCH_SIZE_BYTES_MAX} bytes with {RECORD_OVERHEAD_BYTES_MAX} added for each record"
            )
        if self._producer_id is None:
            self._producer_id = await self.issue_id()
        now_ms = int(time.time() * 1_000)
        batch = bytearray(encode_batch(values, base_offset=Offset(0), epoch=EPOCH_ZERO, timestamp_ms=now_ms).data)
        number_batch(batch, producer_id=self._producer_id, producer_epoch=0, base_sequence=self._next_sequence)
        try:
            offset = await self.append(batch)
        except (OutcomeUnknownError, RefusedError) as error:
            # A refusal after a lost answer does not say what became of the batch that got none.
            if not self.was_doubtful:
                raise
            # Under the number of a batch that may be in the log, the leader would take other records for that one.
            self._producer_id, self._next_sequence = None, 0
            raise OutcomeUnknownError(str(error), count=len(values)) from error
        self._next_sequence = (self._next_sequence + len(values)) % _SEQUENCES
        return offset
