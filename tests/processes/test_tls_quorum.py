"""A quorum whose listeners are SSL, as processes: the leader is killed, tools come in, strangers stay out."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from pykraft.local.child import Children
from pykraft.security.authority import Authority
from pykraft.server.secured import HANDSHAKES_MAX
from tests.processes.commands import assert_one_line, run, stop_under_load
from tests.processes.tls_rounds import SECRET, Flood, Rotation, described, descriptors, require_epoch, secured
from tests.security.credentials import HOSTS, properties, write

pytestmark = pytest.mark.processes


def test_secured_quorum_loses_its_leader_serves_tools_and_keeps_strangers_out(
    children: Children, tmp_path: Path
) -> None:
    cluster, bootstrap, file = secured(children, tmp_path)
    leader = cluster.start().node
    cluster.journal.wait_for_acknowledged(100, since=0)
    mark = cluster.journal.mark()
    cluster.nodes[leader].process.kill()
    cluster.journal.wait_for_acknowledged(100, since=mark, except_by=leader)

    asked = ("--bootstrap-controller", bootstrap, "--timeout", "10")
    told = run("quorum", *asked, "--command-config", str(file), "describe", "--status")
    assert f"LeaderId:               {cluster.journal.leader_id()}" in told.stdout.splitlines()
    read = run("tail", *asked, "--command-config", str(file), "--max-records", "3")
    assert len(read.stdout.splitlines()) == 3
    (tmp_path / "lines").write_text("one more\n")
    written = run("append", str(tmp_path / "lines"), *asked, "--command-config", str(file))
    assert written.returncode == 0, written.stderr
    moved = run("quorum", *asked, "--command-config", str(file), "describe", "--replication", "--json")
    assert moved.returncode == 0

    plain = run("quorum", "--bootstrap-controller", bootstrap, "--timeout", "1", "describe", "--status")
    assert_one_line(plain, 1, "perhaps it speaks TLS only")
    foreign = tmp_path / "foreign.properties"
    stranger = write(tmp_path / "foreign.pem", Authority.create().issue("node", HOSTS))
    foreign.write_text(file.read_text().replace(str(tmp_path / "certificates" / "node.pem"), stranger))
    refused = run("quorum", *asked[:2], "--timeout", "1", "--command-config", str(foreign), "describe", "--status")
    assert_one_line(refused, 1, "perhaps it refuses the certificate")

    cluster.nodes[leader].start()
    stop_under_load(cluster)
    logs = "".join(node.process.log() for node in cluster.nodes.values())
    assert "failed, with 127.0.0.1: it does not speak TLS" in logs
    shown = "".join(done.stdout + done.stderr for done in (told, read, moved, plain, refused))
    assert SECRET not in logs + shown


def test_certificates_are_renewed_under_load_without_a_change_of_leader(children: Children, tmp_path: Path) -> None:
    cluster, bootstrap, file = secured(children, tmp_path)
    epoch = cluster.start().epoch
    cluster.journal.wait_for_acknowledged(100, since=0)
    rotation = Rotation(cluster, bootstrap, file)
    for _ in range(2):
        rotation.round()
    require_epoch(cluster, epoch)
    assert "handshake" not in "".join(node.process.log() for node in cluster.nodes.values())
    # A node that starts now knows the newest authority only.
    follower = next(node for node in cluster.nodes.values() if node.node_id != cluster.journal.leader_id())
    follower.process.kill()
    mark = cluster.journal.mark()
    follower.start()
    cluster.journal.wait_for_started(follower.node_id, since=mark, process=follower.process)
    stop_under_load(cluster)


async def test_flood_of_handshakes_leaves_the_leadership_and_the_descriptors_as_they_were(
    children: Children, tmp_path: Path
) -> None:
    """`python -m tests.processes.tls_rounds flood` does the same with thousands."""
    cluster, bootstrap, file = secured(children, tmp_path)
    epoch = cluster.start().epoch
    nodes = list(cluster.nodes.values())
    before = {node.node_id: descriptors(node.process.pid) for node in nodes}
    flood = Flood(nodes)
    attack = asyncio.create_task(flood.run(500, 50))
    await flood.wait_until_closed(300)
    for node in nodes:
        # Strangers have so many handshakes at a time, and a few connections are between quorum and tools.
        assert descriptors(node.process.pid) <= before[node.node_id] + HANDSHAKES_MAX + 20
    mark = cluster.journal.mark()
    assert f"LeaderEpoch:            {epoch}" in await asyncio.to_thread(described, bootstrap, file)
    await asyncio.to_thread(cluster.journal.wait_for_acknowledged, 500, since=mark)
    attack.cancel()
    with suppress(asyncio.CancelledError):
        await attack
    require_epoch(cluster, epoch)
    await asyncio.to_thread(stop_under_load, cluster)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("ssl.keystore.location", "/nowhere.pem", "ssl.keystore.location"),
        ("ssl.key.password", "", "ssl.key.password"),
        ("sasl.enabled.mechanisms", "PLAIN", "SASL_SSL"),
    ],
)
def test_node_that_cannot_be_as_secure_as_it_should_does_not_start(
    key: str, value: str, words: str, tmp_path: Path
) -> None:
    values = properties(tmp_path)
    if key == "ssl.key.password":
        write(
            tmp_path / "node.pem", b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
        )
    config = tmp_path / "node.properties"
    text = {
        "node.id": "1",
        "listeners": "SSL://localhost:9093",
        "controller.listener.names": "SSL",
        "controller.quorum.voters": "1@localhost:9093",
        "log.dirs": str(tmp_path / "data"),
        **values,
        key: value,
    }
    config.write_text("".join(f"{each}={text[each]}\n" for each in text))
    assert_one_line(run("server", "--config", str(config), "--no-workload"), 2, words)
