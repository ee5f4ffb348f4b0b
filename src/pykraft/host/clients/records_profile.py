"""Which batches clients may write: the check of one batch, and the profile of records that holds at present.

Any client's batch is one whole batch of version 2 with a valid CRC, as many records as offsets, each of them well
formed and of a time that can be, nothing of a transaction, no control records. Java's replicas stop at a batch with
compression, keys, headers, empty values or several timestamps. With ``pykraft.client.records=auto`` such batches are
refused while a voter or an observer of the quorum is not known to be pykraft (`RecordsProfile`). A node learns this
from both directions: the client's name in the ApiVersions request of a replica that fetches, and pykraft's own APIs in
the answer of a node that it dialed. An observer of Kafka's counts for five minutes after its last Fetch, at any node.
Once such a batch is in the log, Kafka's replicas stop at that, and refusing more would protect none of them (ADR 202).
What may pass, such as a voter that is down, gets NOT_ENOUGH_REPLICAS, and clients try again.

Invariants: any other setting than ``auto`` decides alone; until such a batch is in the log, every voter in force but
this node is known to be pykraft, or the strict profile holds; at most REPLICAS_MAX replicas of each kind are
remembered, and forgetting a voter makes it unknown; no batch takes more memory than four of the largest do, nor more
time than RECORDS_MAX records.

Source: KIP-511 (the client's name), KIP-937 (times); Kafka's ``RecordsIterator`` and ``LogValidator``; ours (ADR 079).
"""

import re
from collections import OrderedDict
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pykraft.config import AUTO_RECORDS, KRAFT_RECORDS, NodeConfig
from pykraft.core.effects import Report
from pykraft.core.leader.progress import OBSERVER_SESSION_MS
from pykraft.core.messages import FetchRequest
from pykraft.core.status import Status
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.ports import Ports
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, check_crc, read_header, with_max_timestamp
from pykraft.protocol.compression import Compression
from pykraft.protocol.records import RECORDS_PER_STEP, Record, check_plain, iterate_body, open_batch
from pykraft.rpc.api_versions import SOFTWARE_NAME
from pykraft.types import Buffer, NodeId, Offset, ReportKind

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


BatchCheck: TypeAlias = Generator[None, None, HeaderAndBytes]
"""A check in steps of about a millisecond, but for decompression; it ends with the batch as it may be appended."""
LATER_MS_MAX: Final = 3_600_000
"""How far ahead of the leader's clock a record may be: the default of Kafka's ``message.timestamp.after.max.ms``."""
NO_TIMESTAMP: Final = -1


def check_client_batch(
    records: Buffer | None, *, size_bytes_max: int, strict: StrictProfile | None, newest_ms: int | None = None
) -> BatchCheck:
    """Check the one batch in ``records``; ``strict`` is None in the profile of any client's batch.

    ``newest_ms`` is the greatest timestamp that a record may have; None if the clock is unknown. As on Kafka's leader,
    a greatest timestamp in the header that is none of a record is corrected: searches by time rely on it.

    Errors: ProtocolError with CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP or MESSAGE_TOO_LARGE, or the code of
    ``strict``.
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
    yield
    times = yield from check_plain(header, body, is_kraft=strict is not None)
    if times is None:
        times = yield from _check_each(header, body, strict)
    least_ms, greatest_ms = times
    if least_ms < NO_TIMESTAMP or (newest_ms is not None and greatest_ms > newest_ms):
        text = f"its timestamps are from {least_ms} to {greatest_ms}, from 0 to {newest_ms} are accepted"
        raise ProtocolError(text, ErrorCode.INVALID_TIMESTAMP)
    return (header, records) if greatest_ms == header.max_timestamp else with_max_timestamp(records, greatest_ms)


def _check_each(
    header: BatchHeader, body: bytes, strict: StrictProfile | None
) -> Generator[None, None, tuple[int, int]]:
    least_ms, greatest_ms = 2**63, -(2**63)
    for index, record in enumerate(iterate_body(header, body)):
        if strict is not None:
            _check_kraft(header, record, strict)
        least_ms, greatest_ms = min(least_ms, record.timestamp_ms), max(greatest_ms, record.timestamp_ms)
        if index % RECORDS_PER_STEP == 0:
            yield
    return least_ms, greatest_ms


def _check_header(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("a client writes no control records")
    if header.is_transactional:
        raise _invalid("transactions are not supported")
    if header.is_log_append_time:
        raise ProtocolError("a client writes the time of creation", ErrorCode.INVALID_TIMESTAMP)
    if header.base_offset and header.compression is not Compression.NONE:
        # Kafka overwrites that of other batches, too.
        raise _invalid(f"the compressed batch begins at offset {header.base_offset}, the first of a batch is 0")
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


LOOKED_INTO_EVERY: Final = 64
"""While no batch is known that Kafka's replicas cannot read, the records of one in so many are looked into."""
REPLICAS_MAX: Final = 1_000
"""Replicas of pykraft that are remembered, and as many others."""
NO_ID: Final = NodeId(-1)
_TOLD: Final = re.compile(r"[A-Za-z0-9.-]{1,64}")
_SET: Final = StrictProfile(why="pykraft.client.records=kraft takes only what Kafka's own replicas can read")


