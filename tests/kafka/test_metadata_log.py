"""The metadata log decoded: the tables are those of Kafka's jar, and JSON is that of Kafka's own decoder.

One controller with a broker gets topics, configurations, quotas, access rules, credentials and tokens. Its log,
snapshots and first records, a log of ours with every type in every version, and all recorded logs and snapshots then go
through one run of Kafka's tool. The same records read live by ``tail`` are those of the log. The tables that ``pipeline
metadata`` makes of them, live and later from the directory as of then, are what ``kafka-topics --describe`` printed.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lab.kafka.java import Kafka, Main
from pykraft.cli.main import pykraft
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.metadata import tables
from pykraft.protocol.records import encode_batch
from pykraft.types import Epoch, Offset
from tests.cli.test_dump import GOLDEN, sections
from tests.kafka.broker_calls import BrokerCalls, broker_calls, listens, requests_of, succeeded
from tests.kafka.controller import JavaController
from tests.kafka.dump import parse_dump
from tests.kafka.test_quorum_tool import wait_for_controller
from tests.protocol.metadata.generate import source_of
from tests.protocol.metadata.records import ALL, encoded, full_body

pytestmark = pytest.mark.kafka

acls, unwanted_acls = requests_of("create_acls.v3"), requests_of("delete_acls.v3")
configs = requests_of("incremental_alter_configs.v1")
features = requests_of("update_features.v1")
producers = requests_of("init_producer_id.v4")
quotas = requests_of("alter_client_quotas.v1")
tokens, unwanted_tokens = requests_of("create_delegation_token.v3"), requests_of("expire_delegation_token.v2")
topics, unwanted_topics = requests_of("create_topics.v7"), requests_of("delete_topics.v6")

NEWER_THAN_THE_JAR = {"UNREGISTER_CONTROLLER_RECORD"}
CREATED = {
    "ACCESS_CONTROL_ENTRY_RECORD",
    "BEGIN_TRANSACTION_RECORD",
    "BROKER_REGISTRATION_CHANGE_RECORD",
    "CLIENT_QUOTA_RECORD",
    "CONFIG_RECORD",
    "DELEGATION_TOKEN_RECORD",
    "END_TRANSACTION_RECORD",
    "FEATURE_LEVEL_RECORD",
    "PARTITION_RECORD",
    "PRODUCER_IDS_RECORD",
    "REGISTER_BROKER_RECORD",
    "REGISTER_CONTROLLER_RECORD",
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
    "REMOVE_DELEGATION_TOKEN_RECORD",
    "REMOVE_TOPIC_RECORD",
    "TOPIC_RECORD",
    "USER_SCRAM_CREDENTIAL_RECORD",
}
"""What the requests below must leave in the log; the controller itself adds others, such as NO_OP_RECORD."""


def test_the_tables_are_those_of_the_jar(kafka: Kafka) -> None:
    (jar,) = kafka.jars.glob("kafka-metadata-*.jar")
    version = jar.stem.removeprefix("kafka-metadata-")
    ours = Path(tables.__file__).read_text().replace(tables.KAFKA_VERSION, version)
    newer = [line for line in ours.splitlines() if line not in source_of(jar).splitlines()]
    assert newer == ['    29: Message.of("UnregisterControllerRecord", "0", "0+", Field("controller_id", INT32)),']


def ours(*arguments: object) -> list[dict[str, Any]]:
    result = CliRunner().invoke(pykraft, [*map(str, arguments), "--json"], standalone_mode=False)
    assert result.exit_code == 0, (result.output, result.exception)
    return [json.loads(line) for line in result.stdout.splitlines()]


def payloads(documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The decoded records, each once."""
    records = [record for one in documents for record in one.get("records", [one])]
    assert not [record for record in records if "payloadProblem" in record]
    return [record["payload"] for record in records if "payload" in record]


