"""One pykraft node and two of Kafka's in a quorum with SASL: each leads once, and the leader is killed.

The course is that of `tests.kafka.test_mixed_quorum`: Kafka's nodes lead first, and ours follows; then ours is elected
while Kafka's leader is dead, and Kafka's nodes follow it. Our tools ask a controller of Kafka's. With PLAIN, Kafka's
nodes have a name of their own, and ours has an authorizer that lets nobody else act as a node.
"""

import ssl
from pathlib import Path

import pytest

from lab.kafka.java import SMALL_JVM, STOPPED_BY_SIGTERM, Kafka
from lab.nodes.logs import read_stream, require_identical, wait_for_end_offset
from pykraft.config import TEST_CLUSTER_ID, TEST_TOPIC_NAME
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, LISTENER, free_ports, write_properties
from pykraft.protocol.messages import ApiKey
from pykraft.security.acls import STANDARD_AUTHORIZER
from pykraft.security.sasl import SaslCredentials
from pykraft.security.settings import Security
from tests.kafka.controller import JavaController
from tests.kafka.test_mixed_quorum import OURS, PROPERTIES, RECORDS, RECORDS_OF_A_PAUSE, MixedQuorum
from tests.processes.commands import run
from tests.processes.elections import wait_for_known_leader
from tests.processes.test_authorizer import REFUSED, fetch, vote
from tests.processes.wire import Wire
from tests.security.credentials import properties
from tests.security.proofs import MODULES, PASSWORD, USER, jaas, proofs

pytestmark = pytest.mark.kafka

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
SESSION_MS = "3000"
"""So short that both sides authenticate again many times."""
HANDLERS = {
    "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
    "sasl.server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
}


RULES = "--allow-principal User:java --operation ClusterAction --cluster"


def of_plain(user: str, password: str) -> str:
    """Who a node is, and who may come: our node, Kafka's, and somebody who is no node."""
    known = f'{jaas("PLAIN", user=user, password=password).removesuffix(";")} user_java="beans" user_bob="builder";'
    return known.replace("\\", "\\\\")


def secured(kafka: Kafka, children: Children, folder: Path, protocol: str, mechanism: str) -> MixedQuorum:
    prefix = f"listener.name.{LISTENER.lower()}."
    values = proofs(folder / "proofs", mechanism)
    of_mechanism = [key for key in values if key.startswith(f"{mechanism.lower()}.")]
    values |= {prefix + key: values.pop(key).replace("\\", "\\\\") for key in of_mechanism}
    values |= {"listener.security.protocol.map": f"{LISTENER}:{protocol}", "connections.max.reauth.ms": SESSION_MS}
    if mechanism == "OAUTHBEARER":
        values |= {f"{prefix}{mechanism.lower()}.{key}": name for key, name in HANDLERS.items()}
    if protocol == "SASL_SSL":
        values |= properties(folder / "certificates", ssl__client__auth="none")
    files = [url for key, url in values.items() if key.endswith(".endpoint.url")]
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    jvm = (
        *SMALL_JVM,
        f"{allowed}.urls={','.join(files)}",
        f"{allowed}.files={','.join(url.removeprefix('file://') for url in files)}",
    )
    ours = {"controller.quorum.fetch.timeout.ms": PROPERTIES["controller.quorum.fetch.timeout.ms"], **values}
    if mechanism == "PLAIN":
        (folder / "rules").write_text(RULES)
        key = f"{prefix}plain.sasl.jaas.config"
        ours |= {
            key: of_plain(USER, PASSWORD),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "pykraft.acl.file": str(folder / "rules"),
            "pykraft.voter.principals": f"1@User:{USER};2@User:java;3@User:java",
        }
        values[key] = of_plain("java", "beans")
    return MixedQuorum(kafka, children, folder, properties=ours, java_properties=values, jvm=jvm)


