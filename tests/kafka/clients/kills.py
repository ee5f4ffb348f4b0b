"""One client produces and consumes through kills of the leader, and the logs then judge what it was told.

One producer after the other writes a segment of the records, each with another compression, while one consumer reads
all of them. The leader is killed with SIGKILL and restarted when the acknowledged records reach the next of equal
parts. On a busy machine kills take longer than planned; then further segments follow until the last one. Invariant:
each kill meets a producer at work.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from lab.nodes.cluster import Cluster
from lab.nodes.logs import read_stream, require_identical
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Child, Children
from pykraft.local.voters import HOST, QUICK
from pykraft.text.words import counted
from tests.kafka.clients.catalog import Contender, Order, Program
from tests.kafka.clients.verdict import Place, Verdict, codecs_of, judge, records_of

POLL_S: Final = 0.05
TOPIC: Final = "records"
"""The name that the quorum lists: some clients list all topics, and know no other name."""
COUNT_MAX: Final = 2**31 - 1
SECONDS_A_KILL: Final = 6.0
"""A kill and the way back take up to three seconds; so the rate leaves the producer some work between two kills."""
RATE_MAX: Final = 5_000.0
STALL_TIMEOUT_S: Final = 60.0
"""A client that makes no progress for this long has given up, or waits for something that never comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done; ``on_progress`` gets the number of acknowledged records and a line for a kill, or None."""

    count: int
    kills: int
    compressions: Sequence[str]
    is_idempotent: bool
    on_progress: Callable[[int, str | None], None]

    @property
    def rate(self) -> float:
        """Records per second."""
        return min(RATE_MAX, self.count / ((self.kills + 1) * SECONDS_A_KILL))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run of one client."""

    client: str
    version: str
    is_idempotent: bool
    compressions: tuple[str, ...]
    records: int
    kills: int
    seconds: float
    verdict: Verdict
    wrong_codecs: tuple[str, ...] = ()
    """What the log has instead of a compression that was asked for."""

    @property
    def problems(self) -> list[str]:
        """What breaks the promise of acks=all, or of idempotence."""
        verdict = self.verdict
        found = {
            "not acknowledged": self.records - verdict.acknowledged,
            "acknowledged and lost": verdict.lost,
            "misread by the consumer": verdict.misread,
        }
        if self.is_idempotent:
            found |= {"more than once in the log": verdict.doubled, "out of order": verdict.out_of_order}
        return [f"{counted(count, 'record')} {what}" for what, count in found.items() if count] + [*self.wrong_codecs]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "problems": self.problems}


class Output:
    """The places in the output of one running client."""

    def __init__(self, children: Children, name: str, program: Program, log_path: Path) -> None:
        self.places: list[Place] = []
        self._place_of = program.place_of
        reading, writing = os.pipe() if program.feed is not None else (None, None)
        self.child: Child = children.start(
            name,
            program.command,
            log_path,
            environment=program.environment,
            has_group=True,
            stdin=subprocess.DEVNULL if reading is None else reading,
        )
        if reading is not None and writing is not None and program.feed is not None:
            os.close(reading)
            Thread(target=_feed, args=(writing, program.feed), daemon=True).start()
        self._log_path, self._read_bytes = log_path, 0
        self._rest = b""

    def read(self) -> list[Place]:
        """What is new in its output."""
        with self._log_path.open("rb") as file:
            file.seek(self._read_bytes)
            new_bytes = file.read()
        self._read_bytes += len(new_bytes)
        *lines, self._rest = (self._rest + new_bytes).split(b"\n")
        found = [self._place_of(line.decode(errors="replace").rstrip("\r")) for line in lines]
        new = [place for place in found if place is not None]
        self.places += new
        return new


def run_through_kills(contender: Contender, plan: Plan, folder: Path) -> Outcome:
    """The whole run. Errors: LocalQuorumError when the client or the quorum gives up."""
    version, started = contender.version(), time.monotonic()
    with Children() as children:
        properties = {**QUICK, "pykraft.client.listeners": "PLAINTEXT", "pykraft.client.topic": TOPIC}
        cluster = Cluster(children, folder, throughput=0, properties=properties)
        cluster.start()
        count, acknowledged, read = _play(contender, plan, cluster, children, folder)
        cluster.stop()
        streams = {f"node {node_id}": read_stream(node.partition) for node_id, node in cluster.nodes.items()}
        require_identical(streams, end_offset=max(acknowledged.values()) + 1)
        longest = max(streams.values(), key=lambda stream: stream.end_offset)
    return Outcome(
        client=contender.name,
        version=version,
        is_idempotent=plan.is_idempotent,
        compressions=tuple(plan.compressions),
        records=count,
        kills=plan.kills,
        seconds=round(time.monotonic() - started, 1),
        verdict=judge(acknowledged, records_of(longest), read),
        wrong_codecs=tuple(wrong_codecs(codecs_of(longest), plan.compressions)),
    )


