"""A stream over directories into tables under kill -9, while directories come, go, move and are restored from copies.

    python -m tests.spark.directory_rounds [--rounds N] [--throughput N] [--seed N]

Starts a quorum of three under load, and `pykraft pipeline run --follow` over directories in racks. A directory has hard
links to the files of a node, so it grows with that node's log, and can be anywhere. A round kills a Python process of
Spark, then the leader, which is started again, then one half of the driver. Directories appear while the driver runs.
While it is dead, they move to other racks, go, return, or a copy of now takes the place of one. Then it is started, and
the tables must reach what was acknowledged before, in each directory that grows. At the end all three are there again,
and the tables must have each record of each of them once and in order, under one name. Exit status 0 when that holds.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from lab.nodes.cluster import Cluster, PykraftNode
from pykraft.local.child import Children
from pykraft.local.voters import PARTITION
from tests.spark.kill_rounds import CALM, INTERRUPTED, PAUSE_S_MAX, WORKER_KINDS, Pipeline
from tests.spark.table_check import problems_of, replicas_of

CHANGES = ("the second is restored", "the first moves", "the third goes", "the third returns")
"""One round has all kinds: the second appears in it, and in the end all move, the third for the first time."""

GROWING = (".log", ".index", ".timeindex")


class Racks:
    """The directories that the stream reads, of some of the nodes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._at: dict[int, Path] = {}
        self._copies: set[int] = set()
        self._count = 0

    @property
    def pattern(self) -> str:
        """Of all of them, now and later."""
        return f"{self._folder}/rack-*/n*/{PARTITION}"

    @property
    def growing(self) -> list[Path]:
        """The partitions that are no copies."""
        return [path / PARTITION for node_id, path in self._at.items() if node_id not in self._copies]

    def show(self, node: PykraftNode, *, is_copy: bool = False) -> None:
        """In another rack than before, in place of what is there of this node."""
        self.hide(node)
        self._count += 1
        path = self._folder / f"rack-{self._count}" / f"n{node.node_id}"
        shutil.copytree(
            node.partition.parent,
            path,
            copy_function=shutil.copy2 if is_copy else _link,
            ignore=shutil.ignore_patterns("*.tmp", "*.lock", ".lock", "quorum-state*"),
        )
        self._at[node.node_id] = path
        if is_copy:
            self._copies.add(node.node_id)

    def restore(self, node: PykraftNode) -> None:
        """A copy of its directory takes its place; the node is dead meanwhile, so the files are of one moment."""
        is_running = node.process.status is None
        node.process.kill()
        self.show(node, is_copy=True)
        if is_running:
            node.start()

    def hide(self, node: PykraftNode) -> None:
        """It goes, if it is there."""
        self._copies.discard(node.node_id)
        path = self._at.pop(node.node_id, None)
        if path is not None:
            shutil.rmtree(path)

    def change(self, what: str, nodes: Sequence[PykraftNode]) -> None:
        """One of `CHANGES`; a copy of the round before grows again."""
        first, second, third = nodes
        if second.node_id in self._copies:
            self.show(second)
        match what:
            case "the first moves":
                self.show(first)
            case "the second is restored":
                self.restore(second)
            case "the third goes":
                self.hide(third)
            case _:
                self.show(third)


def _link(source: str, target: str) -> None:
    """A hard link to a file that grows; a node writes its small ones anew."""
    (os.link if Path(source).suffix in GROWING else os.symlink)(source, target)


def run(folder: Path, *, rounds: int, throughput: int, seed: int) -> list[str]:
    """All rounds; what is wrong afterwards. Errors: LocalQuorumError when something does not go on."""
    dice, pause = random.Random(seed), Event()
    racks = Racks(folder / "racks")
    with Children() as children:
        cluster = Cluster(children, folder / "quorum", throughput=throughput, properties=CALM)
        cluster.start()
        nodes = list(cluster.nodes.values())
        racks.show(nodes[0])
        pipeline = Pipeline(children, folder, ["--path", racks.pattern])
        pipeline.start()
        try:
            pipeline.wait_for(1, *racks.growing)
            for number in range(rounds):
                if number + 1 < len(nodes):
                    racks.show(nodes[number + 1])
                pause.wait(dice.uniform(0, PAUSE_S_MAX))
                pipeline.kill_worker(WORKER_KINDS[number % len(WORKER_KINDS)], dice)
                pause.wait(dice.uniform(0, PAUSE_S_MAX))
                leader = cluster.nodes[cluster.journal.leader_id()]
                leader.process.kill()
                pause.wait(dice.uniform(0, PAUSE_S_MAX))
                pipeline.kill_driver(is_java=bool(number % 2))
                what = CHANGES[number % len(CHANGES)]
                racks.change(what, nodes)
                promised = cluster.journal.end_offset
                leader.start()
                pipeline.start()
                pipeline.wait_for(promised, *racks.growing)
                print(f"round {number + 1}: {what}, node {leader.node_id} was killed, {promised} records", flush=True)
            cluster.end_load()
            caught_up_offset = cluster.wait_until_caught_up()
            pipeline.kill_driver(is_java=False)
            for node in nodes:
                racks.show(node)
            pipeline.start()
            pipeline.wait_for(caught_up_offset, *racks.growing)
            status = pipeline.stop()
        except BaseException:
            print(children.log_ends(), file=sys.stderr)
            raise
        finally:
            pipeline.end()
    names = replicas_of(pipeline.root)
    found = [] if len(names) == len(nodes) else [f"rows of {sorted(names)} for {len(nodes)} directories"]
    acknowledged = cluster.journal.acknowledgements()
    for name in sorted(names):
        found += [f"{name}: {problem}" for problem in problems_of(pipeline.root, acknowledged, name)]
    return found + ([] if status in INTERRUPTED else [f"the pipeline ended with {status}"])


def main(words: Sequence[str]) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--throughput", type=int, default=500, help="records a second")
    parser.add_argument("--seed", type=int, default=1, help="of the pauses and of the choice of a worker")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="pykraft-directory-rounds-") as folder:
        found = run(Path(folder), rounds=options.rounds, throughput=options.throughput, seed=options.seed)
    print("\n".join(found) or "the tables have each record of each directory once and in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