@pytest.mark.conformance(150)
def test_json_is_that_of_kafkas_decoder(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    controller, sasl_port = controller_with_everything(kafka, children, tmp_path / "n1")
    process = controller.start()
    wait_for_controller(controller, process)
    ports = (controller.broker_port, sasl_port)
    wait_until(lambda: all(map(listens, ports)), "the broker to accept connections", alive=[process])
    with broker_calls(controller.broker_port) as calls:
        create(calls)
    with broker_calls(sasl_port) as calls:
        create_tokens(calls)
    described, then = described_twice(kafka, controller)
    with broker_calls(controller.broker_port) as calls:
        orders = unwanted_topics.DeleteTopicState(name="orders", topic_id=None)
        calls.call(unwanted_topics.DeleteTopicsRequest(topics=(orders,), timeout=timedelta(minutes=1)))
    live = payloads(ours("tail", "--bootstrap-controller", f"{HOST}:{controller.controller_port}", "--exclude", ""))
    assert {record["type"] for record in live} >= CREATED

    process.stop()
    directory = str(controller.partition.parent)
    assert our_table("--as-of", str(then), directory) == described
    assert our_table(directory) == []
    path = tmp_path / "every-type" / "00000000000000000000.log"
    path.parent.mkdir()
    values = [encoded(name, version, full_body(name, version)) for name, version in ALL]
    path.write_bytes(encode_batch(values, base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1).data)
    files = [*sorted(controller.partition.glob("*.log")), *sorted(controller.partition.glob("*.checkpoint"))]
    assert len(files) > 1, "a controller without a snapshot would prove less"
    files += [controller.partition.parent / "bootstrap.checkpoint", path]
    recorded = golden_files(tmp_path / "golden")
    assert len(recorded) > 20, "each node of both recordings has logs and snapshots"
    found = {file: decoded(file) for file in (*files, *recorded)}
    assert theirs(kafka, list(found)) == found
    assert payloads(ours("dump", "--cluster-metadata-decoder", files[0]))[: len(live)] == live
    assert {record["type"] for record in found[path]} == {name for name, _ in ALL} - NEWER_THAN_THE_JAR


def golden_files(folder: Path) -> list[Path]:
    """A copy of each recorded log and snapshot of Kafka's controllers; once, if several nodes have the same."""
    recorded = [path for suffix in ("log", "checkpoint") for path in GOLDEN.glob(f"*/disk/*/data/**/*.{suffix}")]
    distinct = {(path.name, path.read_bytes()) for path in recorded if "__raft_performance_test" not in str(path)}
    copies = []
    for number, (name, data) in enumerate(sorted(distinct)):
        copies.append(folder / str(number) / name)
        copies[-1].parent.mkdir(parents=True)
        copies[-1].write_bytes(data)
    return copies


def described_twice(kafka: Kafka, controller: JavaController) -> tuple[list[str], int]:
    """What Kafka's tool says of the topics, which ours says, too; and the offset up to which that is so."""
    done = kafka.run(Main.TOPICS, "--bootstrap-server", f"{HOST}:{controller.broker_port}", "--describe")
    assert (done.status, done.stderr) == (0, "")
    lines = [line.partition("\tConfigs:")[0].rstrip() for line in done.stdout.splitlines() if line]
    assert len(lines) == 3
    ours_now = ("--bootstrap-controller", f"{HOST}:{controller.controller_port}")
    assert our_table(*ours_now) == lines
    return lines, document(*ours_now)["end_offset"]


def document(*arguments: str) -> dict[str, Any]:
    """What `metadata show` prints, which has no secret."""
    result = CliRunner().invoke(pykraft, ["metadata", "show", *arguments, "--json"], standalone_mode=False)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "hush" not in result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


def our_table(*arguments: str) -> list[str]:
    """Our tables in the lines of ``kafka-topics --describe``, without configurations."""
    tables = document(*arguments)["tables"]
    lines = []
    for topic in tables["topics"]:
        rows = [row for row in tables["partitions"] if row["topic_id"] == topic["topic_id"]]
        head = (topic["name"], topic["topic_id"], str(len(rows)), str(len(rows[0]["replicas"])))
        names = ("Topic", "TopicId", "PartitionCount", "ReplicationFactor")
        lines.append("\t".join(f"{name}: {each}" for name, each in zip(names, head, strict=True)))
        for row in rows:
            numbers = ("replicas", "isr", "eligible_leader_replicas", "last_known_elr")
            cells = [topic["name"], str(row["partition_id"]), str(row["leader"])]
            cells += [",".join(map(str, row[each] or [])) for each in numbers]
            inner = ("Topic", "Partition", "Leader", "Replicas", "Isr", "Elr", "LastKnownElr")
            told = "\t".join(f"{name}: {each}" for name, each in zip(inner, cells, strict=True))
            lines.append(f"\t{told}".rstrip())
    return lines


def decoded(file: Path) -> list[dict[str, Any]]:
    """Our JSON of a file, but for what this Kafka does not know."""
    found = payloads(ours("dump", "--cluster-metadata-decoder", file))
    return [record for record in found if record["type"] not in NEWER_THAN_THE_JAR]


def theirs(kafka: Kafka, files: Sequence[Path]) -> dict[Path, list[dict[str, Any]]]:
    """Kafka's JSON of each file."""
    names = ",".join(map(str, files))
    done = kafka.run(Main.DUMP_LOG, "--cluster-metadata-decoder", "--files", names)
    assert parse_dump(replace(done, stdout="")).complaints == []
    texts = {
        Path(name): [line.partition(" payload: ")[2] for line in lines] for name, lines in sections(done.stdout).items()
    }
    return {file: [json.loads(text) for text in texts[file] if text.startswith("{")] for file in files}


def controller_with_everything(kafka: Kafka, children: Children, home: Path) -> tuple[JavaController, int]:
    """A node that allows access rules, tokens and SASL, and its port for those who log in."""
    (port,) = free_ports(1)
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonderland";'
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
        "delegation.token.secret.key": "for this test only",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": jaas,
        "metadata.log.max.record.bytes.between.snapshots": "1000",
        "offsets.topic.replication.factor": "1",
    }
    scram = ("--add-scram", "SCRAM-SHA-256=[name=bob,iterations=4096,password=builder]")
    more = {"LOGIN": port}
    controller = JavaController(kafka, children, home, properties=properties, listeners=more, format_options=scram)
    return controller, port


