"""Kafka's ``kafka-features`` on our quorum, ``quorum upgrade`` on Kafka's: neither raises any other feature."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.kafka.java import Finished, Kafka, Main
from lab.nodes.cluster import Cluster
from pykraft.cli.main import pykraft
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, QUICK
from tests.kafka.controller import JavaController

pytestmark = pytest.mark.kafka

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
