"""Kafka's clients in Python and Java on a quorum whose listeners want SASL: each mechanism, and strangers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.kafka.java import Kafka
from lab.nodes.cluster import Cluster
from pykraft.local.child import Children
from pykraft.local.voters import HOST, LISTENER, SOURCES
from pykraft.security.settings import MECHANISMS
from tests.kafka.test_kafka_clients import TOOLS, TOPIC, environment, run
from tests.security.proofs import PASSWORD, USER, jaas, proofs

pytestmark = pytest.mark.kafka

HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def authenticated(
    children: Children, folder: Path, *mechanisms: str, session_ms: int = 0
) -> tuple[Cluster, str, dict[str, str]]:
    """A quorum that accepts these mechanisms, its addresses, and its properties."""
    values: dict[str, str] = {}
    for mechanism in mechanisms:
        values |= proofs(folder / "proofs", mechanism)
    values |= {"sasl.enabled.mechanisms": ",".join(mechanisms), "sasl.mechanism.controller.protocol": mechanisms[0]}
    values |= {"listener.security.protocol.map": f"{LISTENER}:SASL_PLAINTEXT", "pykraft.client.listeners": LISTENER}
    values["connections.max.reauth.ms"] = str(session_ms)
    escaped = {key: value.replace("\\", "\\\\") for key, value in values.items()}
    cluster = Cluster(children, folder, throughput=0, properties=escaped)
    cluster.start()
    return cluster, ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values()), values


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_of_three_libraries_use_a_quorum_with_sasl(children: Children, tmp_path: Path, mechanism: str) -> None:
    cluster, servers, _ = authenticated(children, tmp_path, mechanism)
    is_token = mechanism == "OAUTHBEARER"
    secret = (tmp_path / "proofs" / "token").read_text() if is_token else PASSWORD
    done = subprocess.run(
        [sys.executable, "-m", "tests.kafka.clients.over_sasl", servers, mechanism, USER, secret],
        env=os.environ | {"PYTHONPATH": f"{SOURCES}:{SOURCES.parent}"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    complaints = told.pop("complaints")
    assert told == {
        "errors": ["None"] * 3,
        "read": {"librdkafka": True, "aiokafka": True, "kafka-python": True},
        "stranger": "refused",
    }
    assert any("_AUTHENTICATION" in complaint for complaint in complaints), complaints
    assert set(cluster.stop().values()) == {0}


def test_java_clients_use_a_quorum_with_sasl_by_each_mechanism(
    kafka: Kafka, children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kafka.jars.is_dir()
    cluster, servers, values = authenticated(children, tmp_path, *MECHANISMS, session_ms=3_000)
    url = values["sasl.oauthbearer.token.endpoint.url"]
    allowed = "org.apache.kafka.sasl.oauthbearer.allowed"
    monkeypatch.setenv("KAFKA_OPTS", f"-D{allowed}.urls={url} -D{allowed}.files={url.removeprefix('file://')}")
    bootstrap = ("--bootstrap-server", servers)
    for count, mechanism in enumerate(MECHANISMS, start=1):
        text = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        text += "sasl.jaas.config={}\n".format(jaas(mechanism).replace("\\", "\\\\"))
        if mechanism == "OAUTHBEARER":
            text += f"sasl.login.callback.handler.class={HANDLER}\nsasl.oauthbearer.token.endpoint.url={url}\n"
        config = tmp_path / f"{mechanism}.properties"
        config.write_text(text)
        # A producer that writes for two sessions authenticates again.
        rate = "4" if mechanism == "SCRAM-SHA-512" else "-1"
        chosen = ("--topic", TOPIC, "--max-messages", "20", "--throughput", rate, "--command-config", str(config))
        told = run("kafka-run-class.sh", f"{TOOLS}.VerifiableProducer", *bootstrap, *chosen)
        assert sum(json.loads(line)["name"] == "producer_send_success" for line in told.splitlines()) == 20, told
        words = ("--topic", TOPIC, "--partition", "0", "--offset", "0", "--max-messages", str(20 * count))
        read = run(
            "kafka-run-class.sh",
            f"{TOOLS}.consumer.ConsoleConsumer",
            *bootstrap,
            *words,
            "--command-config",
            str(config),
        )
        assert read.split() == [str(number) for _ in range(count) for number in range(20)]
        asked = ("--bootstrap-controller", servers, "--command-config", str(config), "describe", "--status")
        assert cluster.cluster_id in run("kafka-run-class.sh", f"{TOOLS}.MetadataQuorumCommand", *asked)
    wrong = tmp_path / "wrong.properties"
    wrong.write_text((tmp_path / "PLAIN.properties").read_text().replace("nobody", "somebody", 1))
    done = subprocess.run(
        [
            str(Path(__file__).resolve().parents[2] / "bin" / "kafka-run-class.sh"),
            f"{TOOLS}.MetadataQuorumCommand",
            *("--bootstrap-controller", servers, "--command-config", str(wrong), "describe", "--status"),
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Authentication failed: Invalid username or password" in done.stdout + done.stderr
    assert set(cluster.stop().values()) == {0}
    assert "".join(node.process.log() for node in cluster.nodes.values()).count("its session has ended") < 3
