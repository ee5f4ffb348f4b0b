"""What strangers on a listener for clients cost an honest producer of 10 kB batches, and the leader.

    python -m lab.benchmarks.strangers [--runs N] [--seconds S] [--waiting N] [--connections N] [--frames N]

Three nodes; strangers and the producer each have a process of their own. The phases, each as often as --runs says:

- quiet: the producer alone;
- few: the producer alone, with fewer batches than a mebibyte;
- waiting: the same, while consumers wait at the end of the log, each for a mebibyte;
- worst: connections send a gzip batch of 500,000 records that is wrong at its end, and wait for the answer;
- hung up: the same, but each connection is closed after half a second, and another one opened;
- large: valid batches of nearly 8 MiB, each on a connection of its own, all at once (no producer meanwhile);
- delivery: a record goes to 50 consumers that wait for it, then to as many as --waiting says.

It prints the time of a produce in each phase (median of the medians, and their spread), the leader's processor time for
each, its peak of memory, and whether it led all the time. At the end of the quiet and of both worst phases a follower
is killed, misses 100 MB and is started again; how long it then takes to have them is printed, too.
"""

import argparse
import gzip
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from math import inf
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Final

from lab.bench.measure import Usage, usage_of
from lab.nodes.cluster import Cluster
from pykraft.config import TEST_TOPIC_NAME
from pykraft.errors import error_name
from pykraft.local.child import Children, wait_until
from pykraft.local.journal import Led
from pykraft.protocol.api import decode_response
from pykraft.protocol.batch import seal_batch
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.primitives import encode_varint
from pykraft.protocol.records import encode_batch
from pykraft.types import Epoch, Offset
from tests.host.clients.world import with_header
from tests.processes.wire import Wire, framed, request

PRODUCE_VERSION: Final = 9
WORST_RECORDS: Final = 500_000
HUNG_UP_S: Final = 0.5
SETTLE_S: Final = 10.0
"""Strangers need so long to begin."""
LIMITED: Final = {"few": 90, "waiting": 90}
"""So many batches of 10 kB are less than consumers wait for: what an answer to each costs is no part of waiting."""
MISSED_BATCHES: Final = 100
"""Of a megabyte each, which a follower misses."""
FEW: Final = 50
DELIVERIES: Final = 20


def produce(records: bytes) -> bytes:
    topics = [{"name": TEST_TOPIC_NAME, "partition_data": [{"index": 0, "records": records}]}]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 10_000, "topic_data": topics}
    return framed(request(ApiKey.PRODUCE, PRODUCE_VERSION, body))


def answered(wire: Wire) -> int:
    """The error code of the answer to a Produce request."""
    _, answer = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, wire.receive())
    return int(answer["responses"][0]["partition_responses"][0]["error_code"])


def log_size(partition: Path) -> int:
    return sum(path.stat().st_size for path in partition.glob("*.log"))


def batch(count: int, size_bytes: int) -> bytes:
    now_ms = int(time.time() * 1_000)
    return encode_batch([bytes(size_bytes)] * count, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=now_ms).data


def worst_batch() -> bytes:
    """Records with long times, of which the last has a number that is not its own."""

    def record(delta: int) -> bytes:
        body = b"\0" + b"\x80" * 7 + b"\0" + encode_varint(delta) + b"\1\1\0"
        return encode_varint(len(body)) + body

    body = b"".join(map(record, [*range(WORST_RECORDS - 1), 5]))
    data = seal_batch(gzip.compress(body), count=WORST_RECORDS, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=0)
    return bytes(with_header(data.data, attributes=1).data)


def wait_for_records(port: int, count: int) -> None:
    """Consumers that wait, for ever."""
    wanted = {"partition": 0, "current_leader_epoch": -1, "partition_max_bytes": 1 << 20}
    wires = [Wire(port) for _ in range(count)]
    while True:
        for wire in wires:
            topic = {"topic": TEST_TOPIC_NAME, "partitions": [{**wanted, "fetch_offset": _end(port)}]}
            body = {"max_wait_ms": 30_000, "min_bytes": 1 << 20, "max_bytes": 8 << 20, "topics": [topic]}
            wire.send(framed(request(ApiKey.FETCH, 11, body)))
        time.sleep(25)


