"""Three nodes as processes on this machine: committed records a second, latency, memory and CPU of each.

    python bench/quorum.py [--throughput N] [--record-size N] [--linger-ms N] [--seconds N] [--runs N]

Throughput -1 lets the leader write as much as it can. One line a run, then minimum, median and maximum of the runs:
disks and cores of a shared machine swing by a factor of two, so compare only what ran in turn.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from pykraft.client.journal import Acknowledged
from pykraft.local.child import Children
from pykraft.local.cluster import Cluster

WARM_UP_S = 2.0


def percentile(said: list[Acknowledged], share: float) -> float:
    """Latency in ms that this share of the records did not exceed."""
    ascending = sorted((one.latency_ms, one.count) for one in said)
    needed = share * sum(count for _, count in ascending)
    seen = 0
    for latency_ms, count in ascending:
        seen += count
        if seen >= needed:
            return latency_ms
    return 0.0


def cpu_s(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> int:
    """Resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


def measure(options: argparse.Namespace) -> dict[str, float]:
    """One run of a fresh quorum."""
    with Children() as children, tempfile.TemporaryDirectory(prefix="pykraft-bench-", dir=options.dir) as folder:
        cluster = Cluster(
            children,
            Path(folder),
            throughput=options.throughput,
            record_size_bytes=options.record_size,
            properties={"controller.quorum.append.linger.ms": str(options.linger_ms)},
        )
        leader = cluster.start()
        time.sleep(WARM_UP_S)
        mark = cluster.journal.mark()
        processes = {node_id: node.process.pid for node_id, node in cluster.nodes.items()}
        before_s = {node_id: cpu_s(pid) for node_id, pid in processes.items()}
        begun = time.monotonic()
        time.sleep(options.seconds)
        elapsed_s = time.monotonic() - begun
        said = cluster.journal.acknowledgements(since=mark)
        used = {node_id: (cpu_s(pid) - before_s[node_id]) / elapsed_s for node_id, pid in processes.items()}
        return {
            "records_per_s": sum(one.count for one in said) / elapsed_s,
            "p50_ms": percentile(said, 0.5),
            "p99_ms": percentile(said, 0.99),
            "leader_cpu": used[leader.node],
            "follower_cpu": statistics.mean(share for node_id, share in used.items() if node_id != leader.node),
            "memory_mib": max(memory_mib(pid) for pid in processes.values()),
        }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--throughput", type=int, default=-1)
    parser.add_argument("--record-size", type=int, default=100)
    parser.add_argument("--linger-ms", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dir", help="folder for the logs, for instance on tmpfs")
    options = parser.parse_args()
    runs = []
    for _ in range(options.runs):
        runs.append(measure(options))
        print("  ".join(f"{name} {value:,.2f}" for name, value in runs[-1].items()), flush=True)
    for name in runs[0]:
        values = sorted(run[name] for run in runs)
        print(f"{name}: {values[0]:,.2f} / {statistics.median(values):,.2f} / {values[-1]:,.2f}")


if __name__ == "__main__":
    main()