def _is_unreadable(header: BatchHeader, data: Buffer | None) -> bool:
    """Whether Kafka's replicas stop at this batch of the log: by its header, and by its first records in ``data``."""
    if header.compression is not Compression.NONE or header.max_timestamp != header.base_timestamp:
        return True
    if data is None:
        return False
    body = bytes(memoryview(data)[HEADER_SIZE_BYTES : header.size_bytes])
    try:
        next(check_plain(header, body, is_kraft=True))
    except StopIteration:
        return True
    return False


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
        self._unreadable: Offset | None = None
        """Where the newest batch is that Kafka's replicas cannot read, as far as was looked; None without one."""
        self._skipped = 0

    def appended(self, batches: Sequence[HeaderAndBytes]) -> None:
        """These batches are in the log; most that Kafka cannot read say so in their header."""
        if self._config.client_records != AUTO_RECORDS:
            return
        for header, data in batches:
            if header.is_control:
                if header.is_group_state:
                    self._unreadable = header.base_offset
                continue
            is_looked_into = self._unreadable is None and self._skipped % LOOKED_INTO_EVERY == 0
            self._skipped += 1
            if _is_unreadable(header, data if is_looked_into else None):
                self._unreadable = header.base_offset

    def truncated(self, end_offset: Offset) -> None:
        if self._unreadable is not None and self._unreadable >= end_offset:
            self._unreadable, self._skipped = None, 0

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
        if self._unreadable is not None and self._unreadable >= status.log_start_offset:
            return None
        if self._others:
            replica_id = min(self._others, key=lambda each: (each not in status.voters.ids, each))
            who = "an observer without an id" if replica_id == NO_ID else f"replica {replica_id}"
            name = self._others[replica_id][1]
            # An observer may be a stranger that is gone already: clients try again.
            code = ErrorCode.INVALID_RECORD if replica_id in status.voters.ids else ErrorCode.NOT_ENOUGH_REPLICAS
            why = f"{who} is not pykraft, it calls itself {name} (pykraft.client.records=auto)"
            return StrictProfile(why=why, code=code)
        own_id, known = self._config.node_id, self._pykraft
        for voter in status.voters.voters:
            voter_id = voter.key.id
            if voter_id != own_id and voter_id not in known:
                why = f"voter {voter_id} is not known to be pykraft (pykraft.client.records=auto)"
                # It may be down, or this leader has not heard it yet: clients try again.
                return StrictProfile(why=why, code=ErrorCode.NOT_ENOUGH_REPLICAS)
        return None

    def after_step(self, status: Status) -> None:
        """After a step of a leader: log when the profile changes."""
        if not status.leads or self._config.client_records != AUTO_RECORDS:
            return
        if status.epoch != self._led_epoch:
            self._led_epoch, self._led_since_ms = status.epoch, None
        found = self.strict(status)
        if found is not None and found.code != ErrorCode.INVALID_RECORD and self._is_new_leader():
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
