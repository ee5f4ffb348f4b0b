"""Produce for Kafka's own producers: whole batches go into the log as the client encoded them.

Only base offset and leader epoch of a batch change, which its CRC does not cover. It is checked first. A batch of an
idempotent producer is appended once: one that repeats an earlier batch gets the answer of that batch when it is
committed. Acks 1 waits like acks all. Invariant: NOT_LEADER_OR_FOLLOWER and NOT_ENOUGH_REPLICAS mean that the batch is
not in the log; after REQUEST_TIMED_OUT it may be, and a producer without an id may then write it twice.

Large batches are checked on the bulk lane, small ones at once; without an order a small batch would overtake a large
one, and its producer would hear that it is out of order. A batch also waits while an earlier one of the same producer
has no place in the log yet: the core may still reject that one, and the log would have a gap. Invariant: batches of a
connection go on one by one, in the order in which they came; connections do not wait for each other's checks.

Any client's batch is one whole batch of version 2 with a valid CRC, as many records as offsets, each of them well
formed, nothing of a transaction, no control records. Java's replicas stop at a batch with compression, keys, headers,
empty values or several timestamps. With ``pykraft.client.records=auto`` such batches are refused while a voter or an
observer of the quorum is not known to be pykraft (`RecordsProfile`). A node learns this from both directions: the
client's name in the ApiVersions request of a replica that fetches, and pykraft's own APIs in the answer of a node that
it dialed. An observer of Kafka's counts for five minutes after its last Fetch, at any node. Invariants: any other
setting than ``auto`` decides alone; every voter in force but this node is known to be pykraft, or the strict profile
holds; at most REPLICAS_MAX replicas of each kind are remembered, and forgetting a voter makes it unknown; no batch
takes more memory than four of the largest do, nor more time than RECORDS_MAX records.

Source: KIP-511 (the client's name); Kafka's ``RecordsIterator``; Kafka's ``ReplicaManager.appendRecords``,
``LogValidator`` and ``SocketServer``; KIP-98; ours (ADR 065, ADR 079).
"""

import re
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from pykraft.config import AUTO_RECORDS, KRAFT_RECORDS, NodeConfig
from pykraft.core.effects import Report
from pykraft.core.leader.progress import OBSERVER_SESSION_MS
from pykraft.core.messages import FetchRequest
from pykraft.core.status import Status
from pykraft.errors import ErrorCode, NotLeaderError, NotRunningError, ProtocolError, RecordBatchTooLargeError
from pykraft.host.clients.producer_states import KnownBatch, ProducerStates
from pykraft.host.clients.topics import ClientTopics, committed_end
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.inbound import Requester
from pykraft.host.inbox import Inbox
from pykraft.host.ports import AT_ONCE_MS, ConnectionId, Ports
from pykraft.host.producers import Committed, OutcomeUnknown, Producers, ProposalOutcome, Rejected
from pykraft.protocol.batch import BatchHeader, check_crc, read_header
from pykraft.protocol.compression import Compression
from pykraft.protocol.records import Record, are_plain_records, iterate_body, open_batch
from pykraft.protocol.schema import Body
from pykraft.rpc.api_versions import SOFTWARE_NAME
from pykraft.types import Buffer, Epoch, NodeId, Offset, ReportKind

RECORDS_MAX: Final = 500_000
"""Most records of one batch."""
EXPANSION_MAX: Final = 2
"""The records of a compressed batch may take so many times what a batch may; expanding them needs twice their size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictProfile:
    """KRaft's profile holds: why, and the code for a batch that only the other profile takes."""

    why: str
    code: ErrorCode = ErrorCode.INVALID_RECORD

    def breaks(self, rule: str) -> ProtocolError:
        text = f"Kafka's own replicas cannot read this batch, since {rule}; it is refused because {self.why}"
        return ProtocolError(text, self.code)


def check_client_batch(records: Buffer | None, *, size_bytes_max: int, strict: StrictProfile | None) -> BatchHeader:
    """The header of the one batch in ``records``; ``strict`` is None in the profile of any client's batch.

    Errors: ProtocolError with CORRUPT_MESSAGE, INVALID_RECORD or MESSAGE_TOO_LARGE, or the code of ``strict``.
    """
    if not records:
        raise _invalid("there are no records")
    header = read_header(records)
    if header.size_bytes < len(records):
        raise _invalid("there is more than one batch")
    if header.size_bytes > size_bytes_max:
        text = f"the batch takes {header.size_bytes} bytes, a batch may take {size_bytes_max}"
        raise ProtocolError(text, ErrorCode.MESSAGE_TOO_LARGE)
    check_crc(records, 0, header)
    _check_header(header)
    if strict is not None and header.compression is not Compression.NONE:
        raise strict.breaks(f"it is compressed with {header.compression.name.lower()}")
    _, body = open_batch(records, verify_crc=False, size_bytes_max=EXPANSION_MAX * size_bytes_max)
    if are_plain_records(header, body, is_kraft=strict is not None):
        return header
    for record in iterate_body(header, body):
        if strict is not None:
            _check_kraft(header, record, strict)
    return header


