"""One node of PySyncObj, which keeps its log in memory and syncs nothing. Node 1 leads and proposes.

    python node.py -id N -peers HOST:PORT,... [-window N -size BYTES -seconds S -warm-up S]

The output is that of ``load/load.go``. The process that measures it has PySyncObj; the rest of the project does not.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable

from pysyncobj import SyncObj, SyncObjConf, replicated  # type: ignore[import-not-found] # it has an environment of its own

TICK_S = 0.002
"""Its default of 0.05 s lets one caller have ten answers a second."""
FIRST_TIMEOUTS_S = 0.4, 1.0
OTHER_TIMEOUTS_S = 2.0, 3.0
"""So that node 1 campaigns first."""
LEADER_TIMEOUT_S = 30.0


class Machine(SyncObj):  # type: ignore[misc] # as above
    """Applies nothing: what is measured is the replication."""

    @replicated  # type: ignore[untyped-decorator] # as above
    def put(self, value: bytes) -> None:
        """Replicate a value."""


def say(**event: object) -> None:
    """Print a line of JSON."""
    print(json.dumps(event), flush=True)


def run(machine: Machine, chosen: argparse.Namespace) -> None:
    """Keep as many values under way as the window has room for, until the time is over."""
    begin_s = time.perf_counter() + chosen.warm_up
    end_s = begin_s + chosen.seconds
    value, room = bytes(chosen.size), threading.Semaphore(chosen.window)
    took_ms: list[float] = []
    failed = 0
    is_begun = False

    def done_at(proposed_s: float) -> Callable[[object, object], None]:
        def done(_result: object, error: object) -> None:
            nonlocal failed
            if error:
                failed += 1
            elif proposed_s >= begin_s:
                took_ms.append((time.perf_counter() - proposed_s) * 1_000)
            room.release()

        return done

    while (now_s := time.perf_counter()) < end_s:
        if not is_begun and now_s >= begin_s:
            say(event="begin")
            is_begun = True
        if room.acquire(timeout=0.1):
            machine.put(value, callback=done_at(time.perf_counter()))
    for _ in range(chosen.window):
        room.acquire(timeout=5)
    lasted_s = time.perf_counter() - begin_s
    took_ms.sort()
    if not took_ms:
        sys.exit(f"nothing was acknowledged, and {failed} values were refused")
    say(
        event="end",
        operations=len(took_ms),
        seconds=lasted_s,
        p50_ms=took_ms[len(took_ms) // 2],
        p99_ms=took_ms[len(took_ms) * 99 // 100],
        failed=failed,
    )


def main(chosen: argparse.Namespace) -> None:
    """Serve, and with a window also propose."""
    peers = chosen.peers.split(",")
    own = peers.pop(chosen.id - 1)
    least_s, most_s = FIRST_TIMEOUTS_S if chosen.window else OTHER_TIMEOUTS_S
    config = SyncObjConf(
        autoTickPeriod=TICK_S,
        appendEntriesPeriod=TICK_S,
        raftMinTimeout=least_s,
        raftMaxTimeout=most_s,
        commandsQueueSize=1_000_000,
        appendEntriesUseBatch=True,
        logCompactionMinEntries=10**9,
        logCompactionMinTime=10**6,
    )
    machine = Machine(own, peers, config)
    if chosen.window:
        end_s = time.monotonic() + LEADER_TIMEOUT_S
        while not machine.isReady() or str(machine.getStatus()["leader"]) != own:
            if time.monotonic() > end_s:
                sys.exit(f"node 1 did not become the leader within {LEADER_TIMEOUT_S:g} s")
            time.sleep(0.02)
        run(machine, chosen)
    threading.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-id", type=int, required=True)
    parser.add_argument("-peers", required=True)
    parser.add_argument("-folder", help="not used: it keeps everything in memory")
    parser.add_argument("-window", type=int, default=0)
    parser.add_argument("-size", type=int, default=100)
    parser.add_argument("-seconds", type=float, default=3.0)
    parser.add_argument("-warm-up", type=float, default=1.0)
    try:
        main(parser.parse_args())
    except KeyboardInterrupt:
        os._exit(0)
