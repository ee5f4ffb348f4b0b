"""A stream out of one quorum into another under kill -9: its driver, its Python workers, and the leaders of both.

    python -m tests.spark.sink_rounds [--rounds N] [--throughput N] [--seed N] [--directories]

Starts a quorum of three under load, an empty one, and `tests.spark.sink_stream` between them. A round kills, each after
a random time: 1. a Python process of Spark, of another kind each round: of a task, the parent of such, of the source's
offsets, or of the sink's commit; 2. the leader that the stream reads from, or the one that it writes to, or both, and
starts them again; 3. the driver, Java and Python at once, and starts it again while what was below it may still run.
Then it waits until the second quorum has as many records as were acknowledged in the first before the round's last
kill. After the last round the load ends. Then the second log must have the values of the first one, each once and in
the same order; and what was acknowledged in the first must be in it. Exit status 0 when all that holds.

With ``--directories`` the first quorum is one node, of which nothing is truncated, and the stream reads its directory.
While the driver is dead, the directory moves to another rack; every second time a copy of now takes its place first.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

from lab.nodes.cluster import Cluster, PykraftNode
from pykraft.errors import PykraftError
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import LISTENER, SOURCES
from pykraft.protocol.records import decode_records, scan
from pykraft.spark.data_source.live import LiveQuorum
from pykraft.text.words import counted
from pykraft.types import Endpoint, Offset
from tests.spark.descendants import Process, descendants
from tests.spark.directory_rounds import Racks
from tests.spark.kill_rounds import CALM

PAUSE_S_MAX = 1.0
PROGRESS_TIMEOUT_S = 400.0
LOOK_INTERVAL_S = 0.5
WORKER_KINDS = ("the sink's commit", "a task", "the stream's offsets", "a daemon")
LEADER_KINDS = ("target", "source", "both")


def run(folder: Path, *, rounds: int, throughput: int, seed: int, has_directories: bool = False) -> list[str]:
    """All rounds; what is wrong afterwards. Errors: LocalQuorumError when something does not go on."""
    dice = random.Random(seed)
    pause = Event()
    killed: Counter[str] = Counter()
    with Children() as children:
        (folder / "target").mkdir(parents=True)
        source = Cluster(
            children, folder / "source", size=1 if has_directories else 3, throughput=throughput, properties=CALM
        )
        properties = {**CALM, "pykraft.client.listeners": LISTENER}
        target = Cluster(children, folder / "target" / "quorum", throughput=0, properties=properties)
        for cluster in (source, target):
            cluster.start()
        racks, [first, *_] = Racks(folder / "racks"), source.nodes.values()
        racks.show(first)
        given = ["--path", racks.pattern] if has_directories else ["--from", ",".join(map(str, source.endpoints))]
        driver = Driver(children, folder, given, target.endpoints)
        driver.start()
        try:
            driver.wait_for(1)
            for number in range(rounds):
                begun = time.monotonic()
                kind = WORKER_KINDS[number % len(WORKER_KINDS)]
                leaders = "target" if has_directories else LEADER_KINDS[number % len(LEADER_KINDS)]
                pause.wait(dice.uniform(0, PAUSE_S_MAX))
                driver.kill_worker(kind, dice)
                pause.wait(dice.uniform(0, PAUSE_S_MAX))
                nodes = _kill_leaders(
                    [each for each, name in ((source, "source"), (target, "target")) if leaders in (name, "both")]
                )
                pause.wait(dice.uniform(0, PAUSE_S_MAX))
                assert driver.child.status is None, driver.child.log()
                driver.kill()
                promised = sum(each.count for each in source.journal.acknowledgements())
                for node in nodes:
                    node.start()
                if has_directories:
                    _change(racks, first, driver, promised if number % 2 else None)
                driver.start()
                driver.wait_for(promised)
                killed.update([kind, f"leader: {leaders}", "driver"])
                told = f"{promised} records, {time.monotonic() - begun:.0f} s"
                print(f"round {number + 1}: {kind}, leader of {leaders}, {told}", flush=True)
            source.end_load()
            source.wait_until_caught_up()
            wanted = Reading(source.endpoints).go_on()
            driver.wait_for(len(wanted))
            driver.kill()
        except BaseException:
            print(children.log_ends(), file=sys.stderr)
            raise
        finally:
            driver.end()
        found = problems_of(wanted, Reading(target.endpoints).go_on())
        verdict = source.finish()
    print(f"{verdict}; {len(wanted)} rows; killed: {dict(killed)}")
    return found


def _kill_leaders(clusters: Sequence[Cluster]) -> list[PykraftNode]:
    """Kill -9 to their leaders, which are returned."""
    nodes = [cluster.nodes[cluster.journal.leader_id()] for cluster in clusters]
    for node in nodes:
        node.process.kill()
    return nodes


def _change(racks: Racks, node: PykraftNode, driver: Driver, restored: int | None) -> None:
    """The directory moves; before that the driver reads so many records of a copy in its place."""
    if restored is not None:
        racks.restore(node)
        driver.start()
        driver.wait_for(restored)
        driver.kill()
    racks.show(node)


class Driver:
    """`tests.spark.sink_stream` as a process, and what it has written."""

    def __init__(self, children: Children, folder: Path, source: Sequence[str], target: Sequence[Endpoint]) -> None:
        self._children = children
        self._log_path = folder / "driver.log"
        self._target = Reading(target)
        words = [*source, "--to", ",".join(map(str, target))]
        checkpoint = folder / "checkpoint"
        self._command = [sys.executable, "-m", "tests.spark.sink_stream", *words, "--checkpoint", str(checkpoint)]
        self._environment = {"PYTHONPATH": f"{SOURCES}:{SOURCES.parent}"}
        self._child: Child | None = None
        self._seen: list[Process] = []

    @property
    def child(self) -> Child:
        """The process as it was started last."""
        assert self._child is not None
        return self._child

    def start(self) -> None:
        """Start it, the first time or again."""
        self._child = self._children.start("the driver", self._command, self._log_path, environment=self._environment)

    def wait_for(self, count: int) -> None:
        """Wait until the target has so many data records. Errors: LocalQuorumError; AssertionError when it ends."""
        looks = Event()

        def has_count() -> bool:
            looks.wait(LOOK_INTERVAL_S)  # to look takes some time, too
            return len(self._target.go_on()) >= count

        wait_until(has_count, f"{count} records in the second quorum", timeout_s=PROGRESS_TIMEOUT_S, alive=[self.child])

    def kill_worker(self, kind: str, dice: random.Random) -> None:
        """SIGKILL to a Python process below Spark's."""

        def candidates() -> list[Process]:
            below = descendants(self.child.pid)
            daemons = {each.pid for each in below if "daemon pyspark." in each.command}
            tasks = [each for each in below if each.parent in daemons and each.pid not in daemons]
            forked = {each.pid for each in below if each.parent in daemons}
            match kind:
                case "a task":
                    return [each for each in tasks if "sink_runner" not in each.command] or [
                        each for each in below if each.pid in forked
                    ]
                case "a daemon":
                    return [each for each in below if each.pid in daemons and each.pid not in forked]
                case "the sink's commit":
                    return [each for each in below if "sink_runner" in each.command]
                case _:
                    return [each for each in below if "source_runner" in each.command]

        there = wait_until(lambda: candidates() or None, f"a Python process for {kind}", alive=[self.child])
        dice.choice(there).kill()

    def kill(self) -> None:
        """SIGKILL to Java and Python; the other processes below may go on for a while."""
        below = descendants(self.child.pid)
        self._seen += below
        for process in below:
            if process.is_java:
                process.kill()
        self.child.kill()

    def end(self) -> None:
        """End what may be left, whatever happened."""
        if self._child is not None and self._child.status is None:
            self.kill()
        for process in self._seen:
            process.kill()


