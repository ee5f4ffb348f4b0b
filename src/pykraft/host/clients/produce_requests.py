"""Produce for Kafka's own producers: whole batches go into the log as the client encoded them.

Only base offset and leader epoch of a batch change, which its CRC does not cover. It is checked first, see
`pykraft.host.clients.records_profile`. A batch of an idempotent producer is appended once: one that repeats an earlier
batch gets the answer of that batch when it is committed. Acks 1 waits like acks all. Invariant: NOT_LEADER_OR_FOLLOWER
and NOT_ENOUGH_REPLICAS mean that the batch is not in the log; after REQUEST_TIMED_OUT it may be, and a producer without
an id may then write it twice.

Large batches are checked on the bulk lane, small ones at once; without an order a small batch would overtake a large
one, and its producer would hear that it is out of order. A batch also waits while an earlier one of the same producer
has no place in the log yet: the core may still reject that one, and the log would have a gap. Invariant: batches of a
connection go on one by one, in the order in which they came; connections do not wait for each other's checks.

Source: Kafka's ``ReplicaManager.appendRecords``, ``LogValidator`` and ``SocketServer``; KIP-98; ours (ADR 065).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from pykraft.core.status import Status
from pykraft.errors import ErrorCode, NotLeaderError, NotRunningError, ProtocolError, RecordBatchTooLargeError
from pykraft.host.clients.producer_states import KnownBatch, ProducerStates
from pykraft.host.clients.records_profile import StrictProfile, check_client_batch
from pykraft.host.clients.topics import ClientTopics, committed_end
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.inbound import Requester
from pykraft.host.inbox import Inbox
from pykraft.host.ports import AT_ONCE_MS, ConnectionId, Ports
from pykraft.host.producers import Committed, OutcomeUnknown, Producers, ProposalOutcome, Rejected
from pykraft.protocol.batch import BatchHeader
from pykraft.protocol.compression import Compression
from pykraft.protocol.schema import Body
from pykraft.types import Buffer, Epoch, Offset

CheckResult: TypeAlias = BatchHeader | ProtocolError
"""The header of a sound batch, or what is wrong with it."""


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
        return connection not in self._lines and (isinstance(found, ProtocolError) or not self._is_held(found))

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
                    if isinstance(found, BatchHeader) and self._is_held(found):
                        break
                    line.popleft().then(found)
                    has_moved = True
                if not line:
                    del self._lines[connection]
        self._is_advancing = False


CHECKED_AT_ONCE_SIZE_BYTES_MAX: Final = 4 * 1024
"""A larger batch is checked on the bulk lane, so that many records do not hold up the loop."""
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

    def handle(self, body: Body, version: int, requester: Requester, answer: ClientAnswer) -> None:
        """Append the batches of one request; ``answer`` gets the answer later.

        With acks 0 there is none, but an error closes the connection: the client then asks who leads.
        """
        topics: list[Any] = body["topic_data"]
        rows: list[Body] = [
            {"name": topic["name"], "partition_responses": [None] * len(topic["partition_data"])} for topic in topics
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
        for row, topic in zip(rows, topics, strict=True):
            for at, part in enumerate(topic["partition_data"]):
                self._produce(body, version, requester.connection, topic["name"], part, partial(answer_part, row, at))

    def _produce(
        self, body: Body, version: int, connection: ConnectionId, name: str, part: Body, then: Callable[[Body], None]
    ) -> None:
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
                self._append(found, part["records"], self._topics.check(name, part["index"]), decided)
            except ProtocolError as error:
                reply(error.code, str(error))

        try:
            _check_request(body)
            self._topics.check(name, part["index"])
        except ProtocolError as error:
            reply(error.code, str(error))
            return
        self._check(part["records"], version, connection, checked)

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
        self, records: Buffer | None, version: int, connection: ConnectionId, then: Callable[[CheckResult], None]
    ) -> None:
        """Check a batch and let it go on when those before it on its connection have."""
        size_bytes_max = self._topics.config.raft.batch_size_bytes_max
        strict = self._strict()

        def check() -> CheckResult:
            try:
                header = check_client_batch(records, size_bytes_max=size_bytes_max, strict=strict)
                _check_codec(header, version)
            except ProtocolError as error:
                # The one that was raised holds the frames of the codec, and with them all that the records expanded to,
                # for as long as this batch waits for its turn.
                return ProtocolError(str(error), error.code)
            return header

        if records is None or len(records) <= CHECKED_AT_ONCE_SIZE_BYTES_MAX:
            found = check()
            if self._order.passes(connection, found):
                then(found)
            else:
                self._order.join(connection, then).found = found
            return
        batch = self._order.join(connection, then)

        def checked(found: CheckResult) -> None:
            batch.found = found
            self._order.advance()
            # The proposal waits in the inbox: no frame brought it, so request a step.
            self._ports.wake_at(AT_ONCE_MS)

        self._ports.submit_read(check, checked)

    def _append(
        self, header: BatchHeader, data: Buffer, status: Status, decided: Callable[[ProposalOutcome], None]
    ) -> None:
        """Propose a checked batch, or wait for the one that it repeats. Errors: ProtocolError."""
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
        self._propose((header, data), known, status.epoch, decided)

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
