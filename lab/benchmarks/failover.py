"""How long a quorum of three processes acknowledges nothing after its leader ends, with Kafka's default timeouts.

    python lab/benchmarks/failover.py [HOW [ROUNDS]]

HOW is kill (kill -9, the default), term (SIGTERM, a graceful shutdown) or stop (SIGSTOP, a leader that hangs); 50
rounds if no number is given. In each round the leader gets the signal under load, and starts again (or runs on) after
another voter has acknowledged records. The time is that from the signal to the next acknowledgement of another voter.
Prints one JSON object with the median, the worst and all times in ms. Every log is checked at the end.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from lab.nodes.cluster import Cluster
from pykraft.local.child import Children

RECORDS_PER_S = 2_000
SETTLING = 2_000
"""Records between two rounds."""


def fail_over(cluster: Cluster, leader_id: int, how: str) -> tuple[float, int]:
    """End this leader, wait for another one, and let the first one return; ms until it was replaced, and who leads."""
    leader, journal = cluster.nodes[leader_id], cluster.journal
    mark, begun_ms = journal.mark(), time.time() * 1_000
    if how == "stop":
        leader.process.pause()
    elif how == "term":
        leader.process.terminate()
    else:
        leader.process.send_kill()
    journal.wait_for_acknowledged(1, since=mark, except_by=leader_id)
    first_ms = min(one.wall_ms for one in journal.acknowledgements(since=mark) if one.node != leader_id)
    if how == "stop":
        leader.process.resume()
    else:
        leader.process.wait()
        restarted = journal.mark()
        leader.start()
        journal.wait_for_started(leader_id, since=restarted, process=leader.process)
    settling = journal.mark()
    journal.wait_for_acknowledged(SETTLING, since=settling, except_by=leader_id)
    cluster.wait_until_caught_up()
    return first_ms - begun_ms, journal.leader_id()


def measure(how: str, rounds: int, folder: Path | None = None) -> tuple[list[float], int]:
    """The times in ms, with logs below ``folder``; and how many records were acknowledged."""
    with tempfile.TemporaryDirectory(dir=folder) as home, Children() as children:
        cluster = Cluster(children, Path(home), throughput=RECORDS_PER_S)
        leader_id = int(cluster.start().node)
        cluster.journal.wait_for_acknowledged(SETTLING, since=0)
        times_ms: list[float] = []
        for _ in range(rounds):
            took_ms, leader_id = fail_over(cluster, leader_id, how)
            times_ms.append(round(took_ms, 1))
        return times_ms, cluster.finish().acknowledged


def main(how: str = "kill", rounds: str = "50") -> None:
    """Measure, and print the JSON."""
    times_ms, acknowledged = measure(how, int(rounds))
    found = {"how": how, "rounds": len(times_ms), "median_ms": median(times_ms), "worst_ms": max(times_ms)}
    print(json.dumps({**found, "acknowledged": acknowledged, "times_ms": times_ms}))


if __name__ == "__main__":
    main(*sys.argv[1:])
