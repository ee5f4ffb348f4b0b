"""The limit of a machine for one caller: what no quorum of three processes can do faster, whatever it is written in.

    python lab/benchmarks/chain.py [--records N] [--runs N] [--pause MS] [--directory DIR]

One process has a record at a time. It sends it to two others, appends it to a file of its own and syncs that; each of
the others appends and syncs it, too, and answers with one byte. The record is done when the first process and one other
have it, as with a quorum of three; then comes the next one, ``--pause`` milliseconds later. There are no rules, no
checks, no threads and no event loop, and each message is one call of the system to send and one to receive.

The suite's appenders tell how many bytes a disk takes; this tells how long one record must wait.
"""

import argparse
import os
import select
import socket
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Final

BATCH: Final = bytes(167) + b"x"
"""As long as a batch with one record of 100 bytes."""
FOLLOWERS: Final = 2
WARM_UP: Final = 100
STARTS_WITHIN_S: Final = 30.0


def append(file: int, position: int) -> int:
    """Append a batch and sync; where the next one goes."""
    os.pwrite(file, BATCH, position)
    os.fdatasync(file)
    return position + len(BATCH)


def follow(path: Path, port: int) -> None:
    """Append what arrives, until the other side closes."""
    file = os.open(path, os.O_CREAT | os.O_RDWR)
    position = 0
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while link.recv(len(BATCH), socket.MSG_WAITALL):
            position = append(file, position)
            link.send(b"k")


def lead(path: Path, links: list[socket.socket], records: int, pause_s: float) -> list[float]:
    """Seconds that each record took."""
    file = os.open(path, os.O_CREAT | os.O_RDWR)
    position = 0
    owed = dict.fromkeys(links, 0)  # answers of a follower that was not waited for
    took_s = []
    for _ in range(WARM_UP + records):
        time.sleep(pause_s)
        begun_s = time.perf_counter()
        for link in links:
            link.send(BATCH)
            owed[link] += 1
        position = append(file, position)
        while all(owed.values()):
            for link in select.select(links, [], [])[0]:
                answers = link.recv(owed[link])
                if not answers:
                    raise ConnectionError("a process that appends has ended; its error stands above")
                owed[link] -= len(answers)
        took_s.append(time.perf_counter() - begun_s)
    os.close(file)
    return took_s[WARM_UP:]


def measure(folder: Path, records: int, pause_s: float) -> list[float]:
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:
        server.settimeout(STARTS_WITHIN_S)
        port = server.getsockname()[1]
        for number in range(FOLLOWERS):
            # A fork has nothing to import; one that fails prints its error, and ends.
            follower = get_context("fork").Process(target=follow, args=(folder / f"follower-{number}", port))
            follower.start()
            stack.callback(follower.join)
            stack.callback(follower.kill)
        links = [stack.enter_context(server.accept()[0]) for _ in range(FOLLOWERS)]
        for link in links:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return lead(folder / "leader", links, records, pause_s)


def main() -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000, help="of a run")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--pause", type=float, default=0.0, metavar="MS", help="before each record")
    parser.add_argument("--directory", type=Path, help="on the disk to measure; the system's for temporary files")
    options = parser.parse_args()
    if options.records < 2 or options.runs < 1 or options.pause < 0:
        parser.error("give at least two records, one run, and no negative pause")
    if options.directory is not None and not options.directory.is_dir():
        parser.error(f"{options.directory} is not a directory")
    rates, medians_ms, p99s_ms = [], [], []
    for number in range(options.runs):
        with tempfile.TemporaryDirectory(dir=options.directory) as folder:
            took_s = measure(Path(folder), options.records, options.pause / 1_000)
        hundredths = statistics.quantiles(took_s, n=100)
        rates.append(len(took_s) / sum(took_s))
        medians_ms.append(statistics.median(took_s) * 1_000)
        p99s_ms.append(hundredths[98] * 1_000)
        print(f"run {number + 1}: {rates[-1]:,.0f} records/s, p50 {medians_ms[-1]:.2f} ms, p99 {p99s_ms[-1]:.2f} ms")
    for what, found in (("records/s", rates), ("p50 ms", medians_ms), ("p99 ms", p99s_ms)):
        print(f"{what}: {statistics.median(found):,.2f} ({min(found):,.2f}–{max(found):,.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
