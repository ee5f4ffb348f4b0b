"""What is known of idempotent producers: their newest batches, so that a repeated one is not appended twice.

The state follows the log: every append on a leader and on a follower feeds it, a truncation takes it back, and a start
rebuilds it from the log's batch headers. A leader also notes a batch that it has proposed. Invariant: of each producer
at least the newest five committed batches are known, and all that are not committed; clients have at most five in
flight.

A producer id is (leader epoch << 31) | counter, so ids ascend in the order in which they were issued, and nobody has to
store them. At most PRODUCERS_MAX producers are known, besides those with a proposal that is not in the log yet. An id
that is unknown and older than what is known may have batches in the log that nobody remembers: it is refused with
UNKNOWN_PRODUCER_ID, whatever its sequence. Java's producer then goes on under the next producer epoch, from sequence 0.
The leader accepts that only if it has itself refused the id at a lower producer epoch: a batch first sent after that
refusal cannot be in the log.

Source: KIP-98, KIP-360; Kafka's ``ProducerStateManager``, ``ProducerAppendInfo``; the ids are ours.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.batch import BatchHeader
from pykraft.types import Epoch, Offset

PRODUCERS_MAX: Final = 10_000
"""Producers that are remembered; one more evicts the one that wrote longest ago, of those without an open proposal."""
BATCHES_KEPT: Final = 5
"""Committed batches that are remembered of a producer: as many as clients may have in flight."""
COUNTER_BITS: Final = 31
_SEQUENCES: Final = 2**31


@dataclass(slots=True, kw_only=True, eq=False)
class KnownBatch:
    """One batch of a producer, with its first and last sequence; ``base_offset`` is None until the core accepts it."""

    producer_epoch: int
    first_sequence: int
    last_sequence: int
    count: int
    base_offset: Offset | None
    is_in_log: bool

    @property
    def end_offset(self) -> Offset | None:
        """End of its records (exclusive)."""
        return None if self.base_offset is None else Offset(self.base_offset + self.count)


class ProducerStates:
    """The producers of one log."""

    def __init__(self, *, producers_max: int = PRODUCERS_MAX) -> None:
        self._producers: OrderedDict[int, deque[KnownBatch]] = OrderedDict()
        self._producers_max = producers_max
        self._known_from = 0
        self._issued = 0
        self._issued_epoch = Epoch(-1)
        self._committed_end = Offset(0)
        self._refused: OrderedDict[int, int] = OrderedDict()
        """By producer id: the producer epoch at which this leader refused it as unknown."""
        self._refused_epoch = Epoch(-1)

    def __len__(self) -> int:
        return len(self._producers)

    def issue(self, epoch: Epoch) -> int:
        """A new producer id, from the leader of this epoch."""
        if epoch != self._issued_epoch:
            self._issued_epoch, self._issued = epoch, 0
        self._issued += 1
        return epoch << COUNTER_BITS | self._issued

    def check(self, header: BatchHeader, epoch: Epoch) -> KnownBatch | None:
        """The earlier batch that this one repeats, or None for the next batch of its producer.

        ``epoch`` is the leader's. Errors: ProtocolError with OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
        UNKNOWN_PRODUCER_ID.
        """
        batches = self._producers.get(header.producer_id)
        if batches is None:
            self._check_unknown(header, epoch)
            expected = 0
        elif header.producer_epoch < (known_epoch := batches[-1].producer_epoch):
            text = f"producer {header.producer_id} is at epoch {known_epoch}, the batch at {header.producer_epoch}"
            raise ProtocolError(text, ErrorCode.INVALID_PRODUCER_EPOCH)
        elif header.producer_epoch > known_epoch:
            expected = 0
        else:
            asked = (header.producer_epoch, header.base_sequence, _last_sequence(header))
            for known in batches:
                if (known.producer_epoch, known.first_sequence, known.last_sequence) == asked:
                    return known
            expected = (batches[-1].last_sequence + 1) % _SEQUENCES
        if header.base_sequence != expected:
            text = (
                f"producer {header.producer_id}: the next sequence is {expected}, the batch has {header.base_sequence}"
            )
            raise ProtocolError(text, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return None

    def is_waiting(self, producer_id: int) -> bool:
        """True while the newest batch of this producer is proposed, and the core has neither placed nor rejected it."""
        batches = self._producers.get(producer_id)
        return batches is not None and batches[-1].base_offset is None

    def propose(self, header: BatchHeader) -> KnownBatch:
        """The leader proposes this batch, which `check` has passed."""
        return self._note(header, None, is_in_log=False)

    def withdraw(self, producer_id: int, batch: KnownBatch) -> None:
        """The batch never reached the log."""
        batches = self._producers.get(producer_id)
        if batches is not None and batch in batches:
            batches.remove(batch)
            self._forget_empty(producer_id)

    def appended(self, header: BatchHeader) -> None:
        """A batch is in the log; the leader noted its own when it proposed it."""
        if header.producer_id < 0:
            return
        for each in self._producers.get(header.producer_id, ()):
            if each.base_offset == header.base_offset:
                each.is_in_log = True
                return
        self._note(header, header.base_offset, is_in_log=True)

    def committed(self, end_offset: Offset) -> None:
        self._committed_end = end_offset

    def truncate_to(self, end_offset: Offset) -> None:
        """The log was truncated: its records from here on no longer count, nor do proposals without a place."""
        for producer_id, batches in list(self._producers.items()):
            kept = [each for each in batches if each.end_offset is not None and each.end_offset <= end_offset]
            self._producers[producer_id] = deque(kept)
            self._forget_empty(producer_id)

    def begin_anew(self, epoch: Epoch) -> None:
        """The log begins after records of this epoch that this node does not have: their producers are unknown."""
        self._producers.clear()
        self._known_from = (epoch + 1) << COUNTER_BITS

    def _check_unknown(self, header: BatchHeader, epoch: Epoch) -> None:
        producer_id = header.producer_id
        if producer_id < self._known_from:
            if self._has_raised_epoch(header, epoch):
                return
            text = f"producer {producer_id} is older than what is known of producers here"
        elif producer_id >> COUNTER_BITS > epoch:
            text = f"producer id {producer_id} was not issued by this quorum"
        else:
            return
        raise ProtocolError(text, ErrorCode.UNKNOWN_PRODUCER_ID)

    def _has_raised_epoch(self, header: BatchHeader, epoch: Epoch) -> bool:
        """Whether an unknown producer reacts to its refusal with a new producer epoch; notes the refusal if not."""
        if epoch != self._refused_epoch:
            # Another leader may have taken the next producer epoch meanwhile.
            self._refused.clear()
            self._refused_epoch = epoch
        before = self._refused.get(header.producer_id, header.producer_epoch)
        if header.producer_epoch > before:
            return True
        self._refused[header.producer_id] = before
        self._refused.move_to_end(header.producer_id)
        if len(self._refused) > self._producers_max:
            self._refused.popitem(last=False)
        return False

    def _note(self, header: BatchHeader, base_offset: Offset | None, *, is_in_log: bool) -> KnownBatch:
        batches = self._producers.setdefault(header.producer_id, deque())
        self._producers.move_to_end(header.producer_id)
        # If it is forgotten again, its next producer epoch is refused first, too.
        self._refused.pop(header.producer_id, None)
        batch = KnownBatch(
            producer_epoch=header.producer_epoch,
            first_sequence=header.base_sequence,
            last_sequence=_last_sequence(header),
            count=header.last_offset_delta + 1,
            base_offset=base_offset,
            is_in_log=is_in_log,
        )
        batches.append(batch)
        # What is not committed may be truncated, and then the batches before it count again: keep as many committed
        # ones, however many are not. Five batches under way would otherwise leave nothing when they are cut.
        while len(batches) > BATCHES_KEPT and self._is_committed(batches[BATCHES_KEPT]):
            batches.popleft()
        if len(self._producers) > self._producers_max:
            self._evict()
        return batch

    def _evict(self) -> None:
        # Batches of a producer reach the log in order, so the newest tells of all. Proposals are bounded elsewhere.
        found = (each for each, batches in self._producers.items() if batches[-1].is_in_log)
        evicted_id = next(found, None)
        if evicted_id is not None:
            del self._producers[evicted_id]
            self._known_from = max(self._known_from, evicted_id + 1)

    def _is_committed(self, batch: KnownBatch) -> bool:
        return batch.end_offset is not None and batch.end_offset <= self._committed_end

    def _forget_empty(self, producer_id: int) -> None:
        if not self._producers[producer_id]:
            del self._producers[producer_id]


def _last_sequence(header: BatchHeader) -> int:
    return (header.base_sequence + header.last_offset_delta) % _SEQUENCES