def create(calls: BrokerCalls) -> None:
    """Topics, configurations, quotas, access rules, features."""
    minute = timedelta(minutes=1)
    wanted = tuple(
        topics.CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=(), configs=())
        for name in ("orders", "passing")
    )
    calls.call(topics.CreateTopicsRequest(topics=wanted, timeout=minute))
    passing = unwanted_topics.DeleteTopicState(name="passing", topic_id=None)
    calls.call(unwanted_topics.DeleteTopicsRequest(topics=(passing,), timeout=minute))

    settings = {(2, "orders"): ("retention.ms", "1000"), (4, ""): ("my.password", "hush")}
    resources = tuple(
        configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=(configs.AlterableConfig(name=key, config_operation=0, value=value),),
        )
        for (kind, name), (key, value) in settings.items()
    )
    calls.call(configs.IncrementalAlterConfigsRequest(resources=resources, validate_only=False))

    who = {"client-id": "\u00fcber", "user": None}
    rates = {"request_percentage": 12.5, "consumer_byte_rate": 3e12}
    entry = quotas.EntryData(
        entity=tuple(quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in who.items()),
        ops=tuple(quotas.OpData(key=key, value=value, remove=False) for key, value in rates.items()),
    )
    calls.call(quotas.AlterClientQuotasRequest(entries=(entry,), validate_only=False))

    rule = {"principal": "User:bob", "host": "*", "operation": 3, "permission_type": 3}
    calls.call(acls.CreateAclsRequest(creations=(acls.AclCreation(resource_type=2, resource_name="orders", **rule),)))
    every = dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1)
    nothing = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
    calls.call(unwanted_acls.DeleteAclsRequest(filters=(unwanted_acls.DeleteAclsFilter(**every, **nothing),)))

    lower = features.FeatureUpdateKey(feature="streams.version", max_version_level=0, upgrade_type=2)
    calls.call(features.UpdateFeaturesRequest(timeout=minute, feature_updates=(lower,)))
    # The broker asks the controller for ids when the first producer comes, and lets that one try again.
    producer = producers.InitProducerIdRequest(transactional_id=None, transaction_timeout=minute)
    wait_until(lambda: succeeded(calls.ask(producer)), "producer ids")


def create_tokens(calls: BrokerCalls) -> None:
    """A token that stays, and one that is removed again."""
    calls.log_in("alice", "wonderland")
    renewers = tuple(tokens.CreatableRenewers(principal_type="User", principal_name=name) for name in ("bob", "carol"))
    request = tokens.CreateDelegationTokenRequest(
        owner_principal_type=None, owner_principal_name=None, renewers=renewers, max_lifetime=timedelta(hours=1)
    )
    calls.call(request)
    hmac = calls.call(request).hmac
    at_once = timedelta(milliseconds=-1)
    expired = unwanted_tokens.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period=at_once)
    # The broker knows the token when it has read the log so far.
    wait_until(lambda: succeeded(calls.ask(expired)), "the end of a token")
