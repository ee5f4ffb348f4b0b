"""Measures how a new node joins a quorum through a snapshot: how long it takes, and what it costs the others.

    python lab/benchmarks/join.py [MIB [FOLDER]]

Prints one JSON object, and exits with 1 if the new node or the leader uses 150 MiB or more, or if the p99 commit
latency is more than three times what it was before the node joined. The snapshot has MIB (1024 by default). The log of
the quorum starts after a checkpoint of a given size. The quorum writes a steady load and is measured; then a node with
an empty directory joins it. The result has the peak memory of the new node and of the leader that serves it, and the
commit latency before and during the download.

Invariant: the result is checked: the snapshot of the new node is the leader's, byte by byte, the logs of all replicas
are identical, and no acknowledged record is missing.

Source: KIP-630 §FetchSnapshot.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Final

from lab.bench.measure import usage_of
from lab.bench.quorums import latencies_ms
from lab.nodes.cluster import Cluster, PykraftNode
from lab.nodes.logs import wait_for_end_offset
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children, wait_until
from pykraft.log.os_fs import OsFs
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path
from pykraft.snapshot.head import read_head
from pykraft.snapshot.writer import SnapshotWriter
from pykraft.types import Epoch, Offset, OffsetAndEpoch

JOINER_ID: Final = 9
RECORDS_PER_S: Final = 2_000
BEFORE_S: Final = 15.0
"""How long commits are measured before the node joins."""
STATE_RECORD_SIZE_BYTES: Final = 1_000
"""Size of the records in the snapshot."""
MEMORY_MIB_END: Final = 150
SLOWDOWN_MAX: Final = 3.0
WARM_UP_S: Final = 3.0
"""Load before the measurement: a quorum that has just started is slower."""
ACKNOWLEDGE_TIMEOUT_S: Final = 600.0
CHUNK_SIZE_BYTES: Final = 1024 * 1024
DOWNLOAD_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The result. Latencies are by name of the percentile, in ms."""

    snapshot_size_bytes: int
    download_s: float
    """From the start of the joining process until the snapshot is complete."""
    caught_up_s: float
    """From then until it holds everything that was acknowledged by then."""
    joiner_memory_mib: float
    leader_memory_mib: float
    leader_memory_before_mib: float
    before_ms: Mapping[str, float]
    during_ms: Mapping[str, float]
    acknowledged: int

    @property
    def slowdown(self) -> float:
        """How many times as long the slowest percent of commits took during the download."""
        return self.during_ms["p99"] / self.before_ms["p99"]


def failures(joined: Joined) -> list[str]:
    """The exceeded limits, as text."""
    memory = {"the new node": joined.joiner_memory_mib, "the leader": joined.leader_memory_mib}
    found = [f"{who} used {mib:.0f} MiB" for who, mib in memory.items() if mib >= MEMORY_MIB_END]
    if joined.slowdown > SLOWDOWN_MAX:
        found.append(f"the p99 commit latency was {joined.slowdown:.2f} times as high during the download")
    return found


