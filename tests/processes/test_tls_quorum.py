"""A quorum whose listeners are SSL, as processes: the leader is killed, tools come in, strangers stay out."""

from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, LISTENER, QUICK
from pykraft.security.authority import Authority
from tests.processes.commands import assert_one_line, run, stop_under_load
from tests.security.credentials import HOSTS, authority, encrypted, properties, write

pytestmark = pytest.mark.processes

SECRET = "the-word-that-nobody-may-see"  # noqa: S105 - a test's


def secured(children: Children, folder: Path) -> tuple[Cluster, str, Path]:
    """A quorum of three with one certificate, its addresses, and a tool's properties file."""
    values = properties(folder / "certificates")
    location = Path(values["ssl.keystore.location"])
    location.write_bytes(encrypted(location.read_bytes(), SECRET))
    (folder / "secrets.properties").write_text(f"word={SECRET}\n")
    values |= {
        "ssl.key.password": f"${{file:{folder}/secrets.properties:word}}",
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    given = {**values, "listener.security.protocol.map": f"{LISTENER}:SSL"}
    cluster = Cluster(children, folder, properties={**QUICK, "pykraft.client.listeners": LISTENER, **given})
    client = {**values, "security.protocol": "SSL"}
    del client["ssl.client.auth"]
    file = folder / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in client.items()))
    return cluster, ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values()), file


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
    cluster, _, _ = secured(children, tmp_path)
    epoch = cluster.start().epoch
    cluster.journal.wait_for_acknowledged(100, since=0)
    nodes = cluster.nodes.values()
    both = authority().certificate_pem + (another := Authority.create("the next CA")).certificate_pem
    for name, content, count in (
        ("ca.pem", both, 2),  # both authorities are trusted before the first certificate of the new one
        ("node.pem", another.issue("node", HOSTS), 4),
        ("ca.pem", another.certificate_pem, 6),
    ):
        write(tmp_path / "certificates" / name, content)
        wait_until(
            lambda count=count: all(
                node.process.log().count("certificates were read again") >= count for node in nodes
            ),  # type: ignore[misc]
            f"{name} is taken up",
        )
        mark = cluster.journal.mark()
        cluster.journal.wait_for_acknowledged(50, since=mark)
    assert cluster.journal.wait_for_leader(since=0).epoch == epoch
    assert {event.epoch for event in cluster.journal.acknowledgements()} == {epoch}
    # A node that starts now knows the new authority only.
    follower = next(node for node in nodes if node.node_id != cluster.journal.leader_id())
    follower.process.kill()
    mark = cluster.journal.mark()
    follower.start()
    cluster.journal.wait_for_started(follower.node_id, since=mark, process=follower.process)
    stop_under_load(cluster)


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