def require_refused(port: int, trusted: Path) -> None:
    """Who has a password and no rule may neither look nor act as one of Kafka's nodes."""
    values = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    values["sasl.jaas.config"] = jaas("PLAIN", user="bob", password="builder")  # noqa: S106 - a test's
    described = {"topics": [{"topic_name": TEST_TOPIC_NAME, "partitions": [{"partition_index": 0}]}]}
    with Wire(port, ssl.create_default_context(cafile=trusted) if trusted.exists() else None) as wire:
        wire.prove(SaslCredentials(Security.of_client(values)))
        for key, version, body in (
            (ApiKey.DESCRIBE_QUORUM, 2, described),
            (ApiKey.VOTE, 2, vote(TEST_CLUSTER_ID)),
            (ApiKey.FETCH, 17, fetch(TEST_CLUSTER_ID)),
        ):
            assert wire.ask(key, version, body)["error_code"] == REFUSED, key


@pytest.mark.parametrize(
    ("protocol", "mechanism"), [("SASL_SSL", "PLAIN"), ("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "OAUTHBEARER")]
)
def test_each_side_leads_a_quorum_with_sasl(
    kafka: Kafka, children: Children, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    quorum = secured(kafka, children, tmp_path, protocol, mechanism)
    leader, follower, epoch = quorum.start_java_first()
    ours = quorum.ours
    wait_for_end_offset(ours.partition, read_stream(leader.partition).end_offset + RECORDS, ours.process)

    follower.process.pause()
    end_offset = read_stream(follower.partition).end_offset
    wait_for_end_offset(ours.partition, end_offset + RECORDS_OF_A_PAUSE, ours.process)
    mark = quorum.journal.mark()
    leader.process.kill()
    follower.process.resume()
    elected = quorum.journal.wait_for_leader(since=mark, alive=[ours.process, follower.process])
    assert elected.node == OURS
    quorum.journal.wait_for_acknowledged(RECORDS, since=mark)
    assert wait_for_known_leader(follower.partition, follower.process, after_epoch=epoch).id == OURS
    if mechanism == "PLAIN":
        require_refused(ours.port, tmp_path / "certificates" / "ca.pem")

    leader.start()
    quorum.journal.wait_for_acknowledged(RECORDS, since=quorum.journal.mark())
    caught_up_offset = quorum.journal.end_offset
    for node in quorum.nodes.values():
        wait_for_end_offset(node.partition, caught_up_offset, node.process)
    assert ours.process.stop() == 0
    assert wait_for_known_leader(follower.partition, follower.process, after_epoch=elected.epoch).id in quorum.java
    assert {node.process.stop() for node in quorum.java.values()} == {STOPPED_BY_SIGTERM}
    streams = {f"node {node_id}": read_stream(node.partition) for node_id, node in quorum.nodes.items()}
    require_identical(streams, end_offset=caught_up_offset)
    assert "refused User:java" not in ours.process.log()
    assert ("refused User:bob at 127.0.0.1" in ours.process.log()) == (mechanism == "PLAIN")


def test_our_tools_and_nodes_use_a_controller_with_sasl(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    plain, scram = jaas("PLAIN").replace("\\", "\\\\"), "SCRAM-SHA-256"
    controller = JavaController(
        kafka,
        children,
        tmp_path / "n1",
        listeners={"LOGIN": port},
        properties={
            "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": plain,
            "listener.name.login.sasl.enabled.mechanisms": scram,
            f"listener.name.login.{scram.lower()}.sasl.jaas.config": f"{MODULES[scram]} required;",
            "connections.max.reauth.ms": "1500",
        },
        format_options=("--add-scram", f"{scram}=[name=bob,password=builder]"),
    )
    process = controller.start()
    asked = {
        "--bootstrap-controller": (controller.controller_port, "PLAIN", plain),
        "--bootstrap-server": (port, scram, jaas(scram, user="bob", password="builder")),  # noqa: S106 - a test's
    }
    for option, (at, mechanism, text) in asked.items():
        values = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": text}
        config = str(write_properties(tmp_path / f"{mechanism}.properties", values))
        words = ("quorum", option, f"{HOST}:{at}", "--timeout", "60", "--command-config", config)
        line = f"LeaderId:               {controller.node_id}"
        wait_until(
            lambda words=words, line=line: line in run(*words, "describe", "--status").stdout.splitlines(),  # type: ignore[misc]
            f"the answer to {option}",
            alive=[process],
        )
    of_controller = ("--bootstrap-controller", f"{HOST}:{controller.controller_port}")
    config = str(tmp_path / "PLAIN.properties")
    read = run("tail", *of_controller, "--command-config", config, "--max-records", "3", "--from", "0")
    assert len(read.stdout.splitlines()) == 3, read