def join(children: Children, folder: Path, snapshot_mib: int, *, before_s: float = BEFORE_S) -> Joined:
    """Run the measurement in this empty folder.

    Errors: LocalQuorumError when the quorum fails, the leader changes meanwhile, or the copies differ.
    """
    cluster = Cluster(children, folder, throughput=RECORDS_PER_S, is_dynamic=True)
    voters = [*cluster.nodes.values()]
    snapshot_id = give_snapshot(voters, snapshot_mib * 2**20)
    leader = cluster.nodes[cluster.start().node]
    journal = cluster.journal
    journal.wait_for_acknowledged(int(RECORDS_PER_S * WARM_UP_S), since=0, timeout_s=ACKNOWLEDGE_TIMEOUT_S)
    mark = journal.mark()
    journal.wait_for_acknowledged(int(RECORDS_PER_S * before_s), since=mark, timeout_s=ACKNOWLEDGE_TIMEOUT_S)
    before_ms = latencies_ms(journal.acknowledgements(since=mark))
    leader_memory_before_mib = _memory_mib(leader)

    joiner = cluster.join(JOINER_ID)
    whole = checkpoint_path(joiner.partition, snapshot_id)
    mark, begun_s = journal.mark(), time.monotonic()
    joiner.start()
    alive = [node.process for node in cluster.nodes.values()]
    wait_until(whole.exists, "the snapshot to be fetched", timeout_s=DOWNLOAD_TIMEOUT_S, alive=alive)
    fetched_s = time.monotonic()
    during_ms = latencies_ms(journal.acknowledgements(since=mark))
    wait_for_end_offset(joiner.partition, journal.end_offset, joiner.process)
    caught_up_s = time.monotonic()
    joiner_memory_mib, leader_memory_mib = _memory_mib(joiner), _memory_mib(leader)

    if journal.leader_id() != leader.node_id:
        raise LocalQuorumError(f"node {leader.node_id} led at the start, but node {journal.leader_id()} at the end")
    verdict = cluster.finish()
    require_same(checkpoint_path(leader.partition, snapshot_id), whole)
    return Joined(
        snapshot_size_bytes=whole.stat().st_size,
        download_s=fetched_s - begun_s,
        caught_up_s=caught_up_s - fetched_s,
        joiner_memory_mib=joiner_memory_mib,
        leader_memory_mib=leader_memory_mib,
        leader_memory_before_mib=leader_memory_before_mib,
        before_ms=before_ms,
        during_ms=during_ms,
        acknowledged=verdict.acknowledged,
    )


def give_snapshot(nodes: list[PykraftNode], size_bytes: int) -> OffsetAndEpoch:
    """Put a checkpoint of about this size into the directory of each node; their logs start after it."""
    first = nodes[0].partition
    count = max(1, size_bytes // STATE_RECORD_SIZE_BYTES)
    snapshot_id = OffsetAndEpoch(Offset(count), Epoch(1))
    fs = OsFs()
    _, head = read_head(fs, first, BOOTSTRAP_ID)
    writer = SnapshotWriter(
        fs,
        first,
        snapshot_id,
        _AsItIs(),
        last_contained_log_timestamp=time.time_ns() // 1_000_000,
        kraft_version=head.kraft_version,
        voters=head.voters,
    )
    pool = Random(0).randbytes(CHUNK_SIZE_BYTES)
    places = CHUNK_SIZE_BYTES - STATE_RECORD_SIZE_BYTES
    starts = (number * 64 % places for number in range(count))
    writer.append(pool[start : start + STATE_RECORD_SIZE_BYTES] for start in starts)
    writer.freeze()
    for node in nodes[1:]:
        os.link(checkpoint_path(first, snapshot_id), checkpoint_path(node.partition, snapshot_id))
    return snapshot_id


def _memory_mib(node: PykraftNode) -> float:
    return usage_of(node.process.pid, node.process.name).memory_mib


def require_same(one: Path, other: Path) -> None:
    """Errors: LocalQuorumError if the files differ."""
    with one.open("rb") as ours, other.open("rb") as theirs:
        while (chunk := ours.read(CHUNK_SIZE_BYTES)) == theirs.read(CHUNK_SIZE_BYTES):
            if not chunk:
                return
    raise LocalQuorumError(f"{one} and {other} differ")


class _AsItIs:
    def serialize(self, record: bytes) -> bytes:
        return record


def main(snapshot_mib: str = "1024", folder: str | None = None) -> None:
    """Measure, and print the JSON."""
    with tempfile.TemporaryDirectory(dir=folder) as home, Children() as children:
        joined = join(children, Path(home), int(snapshot_mib))
    failed = failures(joined)
    print(json.dumps({**asdict(joined), "slowdown": round(joined.slowdown, 3), "failures": failed}))
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
