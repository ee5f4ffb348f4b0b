"""A stream into tables under kill -9: its driver, its Python workers, and the leader that it reads from, in turn.

    python -m tests.spark.kill_rounds [--rounds N] [--throughput N] [--seed N] [--format delta|parquet] [--cluster]

Starts a quorum of three under load and `pykraft pipeline run --follow` beside it, which with ``--cluster`` has the
executors of a standalone cluster and speculation on: copies of tasks run beside them. A round kills, each after a
random time: 1. a Python process of Spark, of another kind each round, which must not end the stream; 2. the leader,
which is started again; 3. by turns the driver's Python process, Spark's Java process, or neither: the driver must end
as a whole, and is started again. Then it waits until the tables hold what was acknowledged before the round's last
kill. After the last round the load ends, and everything that was ever acknowledged must be in the tables once and in
order, and all four tables must agree. Exit status 0 when all that holds.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event

from lab.nodes.cluster import Cluster
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import HOST, QUICK, SOURCES
from tests.spark.archive import FEW_ROWS, QUICKLY, quick_java
from tests.spark.descendants import Process, descendants, wait_until_gone
from tests.spark.standalone import EXECUTOR_MEMORY, SPECULATION, environment, executors, standalone_cluster
from tests.spark.table_check import end_offset, problems_of

INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
"""How a command ends that was interrupted: the second when, on a busy machine, it took long to unwind
(`pykraft.cli.interrupt`).
"""
CALM = {**QUICK, "controller.quorum.append.linger.ms": "100"}
"""Ten batches a second: three nodes with 40 take a fifth of a core, which Spark needs."""
PAUSE_S_MAX = 1.0
LOOK_INTERVAL_S = 0.3
DAEMON = "daemon pyspark.worker"
PROGRESS_TIMEOUT_S = 400.0
WORKER_KINDS = ("a task", "the stream's offsets", "a daemon")
DRIVER_KINDS = ("Python", "Java", None)
"""What is killed of the driver; with None the stream itself must get over the worker and the leader."""


class Pipeline:
    """`pykraft pipeline run --follow` as a process; its executors are processes of a cluster if ``master`` is one."""

    def __init__(self, children: Children, folder: Path, source: Sequence[str], *, master: str | None = None) -> None:
        self._children = children
        self._log_path = folder / "pipeline.log"
        self.root = folder / "tables"
        words = ["run", "--tables", str(self.root), *source, "--follow"]
        conf = FEW_ROWS | {"spark.driver.extraJavaOptions": QUICKLY}
        self._environment = {"PYTHONPATH": str(SOURCES)}
        if master is not None:
            words += ["--master", master]
            conf |= SPECULATION | {"spark.executor.memory": EXECUTOR_MEMORY, "spark.driver.host": HOST}
            conf["spark.executor.extraJavaOptions"] = quick_java()
            self._environment |= environment(with_sources=True)
        confs = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        self._command = [sys.executable, "-m", "pykraft", "pipeline", *words, *confs]
        self._child: Child | None = None
        self._orphans: list[Process] = []
        """Processes of tasks whose daemon was killed: Java goes on with them, as long as it needs no other."""

    @property
    def child(self) -> Child:
        """The process as it was started last."""
        assert self._child is not None
        return self._child

    def start(self) -> None:
        """Start it, the first time or again."""
        self._child = self._children.start("the pipeline", self._command, self._log_path, environment=self._environment)

    def wait_for(self, offset: int, *directories: Path) -> None:
        """Wait until the tables hold everything below it, of the quorum or of each of these directories."""
        told = f"the tables to reach offset {offset}"
        looks = Event()

        def has_reached() -> bool:
            looks.wait(LOOK_INTERVAL_S)  # to look takes some time, too
            return min(map(partial(end_offset, self.root), directories or [None])) >= offset

        wait_until(has_reached, told, timeout_s=PROGRESS_TIMEOUT_S, alive=[self.child])

    def kill_worker(self, kind: str, dice: random.Random) -> None:
        """SIGKILL to a Python process below Spark's."""

        def candidates() -> list[Process]:
            below = self._below()
            tasks = self._tasks_in(below)
            match kind:
                case "a task":
                    return tasks
                case "a daemon":
                    return [each for each in below if DAEMON in each.command and each not in tasks]
                case _:
                    return [each for each in below if "source_runner" in each.command]

        there = wait_until(lambda: candidates() or None, f"a Python process for {kind}", alive=[self.child])
        chosen = dice.choice(there)
        self._orphans += [each for each in self._below() if each.parent == chosen.pid]
        chosen.kill()

    def kill_driver(self, *, is_java: bool) -> None:
        """SIGKILL to one half of it; the other half, and all below, must end by itself."""
        below = self._below()
        if is_java:
            next(each for each in below if each.is_java and "SparkSubmit" in each.command).kill()
            self.child.wait(timeout_s=60)
        else:
            self.child.kill()
        wait_until_gone(below)

    def stop(self) -> int:
        """End it as Ctrl-C does; its exit status."""
        below = self._below()
        self.child.signal(signal.SIGINT)
        status = self.child.wait(timeout_s=60)
        wait_until_gone(below)
        return status

    def end(self) -> None:
        """End what may be left, whatever happened."""
        for process in self._below():
            if "pykraft-keeper" not in process.command:  # it still has folders to remove
                process.kill()

    def _below(self) -> list[Process]:
        of_executors = [found for each in executors() for found in (each, *descendants(each.pid))]
        below = descendants(self.child.pid) + of_executors
        return below + [each for each in self._orphans if each.is_alive and each not in below]

    def _tasks_in(self, below: Sequence[Process]) -> list[Process]:
        daemons = {each.pid for each in below if DAEMON in each.command}
        return [each for each in below if each.parent in daemons or each in self._orphans]


