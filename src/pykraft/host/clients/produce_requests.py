"""Produce for Kafka's own producers: whole batches go into the log as the client encoded them.

Only base offset and leader epoch of a batch change, which its CRC does not cover. It is checked first. A batch of an
idempotent producer is appended once: one that repeats an earlier batch gets the answer of that batch when it is
committed. Acks 1 waits like acks all. Invariant: NOT_LEADER_OR_FOLLOWER and NOT_ENOUGH_REPLICAS mean that the batch is
not in the log; after REQUEST_TIMED_OUT it may be, and a producer without an id may then write it twice.

Large batches are checked on a lane of their own, small ones at once; without an order a small batch would overtake a
large one, and its producer would hear that it is out of order. The lane works in small steps, first for connections
whose last batch was sound, and drops what came on a connection that is gone: a stranger's worst batches, which cost
seconds, delay other strangers. A batch also waits while an earlier one of the same producer has no place in the log
yet: the core may still reject that one, and the log would have a gap. Invariant: batches of a connection go on one by
one, in the order in which they came; connections do not wait for each other's checks.

Source: Kafka's ``ReplicaManager.appendRecords`` and ``SocketServer``; KIP-98; ours (ADR 065).
"""

import struct
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from pykraft.config import METADATA_TOPIC_ID
from pykraft.core.status import Status
from pykraft.errors import ErrorCode, NotLeaderError, NotRunningError, ProtocolError, RecordBatchTooLargeError
from pykraft.host.clients.producer_states import KnownBatch, ProducerStates
from pykraft.host.clients.records_profile import LATER_MS_MAX, StrictProfile, check_client_batch
from pykraft.host.clients.topics import TOPIC_ID_VERSION, ClientTopics, committed_end
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.inbound import Requester
from pykraft.host.inbox import Inbox
from pykraft.host.ports import AT_ONCE_MS, CheckInSteps, ConnectionId, Ports, run_steps
from pykraft.host.producers import Committed, OutcomeUnknown, Producers, ProposalOutcome, Rejected
from pykraft.protocol.api import RequestHeader
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader
from pykraft.protocol.compression import Compression
from pykraft.protocol.cut_frame import CutFrame
from pykraft.protocol.messages import APIS, ApiKey
from pykraft.protocol.primitives import read_compact_size, read_int16, read_int32, read_text
from pykraft.protocol.schema import Body
from pykraft.types import Buffer, Epoch, Offset, Uuid

CheckResult: TypeAlias = HeaderAndBytes | ProtocolError
"""A sound batch as it may be appended, or what is wrong with it."""


@dataclass(slots=True, eq=False)
class OrderedBatch:
    """One batch in its line; ``found`` is None until it is checked."""

    then: Callable[[CheckResult], None]
    found: CheckResult | None = None


class AppendOrder:
    """The lines of all connections that have one; most batches need none."""

    def __init__(self, is_held: Callable[[BatchHeader], bool]) -> None:
        """``is_held`` says whether an earlier batch of the same producer waits for its place."""
        self._is_held = is_held
        self._lines: dict[ConnectionId, deque[OrderedBatch]] = {}
        self._is_advancing = False

    def __len__(self) -> int:
        """How many connections have a line."""
        return len(self._lines)

    def join(self, connection: ConnectionId, then: Callable[[CheckResult], None]) -> OrderedBatch:
        """The next batch of this connection; ``then`` is called when it is checked and its turn has come."""
        batch = OrderedBatch(then)
        self._lines.setdefault(connection, deque()).append(batch)
        return batch

    def passes(self, connection: ConnectionId, found: CheckResult) -> bool:
        """True for a checked batch that needs no line."""
        return connection not in self._lines and (isinstance(found, ProtocolError) or not self._is_held(found[0]))

    def leave(self, connection: ConnectionId) -> None:
        """Nobody waits for the batches of this connection any more."""
        self._lines.pop(connection, None)

    def advance(self) -> None:
        """Let every batch go on whose turn has come; call it after a check, and when a batch has its place or none."""
        # A batch that goes on may reject another one, which calls this again: the loop below finds what that freed.
        if self._is_advancing or not self._lines:
            return
        self._is_advancing = True
        has_moved = True
        while has_moved:
            has_moved = False
            for connection, line in list(self._lines.items()):
                while line and (found := line[0].found) is not None:
                    if not isinstance(found, ProtocolError) and self._is_held(found[0]):
                        break
                    line.popleft().then(found)
                    has_moved = True
                if not line:
                    self._lines.pop(connection, None)
        self._is_advancing = False


