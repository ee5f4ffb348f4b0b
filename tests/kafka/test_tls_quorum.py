"""Kafka's own nodes over SSL with client certificates, and ours among them; our tools on a secured real Kafka."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lab.kafka.java import STOPPED_BY_SIGTERM, Kafka
from pykraft.cli.main import pykraft
from pykraft.errors import OutcomeUnknownError, QuorumUnavailableError, RefusedError
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, LISTENER, write_properties
from tests.audit.replicas import audited
from tests.kafka.controller import JavaController
from tests.kafka.observer import MetadataObserver
from tests.kafka.test_mixed_quorum import PROPERTIES, MixedQuorum
from tests.security.credentials import properties

pytestmark = pytest.mark.kafka


def test_each_side_leads_a_secured_quorum_and_its_leader_is_killed(
    kafka: Kafka, children: Children, tmp_path: Path
) -> None:
    values = properties(tmp_path / "certificates")
    given = {**values, "listener.security.protocol.map": f"{LISTENER}:SSL", "pykraft.client.listeners": ""}
    quorum = MixedQuorum(kafka, children, tmp_path, properties={**PROPERTIES, **given}, java_properties=given)
    killed, follower, elected = quorum.let_ours_lead()
    quorum.let_java_lead_again(killed, follower, elected)
    assert "handshake" not in quorum.ours.log_path.read_text()


def tool(values: Mapping[str, str], path: Path) -> Path:
    return write_properties(path, {**values, "security.protocol": "SSL"})


def ours(*words: object) -> Result:
    return CliRunner().invoke(pykraft, list(map(str, words)))


def output(*words: object) -> str:
    done = ours(*words)
    assert done.exit_code == 0, done.exception
    return done.output


def test_our_tools_and_a_voter_of_ours_on_a_secured_controller(
    kafka: Kafka, children: Children, tmp_path: Path
) -> None:
    values = properties(tmp_path / "certificates")
    given = {**values, "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT"}
    java = JavaController(kafka, children, tmp_path / "n1", properties=given)
    node = MetadataObserver(children, tmp_path / "n9", java, never_leads=True, properties={**given, **MAPPED})
    client = tool(values, tmp_path / "client.properties")
    asked = ("--bootstrap-controller", f"{HOST}:{java.controller_port}", "--command-config", client)
    process = java.start()
    wait_until(lambda: ours("quorum", *asked, "describe", "--status").exit_code == 0, "Java to lead", alive=[process])
    alive = [process, node.start()]
    assert "LeaderId:               1" in output("quorum", *asked, "describe", "--status")
    assert "FEATURE_LEVEL_RECORD" in output("tail", *asked, "--exclude", "", "--max-records", "5")
    assert "metadata.version" in output("metadata", "show", *asked, "--table", "features")
    plain = ours("quorum", *asked[:2], "--timeout", "1", "describe", "--status")
    assert isinstance(plain.exception, QuorumUnavailableError)

    # As Kafka's tool wants it: the file of the node that is to be added says how the tool connects, too.
    own = tmp_path / "n9.properties"
    own.write_text(node.config.read_text() + "security.protocol=SSL\n")

    def added() -> bool:
        done = ours("quorum", *asked[:2], "--command-config", own, "add-controller")
        assert done.exit_code == 0 or isinstance(done.exception, RefusedError | OutcomeUnknownError), done.exception
        return done.exit_code == 0

    wait_until(added, "our node to be a voter", alive=alive)
    told = output("quorum", *asked, "describe", "--status")
    assert told.count('"directoryId"') >= 2, told
    remove = ("remove-controller", "--controller-id", "9", "--controller-directory-id", node.directory_id)
    output("quorum", *asked, *remove)
    assert [child.stop() for child in alive] == [STOPPED_BY_SIGTERM, 0]
    report = audited([java.partition, node.partition])
    assert report.is_sound, report


MAPPED = {"listener.security.protocol.map": "CONTROLLER:SSL"}
