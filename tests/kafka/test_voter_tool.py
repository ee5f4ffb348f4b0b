"""Kafka's own ``kafka-metadata-quorum`` adds voters to our quorum and removes them, the leader too; ours does the same.

Each start of a JVM takes a second or two, so one quorum is asked many things:

1. An observer is added: first as a dry run, then in earnest, then once more.
2. What makes no sense is refused with our words, in Kafka's exception.
3. The leader is removed. At once the tool is given both nodes: the one that resigned sends it on.
4. The former leader, an observer now, is added again by our tool, and Kafka's shows what ours shows.

Kafka's ``kafka-features`` on our quorum, ``quorum upgrade`` on Kafka's: neither raises any other feature.
"""

import json
import re
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.kafka.java import Finished, Kafka, Main
from lab.nodes.cluster import Cluster
from pykraft.cli.main import pykraft
from pykraft.errors import OutcomeUnknownError, RefusedError
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, LISTENER, QUICK
from pykraft.types import ZERO_UUID, uuid_text
from tests.kafka.controller import JavaController
from tests.kafka.dynamic import DynamicQuorum
from tests.kafka.test_quorum_tool import REPLICATION, STATUS, masked_status, masked_table, ours, shown

pytestmark = pytest.mark.kafka

EXCEPTION = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+)Exception: (.*)")


class Tool:
    """Kafka's tool, on one quorum."""

    def __init__(self, kafka: Kafka, quorum: DynamicQuorum) -> None:
        self._kafka = kafka
        self._quorum = quorum

    def add(self, node_id: int, *flags: str) -> Finished:
        config = str(self._quorum.properties(node_id))
        return self._run("--command-config", config, "add-controller", *flags)

    def remove(self, node_id: int, directory_id: str, *flags: str) -> Finished:
        key = ("--controller-id", str(node_id), "--controller-directory-id", directory_id)
        return self._run("remove-controller", *key, *flags)

    def _run(self, *words: str) -> Finished:
        return self._kafka.run(Main.QUORUM, *self._quorum.bootstrap(), *words)


def refusal(done: Finished) -> tuple[str, str]:
    """Kafka's exception and the words in it."""
    assert (done.status, done.stdout) == (1, ""), done
    match = EXCEPTION.match(done.stderr)
    assert match is not None, done.stderr
    return match[1], match[2]


