"""The load that a leader writes: numbered records at a steady rate; it counts and reports their commits.

A record is: run id (8 bytes), epoch (int32), sequence (int64, from 0 at each claim of leadership), random bytes up to
the record size; big-endian. So a reader of the log can find each acknowledged record. The random bytes are the same in
all records of one proposal. If the record size is too small for a sequence, all records of a proposal are the hash of
the first one's fields, and a reader of the log cannot tell them apart.

A claim is one term of leadership, with its own sequences. Invariant: a sequence is proposed again only after it was
rejected, and within one claim sequences reach the log in order. The load is bounded by what is in flight: a leader that
cannot keep up writes less; it never queues more. Throughput and latency are worded as in Kafka's test server.

Source: Kafka's ``TestRaftServer.RaftWorkloadGenerator``, ``ThroughputThrottler`` and ``WriteStats``.
"""

import asyncio
import hashlib
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from random import Random
from typing import Final, Protocol

from pykraft.errors import BufferFullError, NotLeaderError, UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.host.producers import Committed, ProposalOutcome, Rejected
from pykraft.protocol.records import HEADER_SIZE_BYTES
from pykraft.server.clock import now
from pykraft.text.words import percentiles
from pykraft.types import Epoch, Instant, NodeId

PRINT_PERIOD_S: Final = 5.0
LATENCY_MS_MAX: Final = 60_000
SHARES: Final = {"p75": 0.75, "p99": 0.99, "p999": 0.999}


class Stats:
    """Counts since the last printout."""

    def __init__(self, now_s: float) -> None:
        self._buckets: dict[int, int] = {}
        self._records = 0
        self._size_bytes = 0
        self._since_s = now_s

    def reset(self, now_s: float) -> None:
        self._buckets = {}
        self._records = self._size_bytes = 0
        self._since_s = now_s

    def committed(self, records: int, size_bytes: int, latency_ms: float) -> None:
        """Count this many records of ``size_bytes`` together, committed after ``latency_ms``."""
        bucket = min(round(latency_ms), LATENCY_MS_MAX)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + records
        self._records += records
        self._size_bytes += size_bytes

    def line_if_due(self, now_s: float) -> str | None:
        """The printout after five seconds, which begins a new period; None if not due or nothing was committed."""
        elapsed_s = now_s - self._since_s
        if elapsed_s < PRINT_PERIOD_S:
            return None
        line = self._line(elapsed_s) if self._records else None
        self.reset(now_s)
        return line

    def _line(self, elapsed_s: float) -> str:
        shares = percentiles(self._buckets.items(), SHARES)
        latencies = " ".join(f"{latency_ms:.1f} {name}" for name, latency_ms in shares.items())
        rate = self._size_bytes / elapsed_s
        return f"Throughput (bytes/second): {rate:.2f}, Latency (ms): {latencies}"


RUN_ID_SIZE_BYTES: Final = 8
RECORD_HEAD: Final = struct.Struct(f">{RUN_ID_SIZE_BYTES}siq")
TELLING_SIZE_BYTES_MIN: Final = RECORD_HEAD.size
"""A record of at least this size identifies itself; a smaller one does not."""
RECORD_SIZE_BYTES: Final = 256
RECORD_SIZE_BYTES_MIN: Final = 1
RECORD_SIZE_BYTES_MAX: Final = 1024 * 1024
IN_FLIGHT_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024
IN_FLIGHT_RECORDS_MAX: Final = 131_072
"""Limits the time for which creating small records blocks the loop."""
PROPOSAL_SIZE_BYTES_MAX: Final = 500 * 1024
"""Records are proposed in lists of about this size, two of which fill a batch; a larger record alone."""
PERIOD_S: Final = 0.002
"""How often the workload proposes what is due, as Kafka's throttle does at most. A high watermark waits longer for
records (ADR 059), so a batch does not come just when the followers fetch anew (ADR 105)."""
UNLIMITED: Final = -1
_POOL_SIZE_BYTES: Final = 1024 * 1024
_RECORD_OVERHEAD_BYTES_MAX: Final = 16
"""Most bytes that a batch adds to a value, rounded up: varints and attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Records a second while this node leads (-1: as many as possible), and their size. Errors: UsageError."""

    records_per_s: int = 5_000
    record_size_bytes: int = RECORD_SIZE_BYTES

    def __post_init__(self) -> None:
        if self.records_per_s < UNLIMITED:
            raise UsageError(f"--throughput {self.records_per_s}: give records per second, or -1 for no limit")
        if not RECORD_SIZE_BYTES_MIN <= self.record_size_bytes <= RECORD_SIZE_BYTES_MAX:
            allowed = f"from {RECORD_SIZE_BYTES_MIN} to {RECORD_SIZE_BYTES_MAX} bytes"
            raise UsageError(f"--record-size {self.record_size_bytes}: a record holds {allowed}")