def _check_header(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("a client writes no control records")
    if header.is_transactional:
        raise _invalid("transactions are not supported")
    if not 0 < header.records_count <= RECORDS_MAX:
        raise _invalid(f"the batch has {header.records_count} records, from 1 to {RECORDS_MAX} are accepted")
    if header.records_count != header.last_offset_delta + 1:
        raise _invalid(f"the batch has {header.records_count} records for {header.last_offset_delta + 1} offsets")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        found = f"epoch {header.producer_epoch} and sequence {header.base_sequence}"
        raise _invalid(f"the batch of producer {header.producer_id} has {found}")


def _check_kraft(header: BatchHeader, record: Record, strict: StrictProfile) -> None:
    if record.key is not None:
        raise strict.breaks("a record has a key")
    if record.headers:
        raise strict.breaks("a record has headers")
    if not record.value:
        raise strict.breaks("a record has no value")
    if record.timestamp_ms != header.base_timestamp:
        raise strict.breaks("its records have different timestamps")


def _invalid(text: str) -> ProtocolError:
    return ProtocolError(text, ErrorCode.INVALID_RECORD)


REPLICAS_MAX: Final = 1_000
"""Replicas of pykraft that are remembered, and as many others."""
NO_ID: Final = NodeId(-1)
_TOLD: Final = re.compile(r"[A-Za-z0-9.-]{1,64}")
_SET: Final = StrictProfile(why="pykraft.client.records=kraft takes only what Kafka's own replicas can read")


class RecordsProfile:
    """The profile of one node that serves clients."""

    def __init__(self, ports: Ports, config: NodeConfig) -> None:
        self._ports = ports
        self._config = config
        self._pykraft: OrderedDict[NodeId, None] = OrderedDict()
        self._others: OrderedDict[NodeId, tuple[int, str]] = OrderedDict()
        """When a replica that is not pykraft fetched last (mono ms), and what it calls itself."""
        self._now_ms = 0
        self._led_epoch = -1
        self._led_since_ms: int | None = None
        self._reported: str | None = None

    def replica_fetched(self, request: FetchRequest, software: str | None) -> None:
        """A replica fetches on a connection whose client calls itself so; None: it did not say."""
        if request.replica is None and request.last_fetched_epoch < 0:
            # A consumer where no clients are served: the core refuses it.
            return
        replica_id = NO_ID if request.replica is None else request.replica.id
        if software == SOFTWARE_NAME:
            self._others.pop(replica_id, None)
            self.found_pykraft(replica_id)
        else:
            self._pykraft.pop(replica_id, None)
            self._others.pop(replica_id, None)
            name = software if software and _TOLD.fullmatch(software) else "a client without a name"
            self._others[replica_id] = (self._now_ms, name)
            if len(self._others) > REPLICAS_MAX:
                self._others.popitem(last=False)

    def found_pykraft(self, replica_id: NodeId) -> None:
        self._pykraft[replica_id] = None
        self._pykraft.move_to_end(replica_id)
        if len(self._pykraft) > REPLICAS_MAX:
            self._pykraft.popitem(last=False)

    def strict(self, status: Status) -> StrictProfile | None:
        """The strict profile and why it holds; None when any records may be written."""
        if self._config.client_records != AUTO_RECORDS:
            return _SET if self._config.client_records == KRAFT_RECORDS else None
        if self._others:
            replica_id = min(self._others)
            who = "an observer without an id" if replica_id == NO_ID else f"replica {replica_id}"
            name = self._others[replica_id][1]
            return StrictProfile(why=f"{who} is not pykraft, it calls itself {name} (pykraft.client.records=auto)")
        own_id, known = self._config.node_id, self._pykraft
        for voter in status.voters.voters:
            voter_id = voter.key.id
            if voter_id != own_id and voter_id not in known:
                why = f"voter {voter_id} is not known to be pykraft (pykraft.client.records=auto)"
                # A new leader has not heard every voter yet: its clients try again.
                code = ErrorCode.NOT_ENOUGH_REPLICAS if self._is_new_leader() else ErrorCode.INVALID_RECORD
                return StrictProfile(why=why, code=code)
        return None

    def after_step(self, status: Status) -> None:
        """After a step of a leader: log when the profile changes."""
        if not status.leads or self._config.client_records != AUTO_RECORDS:
            return
        if status.epoch != self._led_epoch:
            self._led_epoch, self._led_since_ms = status.epoch, None
        found = self.strict(status)
        if found is not None and found.code != ErrorCode.INVALID_RECORD:
            return
        why = None if found is None else found.why
        if why == self._reported:
            return
        self._reported = why
        if why is None:
            text = "clients may write any records: every replica is known to be pykraft"
        else:
            text = (
                f"clients may write only what Kafka's own replicas can read: {why}; "
                "such a replica stops at other records that are in the log already"
            )
        self._ports.report(Report(text=text, kind=ReportKind.CONNECTION))

    def poll(self, mono_ms: int) -> None:
        self._now_ms = mono_ms
        if self._led_since_ms is None:
            self._led_since_ms = mono_ms
        while self._others:
            replica_id, (seen_ms, _) = next(iter(self._others.items()))
            if mono_ms - seen_ms < OBSERVER_SESSION_MS:
                break
            del self._others[replica_id]

    def _is_new_leader(self) -> bool:
        since_ms = self._led_since_ms
        return since_ms is None or self._now_ms - since_ms < self._config.raft.fetch_timeout_ms


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