class Reading:
    """Reads the committed data records of a quorum, from where it was the time before."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = endpoints
        self._offset = Offset(1)
        self.values: list[bytes | None] = []
        """All so far."""

    def go_on(self) -> list[bytes | None]:
        """Read what is new; all so far. Nothing is new while the quorum has no leader."""
        try:
            with LiveQuorum(self._endpoints) as quorum:
                end_offset = quorum.extent().end_offset
                found = list(self._new(quorum, end_offset))
        except PykraftError:
            return self.values
        self.values += found
        self._offset = max(self._offset, end_offset)
        return self.values

    def _new(self, quorum: LiveQuorum, end_offset: Offset) -> Iterator[bytes | None]:
        for chunk in quorum.chunks(self._offset, end_offset):
            for position, header in scan(chunk):
                if not header.is_control and self._offset <= header.base_offset < end_offset:
                    batch = chunk[position : position + header.size_bytes]
                    yield from (record.value for record in decode_records(batch))


def problems_of(wanted: Sequence[bytes | None], found: Sequence[bytes | None]) -> list[str]:
    """What is wrong with the records of the target."""
    counts = Counter(found)
    doubled = [value for value, count in counts.items() if count > 1]
    missing = [value for value in wanted if value not in counts]
    foreign = set(counts) - set(wanted)
    problems = [
        f"{what}: {counted(len(values), 'record')}, the first one is {values[0]!r}"
        for what, values in (("missing", missing), ("doubled", doubled), ("foreign", sorted(map(repr, foreign))))
        if values
    ]
    if not problems and list(wanted) != list(found):
        problems.append("the records are in another order")
    return problems


def main(words: Sequence[str]) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--throughput", type=int, default=500, help="records a second")
    parser.add_argument("--seed", type=int, default=1, help="of the pauses and of the choice of a worker")
    parser.add_argument("--directories", action="store_true", help="read a directory, which moves and is restored")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="pykraft-sink-rounds-") as folder:
        found = run(
            Path(folder),
            rounds=options.rounds,
            throughput=options.throughput,
            seed=options.seed,
            has_directories=options.directories,
        )
    print("\n".join(found) or "every record of the first quorum is in the second once, in the same order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
