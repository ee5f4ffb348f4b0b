"""The load that a leader writes: numbered records at a steady rate, their commits counted and told.

A record is: run id (8 bytes), epoch (int32), sequence (int64, from 0 at each claim of leadership), random
bytes up to the record size; big-endian. So whoever reads the log can say which acknowledged record is where.
Bounded by the bytes in flight; a leader that cannot keep up writes less, it never queues more.

Source: Kafka ``TestRaftServer.RaftWorkloadGenerator``, whose printout this one shares.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from pykraft.errors import UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.host.producers import Committed, Outcome
from pykraft.server.ack_pipe import AckPipe
from pykraft.server.clock import now
from pykraft.server.node import Node
from pykraft.server.stats import Stats
from pykraft.types import Epoch, NodeId

HEAD = struct.Struct(">8siq")
RECORD_SIZE_BYTES_MIN = HEAD.size
IN_FLIGHT_SIZE_BYTES_MAX = 4 * 1024 * 1024
PROPOSAL_SIZE_BYTES_MAX = 256 * 1024
PERIOD_S = 0.005
POOL_SIZE_BYTES = 1024 * 1024
UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Records a second while this node leads (-1: as many as it can), and the size of each."""

    records_per_s: int = 5_000
    record_size_bytes: int = 256

    def __post_init__(self) -> None:
        if self.records_per_s < UNLIMITED:
            raise UsageError(f"--throughput {self.records_per_s}: give records per second, or -1 for no limit")
        if not RECORD_SIZE_BYTES_MIN <= self.record_size_bytes <= PROPOSAL_SIZE_BYTES_MAX:
            allowed = f"from {RECORD_SIZE_BYTES_MIN} to {PROPOSAL_SIZE_BYTES_MAX} bytes"
            raise UsageError(f"--record-size {self.record_size_bytes}: a record holds {allowed}")


@dataclass(slots=True, kw_only=True)
class _Claim:
    """One term of leadership, from its begin (loop time in seconds)."""

    epoch: Epoch
    begun_s: float
    sequence: int = 0
    in_flight_size_bytes: int = 0
    is_over: bool = False


class Workload:
    """Writes while its node leads; also the listener that hears of leadership."""

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop, load: Load, acks: AckPipe | None) -> None:
        self.run_id = os.urandom(8)
        self._node = node
        self._loop = loop
        self._load = load
        self._acks = acks
        self._claim: _Claim | None = None
        self._stats = Stats(loop)
        pool = Random(self.run_id).randbytes(POOL_SIZE_BYTES)
        self._pool = pool + pool[: load.record_size_bytes]
        self._records_max = max(1, PROPOSAL_SIZE_BYTES_MAX // load.record_size_bytes)

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `Listener`; the workload counts its own proposals instead."""

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `Listener`: begin or end a term."""
        node_id = self._node.host.node_id
        if self._claim is not None:
            self._claim.is_over = True
            self._tell("resigned", epoch=self._claim.epoch)
            self._claim = None
        if leader_id is not None and leader_id == node_id:
            self._claim = _Claim(epoch=epoch, begun_s=self._loop.time())
            self._stats.reset()
            self._tell("leader", run=self.run_id.hex(), epoch=epoch)
            self._loop.call_soon(self._turn, self._claim)

    def close(self) -> None:
        """No more load."""
        if self._claim is not None:
            self._claim.is_over = True

    def _turn(self, claim: _Claim) -> None:
        """Propose what is due, then look again soon."""
        if claim.is_over:
            return
        try:
            self._propose_due(claim)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the node ends with it
            self._node.fail(error)
            return
        self._stats.print_if_due()
        self._loop.call_later(PERIOD_S, self._turn, claim)

    def _propose_due(self, claim: _Claim) -> None:
        size_bytes = self._load.record_size_bytes
        room = (IN_FLIGHT_SIZE_BYTES_MAX - claim.in_flight_size_bytes) // size_bytes
        if self._load.records_per_s == UNLIMITED:
            due = room
        else:
            elapsed_s = self._loop.time() - claim.begun_s
            due = min(room, int(elapsed_s * self._load.records_per_s) - claim.sequence)
        while due > 0 and not claim.is_over:
            count = min(due, self._records_max)
            self._propose(claim, count)
            due -= count

    def _propose(self, claim: _Claim, count: int) -> None:
        first_sequence = claim.sequence
        values = self._values(claim.epoch, first_sequence, count)
        claim.sequence += count
        claim.in_flight_size_bytes += count * self._load.record_size_bytes
        self._node.host.propose(
            values, epoch=claim.epoch, now=now(), on_outcome=self._on_outcome(claim, first_sequence, count)
        )

    def _on_outcome(self, claim: _Claim, first_sequence: int, count: int) -> Callable[[Outcome], None]:
        proposed_s = self._loop.time()

        def decided(outcome: Outcome) -> None:
            claim.in_flight_size_bytes -= count * self._load.record_size_bytes
            if not isinstance(outcome, Committed):
                return
            latency_ms = (self._loop.time() - proposed_s) * 1_000
            self._stats.committed(count, count * self._load.record_size_bytes, latency_ms)
            self._tell(
                "ack",
                run=self.run_id.hex(),
                epoch=claim.epoch,
                first_sequence=first_sequence,
                count=count,
                base_offset=outcome.base_offset,
                wall_ms=now().wall_ms,
                latency_ms=round(latency_ms, 3),
            )

        return decided

    def _values(self, epoch: Epoch, first_sequence: int, count: int) -> list[bytes]:
        rest_size_bytes = self._load.record_size_bytes - RECORD_SIZE_BYTES_MIN
        pack, run_id, pool = HEAD.pack, self.run_id, self._pool
        return [
            pack(run_id, epoch, sequence) + pool[(at := sequence * 64 % POOL_SIZE_BYTES) : at + rest_size_bytes]
            for sequence in range(first_sequence, first_sequence + count)
        ]

    def _tell(self, event: str, **fields: object) -> None:
        if self._acks is not None:
            self._acks.tell(event, node=self._node.host.node_id, **fields)