def send_worst(port: int, count: int, message: bytes, *, hangs_up: bool = False) -> None:
    """Connections that send the worst batch again and again, for ever."""

    def go_on() -> None:
        while True:
            with suppress(OSError), Wire(port) as wire:
                wire.send(message)
                if hangs_up:
                    time.sleep(HUNG_UP_S)
                else:
                    answered(wire)

    threads = [threading.Thread(target=go_on) for _ in range(count)]
    for thread in threads:
        thread.start()


def hang_up(port: int, count: int, message: bytes) -> None:
    send_worst(port, count, message, hangs_up=True)


def deliver(port: int, count: int, results: SimpleQueue[int]) -> None:
    """One record after the other goes to all of these consumers."""
    message, offset = produce(batch(1, 90)), _end(port)
    wires = [Wire(port) for _ in range(count)]
    with Wire(port) as producer:
        for _ in range(DELIVERIES):
            part = {"partition": 0, "current_leader_epoch": -1, "partition_max_bytes": 1 << 20, "fetch_offset": offset}
            topic = {"topic": TEST_TOPIC_NAME, "partitions": [part]}
            body = {"max_wait_ms": 30_000, "min_bytes": 1, "max_bytes": 8 << 20, "topics": [topic]}
            for wire in wires:
                wire.send(framed(request(ApiKey.FETCH, 11, body)))
            producer.send(message)
            assert answered(producer) == 0
            for wire in wires:
                wire.receive()
            offset += 1
    results.put(DELIVERIES * count)


def _end(port: int) -> int:
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    with Wire(port) as wire:
        answer = wire.ask(ApiKey.LIST_OFFSETS, 7, {"topics": [{"name": TEST_TOPIC_NAME, "partitions": [part]}]})
    return int(answer["topics"][0]["partitions"][0]["offset"])


def time_produces(port: int, seconds: float, most: float, results: SimpleQueue[list[float]]) -> None:
    """Send one batch of 10 kB after the other, so many at most; the times of all in ms."""
    message, times = produce(batch(100, 90)), list[float]()
    with Wire(port) as wire:
        end_s = time.perf_counter() + seconds
        while time.perf_counter() < end_s and len(times) < most:
            begin_s = time.perf_counter()
            wire.send(message)
            code = answered(wire)
            assert code == 0, error_name(code)
            times.append((time.perf_counter() - begin_s) * 1_000)
    results.put(times)


