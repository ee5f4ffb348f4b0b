"""Voters that change for as long as you like, on real processes under load and kill -9.

    python -m tests.processes.churn [--rounds N] [--seed N]

A quorum of three begins, by half of the seeds with static voters, which are moved into the log first. A round adds a
node, removes a voter or the leader, replaces a disk, moves a voter to another port, lets another node lead, or just
kills somebody. While a change is under way a node dies, mostly: the leader, or anybody. At the end nothing that was
acknowledged may be missing, all logs must be identical, and the voters must be those that were asked for. Exit status 0
when all that holds.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from lab.nodes.cluster import Cluster, PykraftNode
from pykraft.local.child import Children
from pykraft.local.voters import QUICK
from pykraft.types import ReplicaKey
from tests.processes.changing import ChangingQuorum, identity

AUTO_JOIN = {"controller.quorum.auto.join.enable": "true"}
NODES_MAX = 6
VOTERS_MIN, VOTERS_MAX = 3, 5
VICTIM_SHARE = 0.75
THROUGHPUT = 500


class Churn:
    """The rounds; ``wanted`` is who is to vote."""

    def __init__(self, quorum: ChangingQuorum, rng: Random) -> None:
        self.quorum = quorum
        self.rng = rng
        self.wanted: dict[int, ReplicaKey] = {node_id: identity(node)[0] for node_id, node in quorum.nodes.items()}
        self.done: Counter[str] = Counter()

    def begin(self) -> None:
        """Move static voters into the log; nothing can be changed before."""
        self.quorum.upgrade(self._victim())
        self.done["upgrade"] += 1

    def round(self) -> None:
        """One change, chosen from those that can be made."""
        changes = {
            "join": len(self.quorum.nodes) < NODES_MAX,
            "add": len(self.wanted) < VOTERS_MAX and len(self.wanted) < len(self.quorum.nodes),
            "remove": len(self.wanted) > VOTERS_MIN,
            "remove_leader": len(self.wanted) > VOTERS_MIN,
            "replace_disk": True,
            "move": True,
            "transfer": True,
            "kill": True,
        }
        name = self.rng.choice([name for name, is_possible in changes.items() if is_possible])
        print(f"-- {name}, voters {sorted(self.wanted)} of {sorted(self.quorum.nodes)}", flush=True)
        getattr(self, f"_{name}")()
        self.done[name] += 1
        self.quorum.works()
        voters = self.quorum.voters()
        assert voters == self.wanted, f"voters are {voters}, and {self.wanted} were asked for"

    def _join(self) -> None:
        self.quorum.join(max(self.quorum.nodes) + 1)

    def _add(self) -> None:
        node_id = self.rng.choice(sorted(set(self.quorum.nodes) - set(self.wanted)))
        self._voter(self.quorum.nodes[node_id])

    def _remove(self) -> None:
        self._no_voter(self.rng.choice(sorted(self.wanted)))

    def _remove_leader(self) -> None:
        self._no_voter(self.quorum.leader.node_id)

    def _replace_disk(self) -> None:
        node = self.quorum.nodes[self.rng.choice(sorted(self.wanted))]
        former = self.quorum.replace_disk(node)
        self.quorum.remove(former, self._victim())
        self._voter(node)

    def _move(self) -> None:
        """Observers are told where everybody is now; voters hear of their leader by themselves."""
        self.quorum.move(self.quorum.nodes[self.rng.choice(sorted(self.wanted))], self._victim())
        for node_id in set(self.quorum.nodes) - set(self.wanted):
            self.quorum.restart(self.quorum.nodes[node_id])

    def _transfer(self) -> None:
        self.quorum.transfer(self.rng.choice(sorted(self.wanted)), self._victim())

    def _kill(self) -> None:
        victim = self.quorum.nodes[self.rng.choice(sorted(self.quorum.nodes))]
        victim.process.kill()
        self.quorum.start(victim)

    def _voter(self, node: PykraftNode) -> None:
        self.quorum.add(node, self._victim())
        self.wanted[node.node_id] = identity(node)[0]

    def _no_voter(self, node_id: int) -> None:
        self.quorum.remove(self.wanted[node_id], self._victim())
        del self.wanted[node_id]
        self.quorum.restart(self.quorum.nodes[node_id])

    def _victim(self) -> PykraftNode | None:
        if self.rng.random() > VICTIM_SHARE:
            return None
        if self.rng.random() < 0.5:
            return self.quorum.leader
        return self.quorum.nodes[self.rng.choice(sorted(self.quorum.nodes))]


def main(rounds: int, seed: int) -> None:
    """All rounds, then the check."""
    print(f"seed {seed}")
    rng = Random(seed)
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Children() as children:
        try:
            is_dynamic = rng.random() < 0.5
            cluster = Cluster(children, Path(folder), throughput=THROUGHPUT, properties=QUICK, is_dynamic=is_dynamic)
            cluster.start()
            churn = Churn(ChangingQuorum(cluster, rng), rng)
            if not is_dynamic:
                churn.begin()
            for _ in range(rounds):
                churn.round()
            verdict = churn.quorum.cluster.finish()
        except BaseException:
            print(children.log_ends(), file=sys.stderr)
            raise
    print(verdict)
    print(f"{rounds} rounds in {time.monotonic() - begun_s:.0f} s: {dict(churn.done)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Voters that change under load and kill -9.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    given = parser.parse_args()
    main(given.rounds, given.seed)
