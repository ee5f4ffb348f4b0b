"""One quorum of real processes under load and kill -9: every way in which its voters change.

The long form, in which changes come in any order, is `python -m tests.processes.churn`.
"""

import json
import random
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from lab.nodes.cluster import Cluster, PykraftNode
from pykraft.cli.main import pykraft
from pykraft.core.messages import MAY_BE_MADE_YET
from pykraft.local.child import Children
from pykraft.local.voters import QUICK
from pykraft.types import uuid_text
from tests.processes.changing import ATTEMPTS, DONE_BEFORE, ChangingQuorum, identity
from tests.processes.churn import AUTO_JOIN, THROUGHPUT
from tests.processes.commands import assert_one_line, run

pytestmark = pytest.mark.processes


class Operator:
    """Who types commands."""

    def __init__(self, quorum: ChangingQuorum) -> None:
        self._quorum = quorum

    @property
    def _asked(self) -> tuple[str, ...]:
        return ("quorum", "--bootstrap-controller", self._quorum.bootstrap)

    def sees_voters(self, *nodes: PykraftNode) -> None:
        """`describe` shows just these, each with its directory id and address."""
        told = CliRunner().invoke(pykraft, [*self._asked, "describe", "--status", "--json"])
        shown = json.loads(told.output)["currentVoters"]
        expected = [
            {"id": node.node_id, "directoryId": directory_id(node), "endpoints": [f"PLAINTEXT://127.0.0.1:{node.port}"]}
            for node in nodes
        ]
        assert shown == expected

    def adds(self, node: PykraftNode, refused: str = "") -> None:
        self._types("add-controller", "--command-config", str(node.config), refused=refused)

    def removes(self, node_id: int, directory: str, refused: str = "") -> None:
        self._types("remove-controller", "--controller-id", str(node_id), "-d", directory, refused=refused)

    def upgrades(self, level: int, refused: str = "") -> None:
        self._types("upgrade", "--feature", f"kraft.version={level}", refused=refused)

    def _types(self, *words: str, refused: str) -> None:
        """A command, and again while its answer asks for that, or does not know what came of it.

        A leader that was just elected does not know enough yet, and one that has just died told nobody what it did.
        """
        is_in_doubt = False
        done = run(*self._asked, *words)
        for _ in range(ATTEMPTS):
            has_doubt = MAY_BE_MADE_YET in done.stderr
            if (refused and refused in done.stderr) or not (has_doubt or "try again" in done.stderr):
                break
            is_in_doubt = is_in_doubt or has_doubt
            self._quorum.works()
            done = run(*self._asked, *words)
        if refused:
            assert_one_line(done, 1, refused)
        elif not is_in_doubt or not any(code.name in done.stderr for code in DONE_BEFORE):
            assert (done.returncode, done.stderr) == (0, ""), done


def directory_id(node: PykraftNode) -> str:
    key, _ = identity(node)
    assert key.directory_id is not None
    return uuid_text(key.directory_id)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_voters_change_in_every_way_and_nothing_is_lost(children: Children, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed: {seed}")
    cluster = Cluster(children, tmp_path, throughput=THROUGHPUT, properties=QUICK)
    quorum = ChangingQuorum(cluster, Random(seed))
    operator = Operator(quorum)
    cluster.start()
    one, two, three = quorum.nodes.values()

    # Static voters: they cannot be changed, only moved into the log, once each has told who it is.
    operator.removes(3, directory_id(three), refused="the voters are static (kraft.version 0)")
    two.process.kill()
    quorum.start(two)
    quorum.upgrade(victim=quorum.leader)
    operator.upgrades(1)
    operator.upgrades(2, refused="kraft.version 2 was refused: INVALID_UPDATE_VERSION")
    operator.sees_voters(one, two, three)

    # A node that is formatted and down cannot vote; it is added when it has caught up, though the leader dies.
    four = cluster.join(4)
    operator.adds(four, refused="node 4 cannot be reached")
    quorum.start(four)
    quorum.add(four, victim=quorum.leader)
    operator.sees_voters(one, two, three, four)

    # A voter is removed; it goes on as an observer. The wrong directory id removes nobody.
    operator.removes(3, directory_id(two), refused="VOTER_NOT_FOUND")
    quorum.remove(identity(three)[0], victim=three)
    operator.sees_voters(one, two, four)

    # A disk is replaced: the same id with another directory id is nobody, until the old entry is removed.
    former = directory_id(two)
    quorum.replace_disk(two)
    operator.adds(two, refused="DUPLICATE_VOTER")
    operator.removes(2, former)
    quorum.add(two, victim=four)
    operator.sees_voters(one, two, four)

    # A voter is started at another port.
    quorum.move(four, victim=two)
    operator.sees_voters(one, two, four)

    # A node that joins by itself, twice: the second time it has a new disk, and removes its own old entry.
    five = quorum.join(5, AUTO_JOIN)
    quorum.wait_for_voter(five)
    quorum.replace_disk(five, AUTO_JOIN)
    quorum.wait_for_voter(five)
    operator.sees_voters(one, two, four, five)

    # The leader is removed: it leads until that is committed, and then another one does.
    leader = quorum.leader
    operator.removes(leader.node_id, directory_id(leader))
    quorum.works()
    assert quorum.leader is not leader

    assert quorum.cluster.finish().acknowledged > 3_000
    assert not [node for node in quorum.nodes.values() if "Traceback" in node.log_path.read_text()]