class Proposer(Protocol):
    """The part of `pykraft.host.host.Host` that a workload needs."""

    @property
    def node_id(self) -> NodeId | None:
        """Id of this node."""

    def propose(
        self, values: Sequence[bytes], *, epoch: Epoch, now: Instant, on_outcome: Callable[[ProposalOutcome], None]
    ) -> int:
        """See `pykraft.host.host.Host`."""


@dataclass(slots=True, kw_only=True)
class _Claim:
    """One term of leadership; ``begun_s`` is a loop time in seconds."""

    epoch: Epoch
    begun_s: float
    sequence: int = 0
    in_flight_count: int = 0
    is_refused: bool = False
    is_refill_due: bool = False
    is_over: bool = False


class Workload:
    """Writes while its node leads; it is a listener and so hears of leadership."""

    def __init__(
        self,
        host: Proposer,
        loop: asyncio.AbstractEventLoop,
        load: Load,
        *,
        run_id: bytes,
        batch_size_bytes_max: int,
        write: Callable[..., None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """``write`` gets the events of a journal; ``failed`` gets bugs of ours.

        Errors: UsageError when a record does not fit into a batch.
        """
        record_size_bytes = load.record_size_bytes + _RECORD_OVERHEAD_BYTES_MAX
        room_bytes = batch_size_bytes_max - HEADER_SIZE_BYTES
        if record_size_bytes > room_bytes:
            raise UsageError(f"--record-size {load.record_size_bytes}: a batch has only {room_bytes} bytes for records")
        self._records_max = max(1, min(PROPOSAL_SIZE_BYTES_MAX, room_bytes) // record_size_bytes)
        self._in_flight_max = min(IN_FLIGHT_RECORDS_MAX, IN_FLIGHT_SIZE_BYTES_MAX // load.record_size_bytes)
        self._host = host
        self._loop = loop
        self._load = load
        self._run_id = run_id
        self._write = write
        self._failed = failed
        self._claim: _Claim | None = None
        self._is_resting = False
        self._stats = Stats(loop.time())
        pool = Random(run_id).randbytes(_POOL_SIZE_BYTES)
        self._pool = pool + pool[: load.record_size_bytes]

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `pykraft.host.delivery.HostListener`; the workload counts its own proposals instead."""

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.HostListener`: begin or end a term."""
        node_id = self._host.node_id
        if self._claim is not None:
            self._claim.is_over = True
            self._write("resigned", node=node_id, epoch=self._claim.epoch)
            self._claim = None
        if leader_id is not None and leader_id == node_id:
            self._claim = _Claim(epoch=epoch, begun_s=self._loop.time())
            self._stats.reset(self._loop.time())
            self._write("leader", node=node_id, run=self._run_id.hex(), epoch=epoch)
            self._loop.call_soon(self._turn, self._claim)

    def rest(self) -> None:
        """Write nothing more, in this claim and later ones; records in flight are still decided and reported."""
        self._is_resting = True

    def _turn(self, claim: _Claim) -> None:
        if claim.is_over:
            return
        self._propose_due(claim)
        line = self._stats.line_if_due(self._loop.time())
        if line is not None:
            self._print(line)
        self._loop.call_later(PERIOD_S, self._turn, claim)

    def _print(self, line: str) -> None:
        try:
            print(line, flush=True)  # noqa: T201 - this printout is the product
        except OSError as error:
            # Nobody gets the results of this load, so end the node instead of stopping the load silently.
            self._failed(UsageError(f"standard output: {error.strerror or error}"))

    def _refill(self, claim: _Claim) -> None:
        """A load without a limit continues as soon as there is room."""
        claim.is_refill_due = False
        self._propose_due(claim)

    def _propose_due(self, claim: _Claim) -> None:
        due = self._in_flight_max - claim.in_flight_count
        if self._load.records_per_s != UNLIMITED:
            elapsed_s = self._loop.time() - claim.begun_s
            due = min(due, int(elapsed_s * self._load.records_per_s) - claim.sequence)
        claim.is_refused = False
        while due > 0 and not (claim.is_over or claim.is_refused or self._is_resting):
            count = min(due, self._records_max)
            self._propose(claim, count)
            due -= count

    def _propose(self, claim: _Claim, count: int) -> None:
        first_sequence = claim.sequence
        values = self._values(claim.epoch, first_sequence, count)
        proposed_s = time.monotonic()
        claim.sequence += count
        claim.in_flight_count += count
        self._host.propose(
            values,
            epoch=claim.epoch,
            now=now(),
            on_outcome=lambda outcome: self._decided(outcome, claim, first_sequence, count, proposed_s),
        )

    def _decided(
        self, outcome: ProposalOutcome, claim: _Claim, first_sequence: int, count: int, proposed_s: float
    ) -> None:
        claim.in_flight_count -= count
        if isinstance(outcome, Rejected):
            self._refused(outcome, claim, first_sequence, count)
        if not isinstance(outcome, Committed):
            return
        latency_ms = (time.monotonic() - proposed_s) * 1_000
        self._stats.committed(count, count * self._load.record_size_bytes, latency_ms)
        self._write(
            "ack",
            node=self._host.node_id,
            run=self._run_id.hex(),
            epoch=claim.epoch,
            first_sequence=first_sequence,
            count=count,
            base_offset=outcome.base_offset,
            wall_ms=now().wall_ms,
            latency_ms=round(latency_ms, 3),
        )
        if self._load.records_per_s == UNLIMITED and not claim.is_refill_due:
            claim.is_refill_due = True
            self._loop.call_soon(self._refill, claim)

    def _refused(self, outcome: Rejected, claim: _Claim, first_sequence: int, count: int) -> None:
        claim.is_refused = True
        # Reuse the sequences only if nothing was proposed after them: otherwise they would reach the log out of order.
        if claim.sequence == first_sequence + count:
            claim.sequence = first_sequence
        if isinstance(outcome.error, NotLeaderError):
            self._stats.reset(self._loop.time())  # the node resigned: do not count time without leadership
        elif not isinstance(outcome.error, BufferFullError):
            self._failed(outcome.error)

    def _values(self, epoch: Epoch, first_sequence: int, count: int) -> list[bytes]:
        """The records of one proposal; their random bytes are the same, which saves most of the time to make them."""
        size_bytes = self._load.record_size_bytes
        if size_bytes < TELLING_SIZE_BYTES_MIN:
            head = RECORD_HEAD.pack(self._run_id, epoch, first_sequence)
            return [hashlib.blake2b(head, digest_size=size_bytes).digest()] * count
        rest_size_bytes = size_bytes - TELLING_SIZE_BYTES_MIN
        at = first_sequence * 64 % _POOL_SIZE_BYTES
        pack = struct.Struct(f"{RECORD_HEAD.format}{rest_size_bytes}s").pack
        sequences = range(first_sequence, first_sequence + count)
        rest = repeat(self._pool[at : at + rest_size_bytes])
        return list(map(pack, repeat(self._run_id), repeat(epoch), sequences, rest))
