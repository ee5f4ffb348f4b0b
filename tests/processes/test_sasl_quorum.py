"""Quorums whose nodes authenticate, as processes: each protocol and mechanism, the leader killed, strangers out."""

import json
import socket
import struct
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from pykraft.local.child import Children, wait_until
from pykraft.local.journal import Acknowledged
from pykraft.local.voters import HOST, LISTENER, QUICK
from pykraft.protocol.messages import ApiKey
from pykraft.security.sasl import SaslCredentials
from pykraft.security.settings import MECHANISMS, Security
from pykraft.security.users import NewUser, read_users, write_users
from pykraft.server.sasl_client import SaslClient
from tests.kafka.differential.voter import exactly
from tests.processes import attack
from tests.processes.commands import assert_one_line, run, stop_under_load
from tests.processes.wire import framed, request
from tests.security.credentials import properties
from tests.security.proofs import PASSWORD, USER, jaas, proofs, token

pytestmark = pytest.mark.processes

SCRAM = "SCRAM-SHA-256"
SESSION_MS = 3_000


def text(values: dict[str, str]) -> str:
    """Properties as a file has them."""
    return "".join("{}={}\n".format(key, value.replace("\\", "\\\\")) for key, value in values.items())


def authenticated(
    children: Children, folder: Path, protocol: str, mechanism: str, *, throughput: int = 2_000, **given: str
) -> tuple[Cluster, tuple[str, ...], dict[str, str]]:
    """A quorum of three, the options of a tool that reaches it, and the tool's properties."""
    values = proofs(folder / "proofs", mechanism)
    client = {"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism)}
    if mechanism == "OAUTHBEARER":
        client["sasl.oauthbearer.token.endpoint.url"] = values["sasl.oauthbearer.token.endpoint.url"]
    if protocol == "SASL_SSL":
        values |= properties(folder / "certificates", ssl__client__auth="none")
        client["ssl.truststore.location"] = values["ssl.truststore.location"]
    more = {key.replace("__", "."): value for key, value in given.items()}
    values |= {"listener.security.protocol.map": f"{LISTENER}:{protocol}", "pykraft.client.listeners": LISTENER, **more}
    escaped = {key: value.replace("\\", "\\\\") for key, value in values.items()}
    cluster = Cluster(children, folder, throughput=throughput, properties={**QUICK, **escaped})
    (folder / "tool.properties").write_text(text(client))
    bootstrap = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
    return cluster, ("--bootstrap-controller", bootstrap), client


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_authenticated_quorum_loses_its_leader_serves_tools_and_keeps_strangers_out(
    children: Children, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    cluster, bootstrap, client = authenticated(children, tmp_path, protocol, mechanism)
    leader = cluster.start().node
    cluster.journal.wait_for_acknowledged(100, since=0)
    mark = cluster.journal.mark()
    cluster.nodes[leader].process.kill()
    cluster.journal.wait_for_acknowledged(100, since=mark, except_by=leader)

    asked = (*bootstrap, "--timeout", "10", "--command-config", str(tmp_path / "tool.properties"))
    told = run("quorum", *asked, "describe", "--status")
    assert f"LeaderId:               {cluster.journal.leader_id()}" in told.stdout.splitlines()
    read = run("tail", *asked, "--max-records", "3")
    assert len(read.stdout.splitlines()) == 3

    stranger = {**client, "sasl.jaas.config": jaas(mechanism, password="a guess")}  # noqa: S106 - a test's
    if mechanism == "OAUTHBEARER":
        (tmp_path / "guess").write_text(token(exp=1))
        stranger["sasl.oauthbearer.token.endpoint.url"] = f"file://{tmp_path}/guess"
    (tmp_path / "stranger.properties").write_text(text(stranger))
    anybody = {key: client[key] for key in client if not key.startswith("sasl.")}
    (tmp_path / "anybody.properties").write_text(text({**anybody, "security.protocol": protocol.removeprefix("SASL_")}))
    asked = (*bootstrap, "--timeout", "10", "--command-config")
    refused = run("quorum", *asked, str(tmp_path / "stranger.properties"), "describe", "--status")
    assert_one_line(refused, 1, f"it refuses these credentials of {mechanism}: ")
    nobody = run("quorum", *asked, str(tmp_path / "anybody.properties"), "describe", "--status")
    assert_one_line(nobody, 1, "perhaps it wants SASL")

    cluster.nodes[leader].start()
    stop_under_load(cluster)
    logs = "".join(node.process.log() for node in cluster.nodes.values())
    assert "handshake on " in logs
    shown = "".join(done.stdout + done.stderr for done in (told, read, refused, nobody))
    for secret in (PASSWORD, json.dumps(PASSWORD)[1:-1], "a guess", (tmp_path / "proofs" / "token")):
        word = secret.read_text() if isinstance(secret, Path) and secret.exists() else str(secret)
        assert word not in logs + shown


def acknowledged(cluster: Cluster) -> list[Acknowledged]:
    cluster.journal.wait_for_acknowledged(1, since=0)
    return cluster.journal.acknowledgements()


def test_sessions_are_renewed_under_load_without_a_change_of_leader(children: Children, tmp_path: Path) -> None:
    cluster, _, _ = authenticated(
        children, tmp_path, "SASL_PLAINTEXT", SCRAM, connections__max__reauth__ms=str(SESSION_MS)
    )
    epoch = cluster.start().epoch
    begun_ms = acknowledged(cluster)[0].wall_ms
    cluster.journal.wait_for(
        lambda _: acknowledged(cluster)[-1].wall_ms > begun_ms + 3 * SESSION_MS or None, "three sessions"
    )
    assert {event.epoch for event in cluster.journal.acknowledgements()} == {epoch}
    stop_under_load(cluster)
    # Both followers would lose each session; on a busy machine a request may arrive late now and then.
    assert "".join(node.process.log() for node in cluster.nodes.values()).count("its session has ended") < 3


def test_users_come_and_go_without_a_restart(children: Children, tmp_path: Path) -> None:
    cluster, bootstrap, client = authenticated(children, tmp_path, "SASL_PLAINTEXT", SCRAM)
    cluster.start()
    users, nodes = tmp_path / "proofs" / "users.json", cluster.nodes.values()
    carol = tmp_path / "carol.properties"
    carol.write_text(text({**client, "sasl.jaas.config": jaas(SCRAM, user="carol", password="new")}))  # noqa: S106
    asked = ("quorum", *bootstrap, "--command-config", str(carol), "--timeout")
    assert_one_line(run(*asked, "10", "describe", "--status"), 1, "it refuses these credentials")
    known = read_users(users)
    NewUser(SCRAM, "carol", "new").add_to(known)
    write_users(users, known)
    for count, status in enumerate((0, 1), start=1):
        wait_until(
            lambda count=count: all(
                node.process.log().count("users and keys were read again") >= count for node in nodes
            ),  # type: ignore[misc]
            "the users are taken up",
        )
        assert run(*asked, "10", "describe", "--status").returncode == status
        write_users(users, {SCRAM: {USER: known[SCRAM][USER]}})
    stop_under_load(cluster)


def authenticated_stranger(port: int) -> socket.socket:
    """A connection that has authenticated as a user."""
    values = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("PLAIN"), "security.protocol": "SASL_PLAINTEXT"}
    client = SaslClient(SaslCredentials(Security.of_client(values)))
    connection = socket.create_connection((HOST, port), attack.TIMEOUT_S)
    parts = client.begin()
    while parts:
        connection.sendall(b"".join(map(bytes, parts)))
        size_bytes = int.from_bytes(exactly(connection, 4), "big")
        more = client.receive(exactly(connection, size_bytes), 0.0)
        assert more is not None
        parts = more
    return connection


def test_floods_before_and_within_authentication_leave_the_leader_and_its_memory(
    children: Children, tmp_path: Path
) -> None:
    cluster, _, _ = authenticated(children, tmp_path, "SASL_PLAINTEXT", "PLAIN")
    begun = cluster.start()
    leader = cluster.nodes[begun.node]
    versions = framed(request(ApiKey.API_VERSIONS, 0, {}))
    begin = framed(request(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}))
    guess = framed(request(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0alice\0guess"}))
    for name, count, data in (
        ("silence", 200, b""),
        ("a half frame", 200, struct.pack(">i", 16_000) + bytes(15_000)),
        ("64 KiB", 100, struct.pack(">i", 65_536) + bytes(65_536)),
        ("versions", 200, versions * 1_000),
        ("stalled", 200, begin),
        ("guesses", 300, begin + guess),
    ):
        with attack.crowd(leader.port, count, data):
            mark = cluster.journal.mark()
            cluster.journal.wait_for_acknowledged(100, since=mark)
            assert leader.process.status is None, name
    with authenticated_stranger(leader.port) as connection:
        attack.send(connection, begin * 10_000)  # the node answers some, closes, and reads no more
        assert attack.read_frames(connection, count_max=10_000) < 100
    cluster.journal.wait_for_acknowledged(100, since=cluster.journal.mark())
    assert {event.epoch for event in cluster.journal.acknowledgements()} == {begun.epoch}
    assert attack.peak_memory_mib(leader.process.pid) < 160
    stop_under_load(cluster)