CHECKED_AT_ONCE_SIZE_BYTES_MAX: Final = 4 * 1024
CHECKED_AT_ONCE_RECORDS_MAX: Final = 600
"""A larger batch is checked on a lane of its own, so that many records do not hold up the loop."""
FIRST_RECORDS_MAX: Final = 5_000
"""If the first batch of a connection has more records, its check leaves half of the time to others."""
CHECKING_SIZE_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes of all batches that wait to be checked."""
_COUNT: Final = struct.Struct(">i")
_COUNT_POSITION: Final = 57
ACKS: Final = (-1, 0, 1)
ZSTD_VERSION: Final = 7
"""The first version of Produce whose clients know zstd (KIP-110)."""

ClientAnswer: TypeAlias = Callable[[Body | ProtocolError | None], None]
"""Gets the body of the answer. None: the client wants none. An error closes its connection."""


class ProduceRequests:
    """Checks batches, proposes them, and answers when they are committed."""

    def __init__(
        self,
        *,
        ports: Ports,
        inbox: Inbox,
        producers: Producers,
        states: ProducerStates,
        topics: ClientTopics,
        strict: Callable[[], StrictProfile | None],
    ) -> None:
        self._ports = ports
        self._inbox = inbox
        self._producers = producers
        self._states = states
        self._topics = topics
        self._strict = strict
        self._order = AppendOrder(lambda header: states.is_waiting(header.producer_id))
        self._repeats: list[tuple[KnownBatch, Epoch, Callable[[ProposalOutcome], None]]] = []
        self._checking: dict[int, tuple[CheckInSteps, int]] = {}
        """The checks under way by number, and the bytes of each."""
        self._check_number = 0
        self._checking_size_bytes = 0
        self.wall_ms: int | None = None
        """The time of day when it was last known (wall ms)."""

    def handle(self, body: Body, version: int, requester: Requester, answer: ClientAnswer) -> Callable[[], None] | None:
        """Append the batches of one request; ``answer`` gets the answer later.

        With acks 0 there is none, but an error closes the connection: the client then asks who leads. Returns what to
        call when the connection is gone: nothing with acks 0, since a client may send its last records and leave.
        """
        checks: list[int] = []
        topics: list[Any] = body["topic_data"]
        names = [self._topics.asked(topic, version, "name") for topic in topics]
        rows: list[Body] = [
            {**told, "partition_responses": [None] * len(topic["partition_data"])}
            for topic, (_, told) in zip(topics, names, strict=True)
        ]
        unanswered = sum(len(topic["partition_data"]) for topic in topics)
        error: ErrorCode = ErrorCode.NONE

        def answer_part(row: Body, at: int, part: Body) -> None:
            nonlocal unanswered, error
            row["partition_responses"][at] = part
            error = error or part["error_code"]
            unanswered -= 1
            if not unanswered:
                finish()

        def finish() -> None:
            leader, endpoints = self._topics.leader_bodies(requester.listener)
            parts = [each for row in rows for each in row["partition_responses"]]
            moved = [each for each in parts if each["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER]
            for each in moved:
                each["current_leader"] = leader
            if body["acks"] == 0:
                answer(ProtocolError(f"a Produce request with acks 0 failed: {error.name}") if error else None)
            else:
                answer({"responses": rows, "node_endpoints": endpoints if moved else []})

        if not unanswered:
            answer({"responses": []})
        for row, topic, (name, _) in zip(rows, topics, names, strict=True):
            for at, part in enumerate(topic["partition_data"]):
                then = partial(answer_part, row, at)
                check = self._produce(body, version, requester, name, part, then)
                if check is not None:
                    checks.append(check)
        return partial(self._gone, requester.connection, checks) if checks and body["acks"] else None

    def _gone(self, connection: ConnectionId, checks: Sequence[int]) -> None:
        for number in checks:
            check = self._end_check(number)
            if check is not None:
                check.is_cancelled = True
        self._order.leave(connection)

    def _produce(
        self, body: Body, version: int, requester: Requester, name: str | None, part: Body, then: Callable[[Body], None]
    ) -> int | None:
        """Append one batch; returns the number of the check that it waits for, if that is not over."""

        def reply(error: ErrorCode, text: str | None = None, base_offset: int = -1) -> None:
            row = {"index": part["index"], "error_code": error, "base_offset": base_offset, "error_message": text}
            # Java's producer goes on after an unknown producer id only if it hears where the log starts (KIP-360).
            if error in (ErrorCode.NONE, ErrorCode.UNKNOWN_PRODUCER_ID):
                row["log_start_offset"] = self._topics.status().log_start_offset
            then(row)

        def decided(outcome: ProposalOutcome) -> None:
            match outcome:
                case Committed():
                    reply(ErrorCode.NONE, base_offset=outcome.base_offset)
                case OutcomeUnknown():
                    text = f"the leader of epoch {outcome.epoch} lost its leadership after it had appended the batch"
                    reply(ErrorCode.REQUEST_TIMED_OUT, text)
                case _:
                    reply(_code_of(outcome.error), str(outcome.error))

        def checked(found: CheckResult) -> None:
            # Raising what was found would tie it to this frame in a cycle.
            if isinstance(found, ProtocolError):
                reply(found.code, str(found))
                return
            try:
                self._append(found, self._topics.check(name, part["index"], by_id=version >= TOPIC_ID_VERSION), decided)
            except ProtocolError as error:
                reply(error.code, str(error))

        try:
            _check_request(body)
            self._topics.check(name, part["index"], by_id=version >= TOPIC_ID_VERSION)
        except ProtocolError as error:
            reply(error.code, str(error))
            return None
        return self._check(part["records"], version, requester, checked)

    def committed(self) -> None:
        """The high watermark rose: answer the repeats of batches below it."""
        end = committed_end(self._topics.status())
        self._states.committed(end)
        repeats, self._repeats = self._repeats, []
        for batch, epoch, decided in repeats:
            if batch.end_offset is not None and batch.end_offset <= end:
                decided(_committed(batch, epoch))
            else:
                self._repeats.append((batch, epoch, decided))

    def poll(self, status: Status) -> None:
        """After a step: repeats at a leader of an epoch that is over have an unknown outcome."""
        if self._repeats and not (status.leads and status.epoch == self._repeats[0][1]):
            repeats, self._repeats = self._repeats, []
            for batch, epoch, decided in repeats:
                decided(OutcomeUnknown(base_offset=batch.base_offset or Offset(0), epoch=epoch))

    def _check(
        self, records: Buffer | None, version: int, requester: Requester, then: Callable[[CheckResult], None]
    ) -> int | None:
        """Check a batch and let it go on when those before it on its connection have."""
        size_bytes_max = self._topics.config.raft.batch_size_bytes_max
        strict = self._strict()
        newest_ms = None if self.wall_ms is None else self.wall_ms + LATER_MS_MAX
        connection = requester.connection

        def steps() -> Generator[None, None, CheckResult]:
            try:
                found = yield from check_client_batch(
                    records, size_bytes_max=size_bytes_max, strict=strict, newest_ms=newest_ms
                )
                _check_codec(found[0], version)
            except ProtocolError as error:
                # The one that was raised holds the frames of the codec, and with them all that the records expanded to,
                # for as long as this batch waits for its turn.
                return ProtocolError(str(error), error.code)
            return found

        def checked(found: CheckResult) -> None:
            requester.is_trusted = not isinstance(found, ProtocolError)
            self._end_check(number)
            batch.found = found
            self._order.advance()
            # The proposal waits in the inbox: no frame brought it, so request a step.
            self._ports.wake_at(AT_ONCE_MS)

        size_bytes, count = 0 if records is None else len(records), _count_of(records)
        if size_bytes <= CHECKED_AT_ONCE_SIZE_BYTES_MAX and count <= CHECKED_AT_ONCE_RECORDS_MAX:
            found = run_steps(steps())
            requester.is_trusted = not isinstance(found, ProtocolError)
            if self._order.passes(connection, found):
                then(found)
            else:
                self._order.join(connection, then).found = found
            return None
        batch = self._order.join(connection, then)
        if self._checking_size_bytes + size_bytes > CHECKING_SIZE_BYTES_MAX:
            batch.found = ProtocolError("too many batches wait to be checked", ErrorCode.NOT_ENOUGH_REPLICAS)
            self._order.advance()
            return None
        # Connections whose last batch was sound come first, and small batches before large ones.
        is_trusted = requester.is_trusted
        trust = 1 if is_trusted is None else 0 if is_trusted else 2
        is_doubtful = is_trusted is False or (is_trusted is None and count > FIRST_RECORDS_MAX)
        check = CheckInSteps(steps(), checked, (trust, count), is_doubtful=is_doubtful)
        # By a number: a check that knew itself would stay, with its batch, until the next collection of garbage.
        self._check_number = number = self._check_number + 1
        self._checking[number] = check, size_bytes
        self._checking_size_bytes += size_bytes
        self._ports.submit_check(check)
        return number

    def _end_check(self, number: int) -> CheckInSteps | None:
        """Forget a check, if it is not over."""
        check, size_bytes = self._checking.pop(number, (None, 0))
        self._checking_size_bytes -= size_bytes
        return check

    def _append(self, found: HeaderAndBytes, status: Status, decided: Callable[[ProposalOutcome], None]) -> None:
        """Propose a checked batch, or wait for the one that it repeats. Errors: ProtocolError."""
        header, _ = found
        known: KnownBatch | None = None
        if header.producer_id >= 0:
            repeated = self._states.check(header, status.epoch)
            if repeated is not None:
                end = repeated.end_offset
                if end is not None and end <= committed_end(status):
                    decided(_committed(repeated, status.epoch))
                else:
                    self._repeats.append((repeated, status.epoch, decided))
                return
            known = self._states.propose(header)
        self._propose(found, known, status.epoch, decided)

    def _propose(
        self, batch: HeaderAndBytes, known: KnownBatch | None, epoch: Epoch, decided: Callable[[ProposalOutcome], None]
    ) -> None:
        def accepted(base_offset: Offset) -> None:
            if known is not None:
                known.base_offset = base_offset
                self._order.advance()

        def has_outcome(outcome: ProposalOutcome) -> None:
            if known is not None and isinstance(outcome, Rejected):
                self._states.withdraw(batch[0].producer_id, known)
                decided(outcome)
                self._order.advance()
            else:
                decided(outcome)

        proposed = self._producers.propose_batch(batch, epoch=epoch, on_outcome=has_outcome, on_accepted=accepted)
        if self._producers.is_overfull:
            full = ProtocolError("too many proposals wait for their outcome", ErrorCode.NOT_ENOUGH_REPLICAS)
            self._producers.reject(proposed.handle, full)
        else:
            self._inbox.put(proposed)


def _count_of(records: Buffer | None) -> int:
    """How many records a batch says that it has; 0 if it is too short for a header."""
    return _COUNT.unpack_from(records, _COUNT_POSITION)[0] if records and len(records) >= HEADER_SIZE_BYTES else 0


def _check_request(body: Body) -> None:
    if body["acks"] not in ACKS:
        raise ProtocolError(f"acks {body['acks']}: give 0, 1 or -1", ErrorCode.INVALID_REQUIRED_ACKS)
    if body["transactional_id"] is not None:
        raise ProtocolError("transactions are not supported", ErrorCode.INVALID_REQUEST)


def _check_codec(header: BatchHeader, version: int) -> None:
    if header.compression is Compression.ZSTD and version < ZSTD_VERSION:
        text = f"Produce v{version} does not know zstd, which came with version {ZSTD_VERSION}"
        raise ProtocolError(text, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _committed(batch: KnownBatch, epoch: Epoch) -> Committed:
    assert batch.base_offset is not None, "it is in the log"
    return Committed(base_offset=batch.base_offset, epoch=epoch, count=batch.count)


def _code_of(error: Exception) -> ErrorCode:
    """Kafka's code for a batch that is not in the log and never will be; clients try again after all but the third."""
    match error:
        case NotLeaderError() | NotRunningError():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        case RecordBatchTooLargeError():
            return ErrorCode.MESSAGE_TOO_LARGE
        case _:
            return ErrorCode.NOT_ENOUGH_REPLICAS