def wrong_codecs(found: Mapping[str, set[str]], asked: Sequence[str]) -> Iterator[str]:
    """Compressions that a client was asked for, segment by segment, and that no batch of it has, or others than these.

    A client may leave a batch alone that would only become larger.
    """
    for segment, codecs in sorted(found.items()):
        compression = asked[int(segment) % len(asked)]
        if compression not in codecs or not codecs <= {compression, "none"}:
            yield f"asked for {compression}, the log has {', '.join(sorted(codecs))}"


def _play(
    contender: Contender, plan: Plan, cluster: Cluster, children: Children, folder: Path
) -> tuple[int, dict[str, int], list[Place]]:
    servers = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())

    def order(count: int, **rest: Any) -> Order:
        return Order(servers=servers, topic=TOPIC, count=count, folder=folder, **rest)

    # It is ended when it has read what was acknowledged: nobody knows yet how many records that will be.
    consumer = Output(children, "consumer", contender.consumer(order(COUNT_MAX)), folder / "consumer.log")
    acknowledged: dict[str, int] = {}
    total = kills = 0
    for segment, compression in enumerate(cycle(plan.compressions)):
        if segment >= len(plan.compressions) and kills >= plan.kills:
            break
        count = max(1, plan.count // len(plan.compressions))
        total += count
        whole = order(count, segment=segment, rate=plan.rate, compression=compression, is_idempotent=plan.is_idempotent)
        log_path = folder / f"producer-{segment}.log"
        producer = Output(children, f"producer {segment}", contender.producer(whole), log_path)
        watch = Watch(producer)
        while watch.goes_on():
            acknowledged |= {value: offset for offset, value in producer.read()}
            story = None
            if kills < plan.kills and len(acknowledged) >= plan.count * (kills + 1) // (plan.kills + 1):
                kills += 1
                story = f"kill {kills} at {len(acknowledged):,} records: {kill_leader(cluster)}"
            plan.on_progress(len(acknowledged), story)
        acknowledged |= {value: offset for offset, value in producer.read()}
        if producer.child.status:
            raise LocalQuorumError(f"producer {segment} ended with {producer.child.status}:\n{tail(log_path)}")
    watch, end = Watch(consumer), max(acknowledged.values())
    while not consumer.places or consumer.places[-1][0] < end:
        if not watch.goes_on():
            raise LocalQuorumError(f"the consumer ended with {consumer.child.status}:\n{tail(folder / 'consumer.log')}")
        consumer.read()
    consumer.child.kill()
    return total, acknowledged, consumer.places


class Watch:
    """Says whether a client still runs, after a short pause. Errors: LocalQuorumError when it makes no progress."""

    def __init__(self, output: Output, *, timeout_s: float = STALL_TIMEOUT_S) -> None:
        self._output, self._timeout_s = output, timeout_s
        self._known = 0
        self._since = time.monotonic()
        self._never = Event()

    def goes_on(self) -> bool:
        """Wait a moment; True while it runs."""
        if self._output.child.status is not None:
            return False
        if len(self._output.places) > self._known:
            self._known, self._since = len(self._output.places), time.monotonic()
        if time.monotonic() - self._since > self._timeout_s:
            child = self._output.child
            raise LocalQuorumError(
                f"{child.name} made no progress for {self._timeout_s:g} s after {self._known} records:\n"
                f"{tail(child.log_path) if child.log_path is not None else ''}"
            )
        self._never.wait(POLL_S)
        return True


def kill_leader(cluster: Cluster) -> str:
    """Kill and restart the leader; tells which one it was, and which one follows."""
    mark, leader_id = cluster.journal.mark(), cluster.journal.leader_id()
    node = cluster.nodes[leader_id]
    node.process.kill()
    led = cluster.journal.wait_for_leader(since=mark)
    node.start()
    cluster.journal.wait_for_started(leader_id, since=node.start_mark, process=node.process)
    return f"node {leader_id} was killed, node {led.node} leads epoch {led.epoch}"


def _feed(descriptor: int, lines: Any) -> None:
    with os.fdopen(descriptor, "wb", buffering=0) as pipe:
        try:
            for line in lines:
                pipe.write(line)
        except BrokenPipeError:
            return  # the client has ended; its status says how


def tail(path: Path) -> str:
    """The last lines of a client's output."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-15:])
