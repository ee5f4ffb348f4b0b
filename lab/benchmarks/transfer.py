"""Measures leadership transfers from voter to voter under load: how long they take, and how long commits pause.

    python lab/benchmarks/transfer.py [NODES [RUNS]]

Five nodes and 15 transfers if no numbers are given. Prints one JSON object, and exits with 1 if the median transfer
takes 200 ms or more. For each transfer there are two figures: the time from the request until the leader that received
it knows that the other voter leads, which includes connecting and finding the leader; and the longest pause between two
acknowledgements around it. Invariant: the result is checked: the logs of all replicas are identical, and no
acknowledged record is missing.

Source: Raft dissertation §3.10.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Final

from lab.nodes.cluster import Cluster
from pykraft.client.remote.admin import Admin
from pykraft.errors import RefusedError
from pykraft.local.child import Children
from pykraft.local.journal import Acknowledged
from pykraft.types import Endpoint

RECORDS_PER_S: Final = 2_000
CATCH_UP_MS: Final = 10_000
TOOK_MS_END: Final = 200
"""The median must stay below this."""
SETTLING_S: Final = 1.0
"""Load between two transfers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """The result: a figure for each transfer, in ms."""

    took_ms: tuple[float, ...]
    pause_ms: tuple[float, ...]
    """The longest pause in acknowledgements around each transfer; the load lingers, so it is never 0."""
    missed: int
    """Transfers that ended with another leader than requested, or with none; no other figure counts them."""
    acknowledged: int

    @property
    def median_took_ms(self) -> float:
        """The median; infinite if no transfer succeeded."""
        return statistics.median(self.took_ms) if self.took_ms else inf


def failures(transferred: Transferred) -> list[str]:
    """The exceeded limits, as text."""
    if transferred.median_took_ms < TOOK_MS_END:
        return []
    return [f"the median of the transfers took {transferred.median_took_ms:.0f} ms, {TOOK_MS_END} ms or more"]


def transfer(children: Children, folder: Path, *, nodes: int, runs: int) -> Transferred:
    """Run the measurement in this empty folder. Errors: LocalQuorumError when the quorum fails."""
    cluster = Cluster(children, folder, size=nodes, throughput=RECORDS_PER_S)
    journal, settling = cluster.journal, int(RECORDS_PER_S * SETTLING_S)
    leader_id = int(cluster.start().node)
    journal.wait_for_acknowledged(settling, since=0)
    took_ms, pause_ms = [], []
    for _ in range(runs):
        target_id = leader_id % nodes + 1
        begun_s, mark = time.monotonic(), journal.mark()
        is_transferred = asyncio.run(_is_transferred(cluster.endpoints, target_id))
        took_s = time.monotonic() - begun_s
        journal.wait_for_acknowledged(settling, since=mark, except_by=leader_id if is_transferred else None)
        if is_transferred:
            took_ms.append(took_s * 1_000)
            pause_ms.append(longest_pause_ms(journal.acknowledgements(), journal.acknowledgements(since=mark)))
        leader_id = journal.leader_id()
    verdict = cluster.finish()
    return Transferred(
        took_ms=tuple(took_ms), pause_ms=tuple(pause_ms), missed=runs - len(took_ms), acknowledged=verdict.acknowledged
    )


def longest_pause_ms(known: Sequence[Acknowledged], late: Sequence[Acknowledged]) -> float:
    """The longest pause from the last acknowledgement before the ``late`` ones on; those are the end of ``known``."""
    before = known[: len(known) - len(late)]
    times_ms = sorted(one.wall_ms for one in (*before[-1:], *late))
    return max((after - ahead for ahead, after in pairwise(times_ms)), default=0)


async def _is_transferred(endpoints: Sequence[Endpoint], target_id: int) -> bool:
    async with Admin(endpoints) as admin:
        try:
            await admin.transfer_leadership(target_id, timeout_ms=CATCH_UP_MS)
        except RefusedError:
            return False
    return True


def main(nodes: str = "5", runs: str = "15") -> None:
    """Measure, and print the JSON."""
    with tempfile.TemporaryDirectory() as home, Children() as children:
        transferred = transfer(children, Path(home), nodes=int(nodes), runs=int(runs))
    failed = failures(transferred)
    print(json.dumps({**asdict(transferred), "failures": failed}))
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