def refuse_too_large(header: RequestHeader, data: CutFrame) -> Body:
    """MESSAGE_TOO_LARGE for the first partition of a request of which only the beginning is known.

    Errors: ProtocolError for bytes that are no such request, and with acks 0, where there is no answer.
    """
    what, end, is_flexible = "ProduceRequest", len(data), header.api_version in APIS[ApiKey.PRODUCE].request.flexible
    if header.api_version not in APIS[ApiKey.PRODUCE].request.versions:
        raise ProtocolError(f"{what} v{header.api_version} is not supported", ErrorCode.UNSUPPORTED_VERSION)
    read_size = read_compact_size if is_flexible else read_int16
    read_count = read_compact_size if is_flexible else read_int32
    transaction_size_bytes, position = read_size(data, header.body_position, end, what)
    acks, position = read_int16(data, position + max(0, transaction_size_bytes), end, what)
    _, position = read_int32(data, position, end, what)  # the timeout
    topics, position = read_count(data, position, end, what)
    told: Body
    if header.api_version < TOPIC_ID_VERSION:
        size_bytes, position = read_size(data, position, end, what)
        told = {"name": read_text(data, position, end, size_bytes, what)}
    else:
        size_bytes = len(METADATA_TOPIC_ID)
        told = {"topic_id": Uuid(bytes(data[position : position + size_bytes]))}
    partitions, position = read_count(data, position + size_bytes, end, what)
    index, _ = read_int32(data, position, end, what)
    if topics < 1 or partitions < 1 or acks == 0:
        raise ProtocolError("its Produce request is too large")
    text = "the request is larger than any batch that this node takes (max.message.bytes)"
    row = {"index": index, "error_code": ErrorCode.MESSAGE_TOO_LARGE, "base_offset": -1, "error_message": text}
    return {"responses": [{**told, "partition_responses": [row]}]}
