"""A node on an empty disk logs which commands repair it; run as printed, they do."""

import re
import shutil
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import QUICK
from tests.processes.commands import run, stop_under_load

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

COMMANDS = re.compile(r"pykraft (quorum \S+ \S+ (?:remove|add)-controller [^;,\n]+)")


@pytest.mark.long
def test_the_commands_that_a_replaced_disk_names_mend_it(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, properties=QUICK, is_dynamic=True, throughput=500)
    leader_id = cluster.start().node
    node = cluster.nodes[leader_id % len(cluster.nodes) + 1]
    cluster.journal.wait_for_acknowledged(200, since=0)

    node.process.kill()
    shutil.rmtree(node.partition.parent)
    node.format("--no-initial-controllers")
    mark = cluster.journal.mark()
    node.start()
    cluster.journal.wait_for_started(node.node_id, since=mark, process=node.process)
    said = wait_until(
        lambda: re.search(f"ERROR (the voters expect node {node.node_id} with directory id .*)", node.process.log()),
        "the node to see that it is another one",
        alive=[node.process],
    )[1]

    remove, add = COMMANDS.findall(said)
    removed = wait_until(  # on a busy machine the voters may just elect another leader
        lambda: None if (done := run(*remove.split())).stderr.endswith("try again\n") else done, "a leader to answer"
    )
    assert (removed.returncode, removed.stderr) == (0, "")
    wait_until(
        lambda: f"node {node.node_id} is not among the voters" in node.process.log(),
        "it to see that",
        alive=[node.process],
    )
    added = wait_until(
        lambda: done if (done := run(*add.replace("FILE", str(node.config)).split())).returncode == 0 else None,
        "it to be added",
    )
    assert added.stdout.startswith(f"Added controller {node.node_id} ")
    wait_until(lambda: f"node {node.node_id} is a voter now" in node.process.log(), "it to vote", alive=[node.process])
    cluster.journal.wait_for_acknowledged(200, since=cluster.journal.mark())
    stop_under_load(cluster)
