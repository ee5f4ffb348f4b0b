"""The state of consumer groups in the log: every node applies what is committed, and the leader writes.

A node that has no batch of groups in its log does nothing. The first one makes it listen to its own log from there on,
and a start from the newest whole image on.

The leader has one batch of changes in flight at a time; what comes meanwhile is in the next one. So the state that it
has applied is the state at the end of its log whenever it writes, and an image is just that. A change is answered when
it is applied, so whoever reads after that finds it.

Snapshots belong to the application and have nothing of groups. So a snapshot may count only if what it replaces is not
needed: nothing of groups is in the log before its end, or a whole, committed image begins at its end or later. Until
then `hold` keeps it from being completed. The leader writes an image when one of its own snapshots is held, and after
IMAGE_EVERY_BYTES of the log, for the snapshots of others. Invariant: from each snapshot that counts, anywhere, the log
that follows leads to the whole state (ADR 230).

Source: Kafka's ``CoordinatorRuntime``; the images are ours.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pykraft.config import NodeConfig
from pykraft.core.status import Status
from pykraft.errors import ErrorCode, NotLeaderError, NotRunningError
from pykraft.host.delivery import CommittedBatch, Delivery, Registration
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.groups.group_table import GroupTable
from pykraft.host.inbox import Inbox
from pykraft.host.ports import AT_ONCE_MS
from pykraft.host.producers import Committed, Producers, ProposalOutcome, Rejected
from pykraft.log.log_scan import GroupBatches
from pykraft.protocol.batch import IMAGE_BEGIN_BIT, IMAGE_BIT, IMAGE_END_BIT, unpack_header
from pykraft.protocol.records import decode_group_batch, encode_group_batch
from pykraft.types import Epoch, Instant, NodeId, Offset

IMAGE_EVERY_BYTES: Final = 20 * 1024 * 1024
"""Bytes of the log after which the leader writes an image again; more if the image itself is large."""
IMAGE_SHARE: Final = 8
"""An image is written again after at least so many times its size."""
WRITE_SIZE_BYTES_MAX: Final = 512 * 1024
"""Bytes of one batch."""
WAITING_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of the changes that may wait; one more is refused."""
RETRY_MS: Final = 1_000
"""Pause after an image that the log did not take."""
OnWritten = Callable[[ErrorCode], None]
"""Gets NONE, or why a change is not known to be in the log."""


@dataclass(frozen=True, slots=True)
class _Change:
    value: bytes
    then: OnWritten