def run(
    folder: Path, *, rounds: int, throughput: int, seed: int, master: str | None = None, first: int = 0
) -> list[str]:
    """So many rounds from the first on; what is wrong afterwards. Errors: LocalQuorumError when it does not go on."""
    dice = random.Random(seed)
    pause = Event()
    killed: Counter[str] = Counter()
    with Children() as children:
        cluster = Cluster(children, folder / "quorum", throughput=throughput, properties=CALM)
        cluster.start()
        bootstrap = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
        pipeline = Pipeline(children, folder, ["--bootstrap-controller", bootstrap], master=master)
        pipeline.start()
        try:
            pipeline.wait_for(1)
            for number in range(first, first + rounds):
                begun = time.monotonic()
                kind = WORKER_KINDS[number % len(WORKER_KINDS)]
                driver = DRIVER_KINDS[(number + number // len(DRIVER_KINDS)) % len(DRIVER_KINDS)]
                pause.wait(dice.uniform(0, PAUSE_S_MAX))
                pipeline.kill_worker(kind, dice)
                pause.wait(dice.uniform(0, PAUSE_S_MAX))
                leader = cluster.nodes[cluster.journal.leader_id()]
                leader.process.kill()
                pause.wait(dice.uniform(0, PAUSE_S_MAX))
                assert pipeline.child.status is None, pipeline.child.log()
                if driver is not None:
                    pipeline.kill_driver(is_java=driver == "Java")
                promised = cluster.journal.end_offset
                leader.start()
                if driver is not None:
                    pipeline.start()
                pipeline.wait_for(promised)
                killed.update([kind, f"node {leader.node_id}", *([driver] if driver else [])])
                took_s = time.monotonic() - begun
                print(
                    f"round {number + 1}: {kind}, node {leader.node_id}, {promised} records, {took_s:.0f} s", flush=True
                )
            cluster.end_load()
            caught_up_offset = cluster.wait_until_caught_up()
            pipeline.wait_for(caught_up_offset)
            status = pipeline.stop()
        except BaseException:
            print(children.log_ends(), file=sys.stderr)
            raise
        finally:
            pipeline.end()
    acknowledged = cluster.journal.acknowledgements()
    found = problems_of(pipeline.root, acknowledged)
    epochs = len({said.epoch for said in acknowledged})
    print(f"{sum(said.count for said in acknowledged)} records acknowledged in {epochs} epochs; killed: {dict(killed)}")
    return found + ([] if status in INTERRUPTED else [f"the pipeline ended with {status}"])


def main(words: Sequence[str]) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--throughput", type=int, default=500, help="records a second")
    parser.add_argument("--seed", type=int, default=1, help="of the pauses and of the choice of a worker")
    parser.add_argument("--cluster", action="store_true", help="executors of a standalone cluster, with speculation")
    options = parser.parse_args(words)
    # Started in the background by a script, this ignores SIGINT, and would hand that down to the pipeline.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pykraft-kill-rounds-")))
        found = run(
            folder,
            rounds=options.rounds,
            throughput=options.throughput,
            seed=options.seed,
            master=stack.enter_context(standalone_cluster(folder / "spark")) if options.cluster else None,
        )
    print("\n".join(found) or "everything acknowledged is in the tables once and in order, and all tables agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