@pytest.mark.conformance(150)
def test_kafkas_tool_adds_a_voter_and_removes_the_leader(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    quorum = DynamicQuorum(children, tmp_path, size=2)
    for node in quorum.nodes.values():
        node.start()
    quorum.journal.wait_for_acknowledged(20, since=0)
    tool, config = Tool(kafka, quorum), ("--command-config", str(quorum.properties(2)))

    text = f"controller 2 with directory id {quorum.directory_id(2)} and endpoints: {LISTENER}://{HOST}:{quorum.ports[2]}\n"
    assert tool.add(2, "--dry-run") == Finished(status=0, stdout=f"DRY RUN of adding {text}", stderr="")
    mine = ours("quorum", *quorum.bootstrap(), *config, "add-controller", "--dry-run")
    assert mine.output == f"DRY RUN of adding {text}"
    assert voters_in(ours("quorum", *quorum.bootstrap(), *STATUS).output) == [1]

    assert tool.add(2) == Finished(status=0, stdout=f"Added {text}", stderr="")
    own = {node_id: quorum.directory_id(node_id) for node_id in (1, 2)}
    assert refusal(tool.add(2)) == (
        "DuplicateVoter",
        f"id 2 is already a voter, with directory id {own[2]}; remove it first",
    )
    mine_, theirs = shown(kafka, *quorum.bootstrap(2), *STATUS)
    assert masked_status(mine_) == masked_status(theirs)
    assert voters_in(theirs) == [1, 2]
    for node_id in (1, 2):
        assert f'"directoryId": "{quorum.directory_id(node_id)}", "endpoints": ["{LISTENER}://{HOST}:' in theirs
    mine_, theirs = shown(kafka, *quorum.bootstrap(), *REPLICATION)
    assert masked_table(mine_) == masked_table(theirs)

    assert refusal(tool.remove(7, quorum.directory_id(2))) == (
        "VoterNotFound",
        "id 7 is not a voter; the voters are 1, 2",
    )
    assert refusal(tool.remove(2, own[1])) == ("VoterNotFound", f"voter 2 has directory id {own[2]}, not {own[1]}")
    assert refusal(tool.remove(2, uuid_text(ZERO_UUID))) == (
        "InvalidRequest",
        f"a voter needs an id, a directory id, and an address on the listener {LISTENER}",
    )

    text = f"KRaft controller 1 with directory id {quorum.directory_id(1)}\n"
    assert tool.remove(1, quorum.directory_id(1), "--dry-run").stdout == f"DRY RUN of removing  {text}"
    assert tool.remove(1, quorum.directory_id(1)) == Finished(status=0, stdout=f"Removed  {text}", stderr="")
    theirs = kafka.run(Main.QUORUM, *quorum.bootstrap(), *STATUS).stdout
    assert theirs.splitlines()[1] == "LeaderId:               2"
    assert voters_in(theirs) == [2]
    assert refusal(tool.remove(2, quorum.directory_id(2))) == ("VoterNotFound", "the last voter cannot be removed")

    add = ("quorum", *quorum.bootstrap(), "--command-config", str(quorum.properties(1)), "add-controller")

    def added() -> bool:
        """The former leader follows the new one after a while; before, it has not caught up."""
        result = ours(*add)
        assert result.exit_code == 0 or isinstance(result.exception, RefusedError | OutcomeUnknownError)
        return result.exit_code == 0

    wait_until(added, "node 1 to be a voter again", alive=[node.process for node in quorum.nodes.values()])
    mine_, theirs = shown(kafka, *quorum.bootstrap(), *STATUS)
    assert masked_status(mine_) == masked_status(theirs)
    assert voters_in(theirs) == [1, 2]
    quorum.journal.wait_for_acknowledged(20, since=quorum.journal.mark())


def voters_in(status: str) -> list[int]:
    """Ids of the voters that ``describe --status`` shows."""
    [line] = [line for line in status.splitlines() if line.startswith("CurrentVoters:")]
    return sorted(int(found) for found in re.findall(r'"id": (\d+)', line))


FEATURE = ("--feature", "kraft.version=1")
DRY = ("upgrade", *FEATURE, "--dry-run")
REFUSED = 1


def fields(done: Finished) -> dict[str, str]:
    """What ``describe`` says of the one feature."""
    assert done.status == 0, done
    [line] = done.stdout.splitlines()
    return dict(re.findall(r"(\w+): (\S+)", line))


@pytest.mark.conformance(137)
def test_it_moves_static_voters_into_the_log(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, properties=QUICK)
    cluster.start()
    bootstrap = ("--bootstrap-controller", ",".join(map(str, cluster.endpoints)))

    def theirs(*words: str) -> Finished:
        return kafka.run(Main.FEATURES, *bootstrap, *words)

    def ours(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(pykraft, ["quorum", *bootstrap, "upgrade", *FEATURE, *words])
        return done.exit_code, done.stdout

    before = fields(theirs("describe"))
    assert before.pop("FinalizedVersionLevel") == "0"
    assert (
        before.items() >= {"Feature": "kraft.version", "SupportedMinVersion": "0", "SupportedMaxVersion": "1"}.items()
    )

    wait_until(lambda: ours("--dry-run")[0] == 0, "all voters to have told the leader who they are")
    dry = theirs("upgrade", *FEATURE, "--dry-run")
    assert (dry.status, dry.stdout) == ours("--dry-run") == (0, "kraft.version can be upgraded to 1.\n")
    assert theirs("upgrade", "--release-version", "4.0-IV3").status == REFUSED
    assert theirs("upgrade", "--feature", "kraft.version=2").status == REFUSED
    assert fields(theirs("describe"))["FinalizedVersionLevel"] == "0", "nothing was raised that was not asked for"

    done = theirs("upgrade", *FEATURE)
    assert (done.status, done.stdout) == (0, "kraft.version was upgraded to 1.\n")
    assert ours() == (0, "kraft.version was upgraded to 1.\n")
    assert fields(theirs("describe"))["FinalizedVersionLevel"] == "1"
    back = theirs("downgrade", "--feature", "kraft.version=0")
    assert back.status == REFUSED
    assert "kraft.version cannot be downgraded" in back.stdout
    cluster.wait_until_caught_up()
    assert cluster.stop() == dict.fromkeys(cluster.nodes, 0)


@pytest.mark.conformance(137)
def test_ours_moves_kafkas_static_voter_into_its_log(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    controller = JavaController(kafka, children, tmp_path / "n1", is_static=True)
    process = controller.start()
    places = (
        ("--bootstrap-controller", f"{HOST}:{controller.controller_port}"),
        ("--bootstrap-server", f"{HOST}:{controller.broker_port}"),
    )

    def ours(place: tuple[str, str], *words: str) -> tuple[int, str]:
        done = CliRunner().invoke(pykraft, ["quorum", *place, *words])
        return done.exit_code, done.stdout

    def can_be_raised(place: tuple[str, str]) -> bool:
        return ours(place, *DRY) == (0, "kraft.version can be upgraded to 1.\n")

    for place in places:
        wait_until(partial(can_be_raised, place), "Kafka to serve and say that it can", alive=[process])
    shown = json.loads(ours(places[0], "describe", "--status", "--json")[1])
    assert "directoryId" not in shown["currentVoters"][0]
    assert ours(places[0], "upgrade", *FEATURE) == (0, "kraft.version was upgraded to 1.\n")
    wait_until(
        lambda: "directoryId" in json.loads(ours(places[0], "describe", "--status", "--json")[1])["currentVoters"][0],
        "the voter to stand in the log",
        alive=[process],
    )