class GroupLog:
    """Of one node."""

    def __init__(
        self,
        inbox: Inbox,
        producers: Producers,
        delivery: Delivery,
        status: Callable[[], Status],
        config: NodeConfig,
        *,
        first_offset: Offset | None,
    ) -> None:
        """``first_offset`` is where the state begins in the recovered log; None: there is none."""
        self.table = GroupTable()
        self._inbox = inbox
        self._producers = producers
        self._delivery = delivery
        self._status = status
        self._node_id = config.node_id
        self._write_size_bytes_max = min(WRITE_SIZE_BYTES_MAX, config.raft.batch_size_bytes_max // 2)
        self._registration: Registration | None = None
        self._batches = GroupBatches()
        """Where committed batches of groups are."""
        self._next_image: GroupTable | None = None
        self._loaded_epoch: Epoch | None = None
        self._applied_end = Offset(0)
        self._waiting: deque[_Change] = deque()
        self._waiting_size_bytes = 0
        self._in_flight: list[_Change] = []
        self._written_end: Offset | None = None
        self._is_writing = False
        self._image: deque[tuple[int, list[bytes]]] = deque()
        self._image_size_bytes = 0
        self._bytes_since_image = 0
        self._retry_ms: int | None = None
        self._held: list[tuple[Offset, Callable[[], None]]] = []
        self._epoch = Epoch(-1)
        self._needs_step = False
        self.now = Instant(mono_ms=0, wall_ms=0)
        """The last known time."""
        if first_offset is not None:
            self._follow(first_offset)

    @property
    def is_loaded(self) -> bool:
        """Whether this leader has the whole state: everything that was committed before its epoch is applied."""
        status = self._status()
        if not status.leads or status.high_watermark is None:
            return False
        return self._registration is None or self._loaded_epoch == status.epoch

    def write(self, value: bytes, then: OnWritten) -> None:
        """Append a record of `group_table`; only a leader that `is_loaded` may call this."""
        if self._waiting_size_bytes + len(value) > WAITING_SIZE_BYTES_MAX:
            then(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        self._waiting.append(_Change(value, then))
        self._waiting_size_bytes += len(value)
        self._write_next()

    def hold(self, end_offset: Offset, then: Callable[[], None]) -> None:
        """Call ``then`` when a snapshot with this end may count, perhaps at once."""
        if self._may_count(end_offset):
            then()
            return
        self._held.append((end_offset, then))
        self._write_next()

    def appended(self, batches: Sequence[HeaderAndBytes]) -> None:
        """These batches are in the log."""
        if self._registration is None:
            for header, _ in batches:
                if header.is_group_state:
                    self._follow(header.base_offset)
                    break

    def truncated(self, end_offset: Offset) -> None:
        """The log was truncated here: if no batch of groups is left, begin with the next one."""
        if self._registration is not None and self._batches.first_offset is None and self._applied_end > end_offset:
            self._registration.remove()
            self._registration = None

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `pykraft.host.delivery.HostListener`."""
        for batch in batches:
            self._bytes_since_image += len(batch.data)
            if batch.is_control and (header := unpack_header(batch.data)).is_group_state:
                self._apply(header.attributes, batch)
                self._batches.add(header)
        self._applied_end = batches[-1].end_offset
        self._release()
        self._check_written()
        self._write_next()

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.HostListener`: a leader hears this when it has applied all before its epoch."""
        if leader_id is not None and leader_id == self._node_id:
            self._loaded_epoch = epoch
            self._write_next()

    def after_step(self, status: Status) -> None:
        """After a step: another leader, or another epoch, knows nothing of what waits here."""
        epoch = status.epoch if status.leads else Epoch(-1)
        if epoch == self._epoch and (status.leads or not self._waiting):
            return
        self._epoch = epoch
        self._image.clear()
        failed, self._waiting, self._waiting_size_bytes = self._waiting, deque(), 0
        for change in failed:
            change.then(ErrorCode.NOT_COORDINATOR)
        self._write_next()

    def poll(self, now: Instant) -> None:
        self.now = now
        self._needs_step = False
        if self._retry_ms is not None and self._retry_ms <= now.mono_ms:
            self._retry_ms = None
            self._write_next()

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        return AT_ONCE_MS if self._needs_step else self._retry_ms

    def _follow(self, from_offset: Offset) -> None:
        self._applied_end = from_offset
        self._registration = self._delivery.register(
            self, max(from_offset, self._delivery.start_offset), is_held=True, on_skipped=self._skipped
        )
        # Its first batches may come before this returns.
        self._registration.release()

    def _skipped(self, _from: Offset, to: Offset) -> None:
        """A snapshot replaced the log: an image follows."""
        self.table, self._next_image, self._batches = GroupTable(), None, GroupBatches()
        self._applied_end = to
        self._release()

    def _apply(self, bits: int, batch: CommittedBatch) -> None:
        if not bits & IMAGE_BIT:
            # An image that its leader did not end stands for nothing.
            self._next_image = None
            target = self.table
        else:
            if bits & IMAGE_BEGIN_BIT:
                self._next_image = GroupTable()
            if self._next_image is None:
                return
            target = self._next_image
        for record in decode_group_batch(batch.data):
            target.apply(record)
        if bits & IMAGE_END_BIT and self._next_image is not None:
            self.table, self._next_image = self._next_image, None
            self._bytes_since_image = 0

    def _may_count(self, end_offset: Offset) -> bool:
        """Whether a snapshot that ends here needs nothing of groups from before its end."""
        if self._registration is None:
            return True
        if self._applied_end < end_offset:
            return False
        image, first_offset = self._batches.image, self._batches.first_offset
        return first_offset is None or first_offset >= end_offset or (image is not None and image[0] >= end_offset)

    def _release(self) -> None:
        if self._held:
            held, self._held = self._held, []
            for end_offset, then in held:
                self.hold(end_offset, then)

    @property
    def _image_is_due(self) -> bool:
        if self._registration is None or self._retry_ms is not None:
            return False
        if any(self._applied_end >= end_offset for end_offset, _ in self._held):
            return True
        return self._bytes_since_image >= max(IMAGE_EVERY_BYTES, IMAGE_SHARE * self._image_size_bytes)

    def _write_next(self) -> None:
        """Propose the next batch, unless one is in flight."""
        if self._is_writing or not self.is_loaded:
            return
        if not self._image and self._image_is_due:
            self._begin_image()
        if self._image:
            bits, values = self._image.popleft()
        elif self._waiting:
            bits, values = 0, self._take_waiting()
        else:
            return
        batch = encode_group_batch(values, timestamp_ms=self.now.wall_ms, image_bits=bits)
        epoch = self._status().epoch
        self._is_writing, self._written_end = True, None
        proposed = self._producers.propose_batch(
            batch, epoch=epoch, on_outcome=self._has_outcome, on_accepted=lambda _: None
        )
        self._inbox.put(proposed)
        self._needs_step = True

    def _take_waiting(self) -> list[bytes]:
        size_bytes = 0
        while self._waiting and (
            not size_bytes or size_bytes + len(self._waiting[0].value) < self._write_size_bytes_max
        ):
            change = self._waiting.popleft()
            size_bytes += len(change.value)
            self._in_flight.append(change)
        self._waiting_size_bytes -= size_bytes
        return [change.value for change in self._in_flight]

    def _begin_image(self) -> None:
        pieces = [list[bytes]()]
        self._image_size_bytes = size_bytes = 0
        for value in self.table.image():
            if pieces[-1] and size_bytes + len(value) > self._write_size_bytes_max:
                pieces.append([])
                size_bytes = 0
            pieces[-1].append(value)
            size_bytes += len(value)
            self._image_size_bytes += len(value)
        last = len(pieces) - 1
        self._image.extend(
            (IMAGE_BIT | (IMAGE_BEGIN_BIT if at == 0 else 0) | (IMAGE_END_BIT if at == last else 0), values)
            for at, values in enumerate(pieces)
        )

    def _has_outcome(self, outcome: ProposalOutcome) -> None:
        if isinstance(outcome, Committed):
            self._written_end = outcome.end_offset
            self._check_written()
            return
        if self._image or not self._in_flight:
            # A part of an image without the others is worth nothing.
            self._image.clear()
            self._retry_ms = self.now.mono_ms + RETRY_MS
        is_full = isinstance(outcome, Rejected) and not isinstance(outcome.error, NotLeaderError | NotRunningError)
        self._end_write(ErrorCode.COORDINATOR_NOT_AVAILABLE if is_full else ErrorCode.NOT_COORDINATOR)

    def _check_written(self) -> None:
        """Answer when the batch in flight is committed and applied: it is read from memory or, if late, from a file."""
        if self._written_end is not None and self._written_end <= self._applied_end:
            self._end_write(ErrorCode.NONE)

    def _end_write(self, code: ErrorCode) -> None:
        self._is_writing, self._written_end = False, None
        done, self._in_flight = self._in_flight, []
        _answer(done, code)
        self._write_next()


def _answer(changes: Iterable[_Change], code: ErrorCode) -> None:
    for change in changes:
        change.then(code)