@contextmanager
def in_a_process(act: Callable[..., None], *arguments: object) -> Iterator[None]:
    """Something that another process does during the block."""
    process = multiprocessing.get_context("spawn").Process(target=act, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


class Desk:
    """A quorum, and its leader."""

    def __init__(self, cluster: Cluster, seconds: float) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self.leader_id = cluster.start().node
        self.port = cluster.nodes[self.leader_id].port

    def time(self, most: float = inf) -> tuple[float, float]:
        """The median time of a produce, and the leader's processor time for each; in ms."""
        context = multiprocessing.get_context("spawn")
        results, before_s = context.SimpleQueue(), self._usage().cpu_s
        with in_a_process(time_produces, self.port, self._seconds, most, results):
            times = results.get()
        return statistics.median(times), (self._usage().cpu_s - before_s) * 1_000 / len(times)

    def show(self, phase: str, found: list[tuple[float, float]]) -> None:
        medians, cpu = [each[0] for each in found], [each[1] for each in found]
        print(
            f"{phase:>8}: a produce {statistics.median(medians):6.1f} ms ({min(medians):.1f} to {max(medians):.1f}), "
            f"leader {statistics.median(cpu):5.2f} ms of processor, {self._usage().memory_mib:,.0f} MiB, "
            f"{self._leadership}",
            flush=True,
        )

    def catch_up(self) -> float:
        """How long a follower takes that missed much, from its start on; in s."""
        follower = next(node for id_, node in self._cluster.nodes.items() if id_ != self.leader_id)
        follower.process.kill()
        message = produce(batch(125, 8_000))
        with Wire(self.port) as wire:
            for _ in range(MISSED_BATCHES):
                wire.send(message)
                assert answered(wire) == 0
        all_bytes = log_size(self._cluster.nodes[self.leader_id].partition)
        begin_s = time.perf_counter()
        follower.start()
        wait_until(
            lambda: log_size(follower.partition) >= all_bytes, "the follower to catch up", alive=[follower.process]
        )
        return time.perf_counter() - begin_s

    def deliver(self, count: int) -> None:
        """Print what a record to each of these consumers costs."""
        context = multiprocessing.get_context("spawn")
        results, before_s = context.SimpleQueue(), self._usage().cpu_s
        with in_a_process(deliver, self.port, count, results):
            delivered = results.get()
        cost_us = (self._usage().cpu_s - before_s) * 1e6 / delivered
        print(f"delivery: a record to each of {count:,} consumers costs {cost_us:.0f} µs of processor for each")

    def send_large(self, count: int) -> None:
        """All at once; print how long all of them took."""
        message, answers = produce(batch(1_040, 8_000)), []

        def send() -> None:
            with Wire(self.port) as wire:
                wire.wait_at_most(300)
                wire.send(message)
                answers.append(answered(wire))

        threads = [threading.Thread(target=send) for _ in range(count)]
        begin_s = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(
            f"   large: {answers.count(0)} of {count} batches of {len(message):,} bytes acknowledged in "
            f"{time.perf_counter() - begin_s:.1f} s, leader {self._usage().memory_mib:,.0f} MiB, "
            f"{self._leadership}"
        )

    @property
    def _leadership(self) -> str:
        count = sum(isinstance(event, Led) for event in self._cluster.journal.events())
        return "led all the time" if count == 1 else "LOST the leadership"

    def _usage(self) -> Usage:
        process = self._cluster.nodes[self.leader_id].process
        return usage_of(process.pid, process.name)


def main(chosen: argparse.Namespace) -> None:
    """Measure all phases in turn."""
    worst = produce(worst_batch())
    phases: dict[str, tuple[Callable[..., None], tuple[object, ...]] | None] = {
        "quiet": None,
        "few": None,
        "waiting": (wait_for_records, (chosen.waiting,)),
        "worst": (send_worst, (chosen.connections, worst)),
        "hung up": (hang_up, (chosen.connections, worst)),
    }
    with tempfile.TemporaryDirectory() as folder, Children() as children:
        cluster = Cluster(children, Path(folder), throughput=0, properties={"pykraft.client.listeners": "PLAINTEXT"})
        desk = Desk(cluster, chosen.seconds)
        found: dict[str, list[tuple[float, float]]] = {phase: [] for phase in phases}
        caught_up: dict[str, list[float]] = {phase: [] for phase in phases if phase not in LIMITED}
        for _ in range(chosen.runs):
            for phase, stranger in phases.items():
                with nullcontext() if stranger is None else in_a_process(stranger[0], desk.port, *stranger[1]):
                    if stranger is not None:
                        time.sleep(SETTLE_S)
                    found[phase].append(desk.time(LIMITED.get(phase, inf)))
                    if phase in caught_up:
                        caught_up[phase].append(desk.catch_up())
        for phase, times in found.items():
            desk.show(phase, times)
        for phase, took_s in caught_up.items():
            spread = f"{min(took_s):.1f} to {max(took_s):.1f}"
            print(
                f"{phase:>8}: a follower has the {MISSED_BATCHES} MB that it missed after "
                f"{statistics.median(took_s):.1f} s ({spread}), its start included"
            )
        for count in (FEW, chosen.waiting):
            desk.deliver(count)
        desk.send_large(chosen.frames)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What strangers on a listener for clients cost.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run")
    parser.add_argument("--waiting", type=int, default=2_000, help="consumers that wait")
    parser.add_argument("--connections", type=int, default=64, help="strangers that send the worst batch")
    parser.add_argument("--frames", type=int, default=200, help="large batches at once")
    main(parser.parse_args())
