"""Who may do what: every API on every kind of listener, version by version, for everybody who may knock.

What is expected is written down here a second time, apart from the table that the node has. The same over sockets, with
certificates and passwords, is in `tests.processes.test_authorizer`.

Source: Kafka's ``KafkaApis`` and ``ControllerApis``; the node in whose name a request is made, ours (ADR 250).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import pytest

from pykraft.config import TEST_TOPIC_ID, TEST_TOPIC_NAME
from pykraft.core import messages
from pykraft.core.effects import Report
from pykraft.host import controller_answers
from pykraft.host.authorization import NEEDS, NOTHING, Guard, named_node
from pykraft.host.controller_answers import ControllerApi
from pykraft.host.host import Host
from pykraft.host.inbound import ServedApis
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_response, encode_request
from pykraft.protocol.messages import APIS, CLIENT_KEYS, SASL_KEYS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.context import Refusal
from pykraft.security.acl_file import parse_acls
from pykraft.security.acls import Acl, Authorizer, AuthorizerSettings
from pykraft.security.principal import ANONYMOUS, KnownEnd, Principal
from pykraft.security.settings import Security, SecurityProtocol, Setting
from pykraft.types import Endpoint, Epoch, Listeners, NodeId, ReplicaKey, Voter, VoterSet
from tests.disks import ScriptedDisk
from tests.host.fakes import CONTEXT, FakePorts, at, config
from tests.processes.rpc_edges import plain
from tests.tidy.repository import ROOT

GROUP: Final = "127.0.0.1"
"""What `plain` calls everything that is not a topic."""
NO_VOTER: Final = 77
ADDRESS: Final = "10.1.2.3"
TOPIC_CODE, GROUP_CODE, CLUSTER_CODE = 29, 30, 31
ACLS: Final = f"""
--allow-principal User:reader --operation Read --topic {TEST_TOPIC_NAME}
--allow-principal User:producer --operation Write --topic {TEST_TOPIC_NAME}
--allow-principal User:consumer --operation Read --topic {TEST_TOPIC_NAME} --group {GROUP}
--allow-principal User:keeper --operation Delete --group {GROUP}
--allow-principal User:operator --operation Alter --cluster
--allow-principal User:watcher --operation Describe --cluster
--allow-principal User:settings --operation DescribeConfigs --topic {TEST_TOPIC_NAME} --cluster
--allow-principal User:CN=node2 --allow-principal User:CN=node3 --operation ClusterAction --operation Describe --cluster
--allow-principal User:banned --operation All --topic * --group * --cluster
--deny-principal User:banned --deny-host {ADDRESS} --operation All --topic * --group * --cluster
"""
LISTENERS: Final = ("CONTROLLER", "OPERATORS", "CLIENTS", "BOTH", "OTHER")
IN_A_NAME: Final = frozenset(
    {ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.UPDATE_RAFT_VOTER}
)
"""Requests that are always in the name of a node; those that fetch may be."""
FETCHES: Final = frozenset({ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT})
BETWEEN_NODES: Final = frozenset({ApiKey.FORWARD, *ControllerApi})
OPERATE: Final = frozenset(
    {ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.UPDATE_FEATURES, ApiKey.TRANSFER_LEADERSHIP}
)
LOOK: Final = frozenset({ApiKey.DESCRIBE_QUORUM, ApiKey.DESCRIBE_CLUSTER})
OPEN: Final = frozenset({ApiKey.API_VERSIONS, *SASL_KEYS, ApiKey.LIST_GROUPS})
"""For everybody; a list of groups has only what may be seen."""
TOPIC_LOOKS: Final = frozenset(
    {ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH}
)
MEMBERS: Final = frozenset(
    {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT}
)
GROUP_LOOKS: Final = frozenset({ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE})
EVERYTHING: Final = frozenset({*ApiKey, *ControllerApi, *SASL_KEYS})


@dataclass(frozen=True)
class Somebody:
    """Who knocks, in the name of which node it asks, and what it may."""

    principal: Principal
    may: frozenset[int]
    node_id: int = -1


EVERYBODY: Final[Mapping[str, Somebody]] = {
    "stranger": Somebody(ANONYMOUS, OPEN),
    "another's client": Somebody(Principal("nobody-knows"), OPEN),
    "client that reads": Somebody(Principal("reader"), OPEN | FETCHES | TOPIC_LOOKS),
    "reader in a node's name": Somebody(Principal("reader"), OPEN | TOPIC_LOOKS, 2),
    "producer": Somebody(Principal("producer"), OPEN | TOPIC_LOOKS | {ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID}),
    "consumer": Somebody(
        Principal("consumer"),
        OPEN | FETCHES | TOPIC_LOOKS | MEMBERS | GROUP_LOOKS | {ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH},
    ),
    "keeper of groups": Somebody(
        Principal("keeper"), OPEN | GROUP_LOOKS | {ApiKey.DELETE_GROUPS, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE}
    ),
    "operator": Somebody(Principal("operator"), OPEN | OPERATE | LOOK),
    "watcher": Somebody(Principal("watcher"), OPEN | LOOK),
    "settings": Somebody(Principal("settings"), OPEN | {ApiKey.DESCRIBE_CONFIGS}),
    "node": Somebody(Principal("CN=node2", ("node-2",)), OPEN | FETCHES | IN_A_NAME | BETWEEN_NODES | LOOK, 2),
    "node that reads": Somebody(Principal("CN=node2", ("node-2",)), OPEN | FETCHES | IN_A_NAME | BETWEEN_NODES | LOOK),
    "another node": Somebody(Principal("CN=node3", ("node-3",)), OPEN | BETWEEN_NODES | LOOK, 2),
    "banned": Somebody(Principal("banned"), OPEN),
    "super user": Somebody(Principal("CN=admin"), EVERYTHING),
    "super user in a node's name": Somebody(Principal("CN=admin", ("admin",)), EVERYTHING - IN_A_NAME - FETCHES, 2),
}
READERS: Final = ("reader", "consumer", "CN=admin")
FETCHERS: Final = (*READERS, "CN=node2", "CN=node3")
PLACES: Final[Mapping[int, Mapping[int, str]]] = {
    ApiKey.PRODUCE: {0: "responses.partition_responses"},
    ApiKey.LIST_OFFSETS: {0: "topics.partitions"},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {0: "topics.partitions"},
    ApiKey.METADATA: {0: "topics"},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {0: "topics"},
    ApiKey.DESCRIBE_CONFIGS: {0: "results"},
    ApiKey.OFFSET_COMMIT: {0: "topics.partitions"},
    ApiKey.OFFSET_FETCH: {0: "topics.partitions", 2: "", 8: "groups"},
    ApiKey.FIND_COORDINATOR: {0: "", 4: "coordinators"},
    ApiKey.DESCRIBE_GROUPS: {0: "groups"},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {0: "groups"},
    ApiKey.DELETE_GROUPS: {0: "results"},
}
"""Where an answer has the code of what was refused, from which version on; all others have it on top."""
CODES: Final[Mapping[int, int]] = {
    **dict.fromkeys((ApiKey.PRODUCE, *TOPIC_LOOKS, ApiKey.DESCRIBE_CONFIGS), TOPIC_CODE),
    **dict.fromkeys((*MEMBERS, *GROUP_LOOKS), GROUP_CODE),
    **dict.fromkeys(
        (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS), GROUP_CODE
    ),
}
"""The code; CLUSTER_AUTHORIZATION_FAILED for all others."""


VOTERS: Final = VoterSet.of(
    Voter(key=ReplicaKey(NodeId(each)), listeners=Listeners((("CONTROLLER", Endpoint(f"node-{each}", 9_000)),)))
    for each in (1, 2, 3)
)


class Node(FakePorts):
    """Voter 1 of three that never hears the others, with a listener of each kind and an authorizer."""

    def __init__(self, acls: Sequence[Acl] = (), *, authorizer_is_on: bool = True, **changes: Any) -> None:
        super().__init__()
        self.now = at(0)
        endpoints = {name: Endpoint("node-1", 9_001 + index) for index, name in enumerate(LISTENERS)}
        self.config = replace(
            config(1),
            listeners=Listeners(tuple(endpoints.items())),
            advertised_listeners=Listeners(tuple(endpoints.items())),
            controller_listener_names=("CONTROLLER", "BOTH"),
            operator_listeners=("OPERATORS", "CONTROLLER"),
            client_listeners=("CLIENTS", "BOTH"),
            voters=VOTERS,
            topic_name=TEST_TOPIC_NAME,
            topic_id=TEST_TOPIC_ID,
            **changes,
        )
        self.authorizer = Authorizer(AuthorizerSettings(super_users=frozenset({"User:CN=admin"})), acls)
        rng = Random(1)
        authorizer = self.authorizer if authorizer_is_on else None
        self.host = Host.open(ScriptedDisk(rng), self, self.config, rng=rng, authorizer=authorizer)
        self.host.start(self.now)
        self.host.serve_forwards(lambda _, answer: answer({"error_code": 0, "leader_epoch": 0}))
        self.connection = ConnectionId(1_000_000)

    def close(self, connection: ConnectionId) -> None:
        """See `pykraft.host.ports.Ports`: what was asked is not served."""
        self.closed.append(connection)

    def knock(self, principal: Principal, listener: str) -> None:
        """Somebody connects."""
        self.connection = ConnectionId(self.connection + 1)
        self.host.on_accepted(self.connection, listener, self.now, KnownEnd(principal, ADDRESS))

    def ask(self, frame: bytes) -> bytes | None:
        """The answer to a request; None if there is none yet. The connection closes if it is not served."""
        self.sent.clear()
        self.host.on_frame(self.connection, frame, self.now)
        found = [data for connection, data in self.sent if connection == self.connection]
        return found[0] if found else None

    def answer_to(self, key: ApiKey, version: int, body: Body) -> Body:
        """A request that is answered."""
        raw = self.ask(encoded(key, version, body))
        assert raw is not None
        return decode_response(key, version, raw)[1]

    @property
    def is_open(self) -> bool:
        return self.connection not in self.closed


def encoded(key: int, version: int, body: Body) -> bytes:
    return b"".join(bytes(part) for part in encode_request(key, version, 1, None, body))


def asked(key: int, version: int, node_id: int) -> bytes:
    """A request about our topic and one group, in the name of this node."""
    if key in controller_answers.ANSWERS:
        return key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\xff\xff\0\0"
    body = plain(APIS[key].request.body, version)
    if key == ApiKey.DESCRIBE_CONFIGS:
        body["resources"][0] |= {"resource_type": 2, "resource_name": TEST_TOPIC_NAME}
    if key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
        body["subscribed_topic_names"] = [TEST_TOPIC_NAME]
    if key == ApiKey.DESCRIBE_CLUSTER and version >= 1:
        body["endpoint_type"] = 2
    if key == ApiKey.METADATA and version < 12:
        body["topics"][0]["name"] = TEST_TOPIC_NAME
    if key in IN_A_NAME | FETCHES:
        put_name(body, NO_VOTER if key in IN_A_NAME and node_id < 0 else node_id)
    if key == ApiKey.FETCH:
        body["min_bytes"] = 1
    return encoded(key, version, body)


def put_name(body: Any, node_id: int) -> None:
    """Every field that names the sender names this node."""
    for key, value in body.items() if isinstance(body, dict) else enumerate(body):
        if key in ("replica_id", "leader_id", "voter_id"):
            body[key] = node_id
        elif isinstance(value, dict | list):
            put_name(value, node_id)


def codes_in(body: Any, place: str = "") -> Iterator[tuple[str, int]]:
    """Every error in an answer, and where it is."""
    for key, value in body.items():
        if key == "error_code" and value:
            yield place, value
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                yield from codes_in(one, f"{place}.{key}".lstrip("."))


def refused_at(key: int, version: int, raw: bytes) -> set[tuple[str, int]]:
    """Where an answer has which code of an authorizer."""
    if key in controller_answers.ANSWERS:
        position = 6 if key == ControllerApi.ENVELOPE else 9
        found = {("", int.from_bytes(raw[position : position + 2], "big"))}
    else:
        found = set(codes_in(decode_response(key, version, raw)[1]))
    return {each for each in found if each[1] in (TOPIC_CODE, GROUP_CODE, CLUSTER_CODE)}


def expected_at(key: int, version: int, *, is_consumer: bool) -> set[tuple[str, int]]:
    """The same for a request that is refused as a whole."""
    if key == ApiKey.FETCH:
        rows = {("responses.partitions", TOPIC_CODE if is_consumer else CLUSTER_CODE)}
        top = {("", CLUSTER_CODE)} if not is_consumer and version >= 7 else set()
        return top | (rows if is_consumer or version < 13 else set())
    places = PLACES.get(key, {0: ""})
    place = places[max(first for first in places if first <= version)]
    return {(place, CODES.get(key, CLUSTER_CODE))}


def expected(who: Somebody, listener: str, key: int, version: int) -> tuple[bool, set[tuple[str, int]]]:
    """Whether somebody may do this on a listener of `Node`, and where the answer has which code of an authorizer."""
    is_of_clients = listener == "CLIENTS" or (listener == "BOTH" and who.node_id < 0)
    is_consumer = key == ApiKey.FETCH and is_of_clients
    is_allowed = who.principal.name in READERS if is_consumer else key in who.may
    # No replica sends older versions: whoever may read hears that such a request is invalid.
    is_allowed |= key == ApiKey.FETCH and not is_consumer and version < 13 and who.principal.name in FETCHERS
    # Version 0 asks for the brokers.
    is_allowed |= key == ApiKey.DESCRIBE_CLUSTER and version == 0 and listener in ("CLIENTS", "BOTH")
    if is_allowed and key == ApiKey.OFFSET_DELETE and who.principal.name == "keeper":
        return True, {("topics.partitions", TOPIC_CODE)}  # the group may be changed, the topic not be read
    return is_allowed, set() if is_allowed else expected_at(key, version, is_consumer=is_consumer)


def served(node: Node, listener: str) -> Mapping[int, Any]:
    apis: ServedApis = node.host._components.inbound._apis
    return apis.on(listener, forwards=True)


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("name", EVERYBODY)
def test_everybody_gets_what_the_table_says(name: str, listener: str) -> None:
    who, machine, tried = EVERYBODY[name], Node(parse_acls(ACLS, "test")), 0
    for key, versions in served(machine, listener).items():
        if key in SASL_KEYS:
            continue  # before anybody is known
        for version in range(versions.min, versions.max + 1):
            if key == ApiKey.PRODUCE and version < APIS[key].request.versions.min:
                continue  # listed for librdkafka, and not served
            machine.knock(who.principal, listener)
            before = machine.host._components.guard.refusals  # type: ignore[union-attr]
            raw = machine.ask(asked(key, version, who.node_id))
            found = set() if raw is None else refused_at(key, version, raw)
            is_allowed, codes = expected(who, listener, key, version)
            # Nobody follows a leader that is nowhere; the request was read, at least.
            assert machine.is_open or (key == ApiKey.BEGIN_QUORUM_EPOCH and is_allowed), (key, version)
            assert found == codes, (key, version)
            if not is_allowed:
                assert machine.host._components.guard.refusals > before  # type: ignore[union-attr]
            tried += 1
    assert tried > 5


def test_what_is_refused_is_told_with_principal_and_address() -> None:
    machine = Node(parse_acls(ACLS, "test"))
    machine.knock(Principal("reader"), "OPERATORS")
    machine.ask(asked(ApiKey.REMOVE_RAFT_VOTER, 0, -1))
    assert machine.reports[-1] == (
        "refused User:reader at 10.1.2.3 on OPERATORS: Alter on Cluster:kafka-cluster (REMOVE_RAFT_VOTER)"
    )
    assert machine.host.metrics(machine.now)["authorization-refusals-total"] == 1


def test_every_api_that_a_listener_serves_has_a_row() -> None:
    machine = Node()
    every = {key for listener in LISTENERS for key in served(machine, listener)}
    assert every <= NEEDS.keys()
    assert {*ApiKey} - {ApiKey.UNREGISTER_CONTROLLER} <= NEEDS.keys()
    assert {key for key, need in NEEDS.items() if need == NOTHING} == {ApiKey.API_VERSIONS, *SASL_KEYS}
    assert {key for key, need in NEEDS.items() if need.cluster is None and need != NOTHING} <= CLIENT_KEYS


def test_an_api_without_a_row_is_refused() -> None:
    machine = Node()
    machine.knock(Principal("CN=admin"), "CONTROLLER")
    guard = machine.host._components.guard
    assert guard is not None
    [asker] = machine.host._components.inbound._requesters.values()
    assert not guard.admits(asker, 29_999)
    assert "an API without a rule (29999)" in machine.reports[-1]


def test_a_changed_rule_counts_at_once() -> None:
    machine = Node(parse_acls(ACLS, "test"))
    machine.knock(Principal("watcher"), "OTHER")
    body = {"endpoint_type": 2}
    assert machine.answer_to(ApiKey.DESCRIBE_CLUSTER, 1, body)["error_code"] != CLUSTER_CODE
    machine.authorizer.acls = ()
    told = machine.answer_to(ApiKey.DESCRIBE_CLUSTER, 1, body)
    assert (told["error_code"], told["error_message"]) == (
        CLUSTER_CODE,
        "this principal lacks a permission on the cluster",
    )
    machine.authorizer.acls = parse_acls(ACLS, "test")
    assert machine.answer_to(ApiKey.DESCRIBE_CLUSTER, 1, body)["error_code"] != CLUSTER_CODE


def test_without_an_authorizer_a_protected_node_refuses_only_who_acts_as_another() -> None:
    machine = Node(security=(("CONTROLLER", Security(SecurityProtocol.SSL)),), authorizer_is_on=False)
    for listener in LISTENERS:
        for key, versions in served(machine, listener).items():
            if key in SASL_KEYS:
                continue
            machine.knock(Principal("CN=node3", ("node-3",)), listener)
            raw = machine.ask(asked(key, versions.max, 2))
            found = set() if raw is None else refused_at(key, versions.max, raw)
            is_core = key != ApiKey.FETCH or listener != "CLIENTS"
            assert bool(found) == (key in IN_A_NAME | FETCHES and is_core), (key, listener)


def test_brokers_are_described_to_everybody_as_kafkas_brokers_do() -> None:
    machine = Node()
    machine.knock(ANONYMOUS, "CLIENTS")
    assert machine.answer_to(ApiKey.DESCRIBE_CLUSTER, 1, {"endpoint_type": 1})["error_code"] == 0


def guard(
    *,
    voter_principals: tuple[tuple[int, str], ...] = (),
    protocol: SecurityProtocol = SecurityProtocol.SSL,
    algorithm: str = "https",
) -> Guard:
    reports: list[Report] = []
    key = "ssl.endpoint.identification.algorithm"
    dialed = Security(protocol, ((key, Setting(key, algorithm)),))
    return Guard(reports.append, CONTEXT, lambda: VOTERS, voter_principals=voter_principals, dialed=dialed)


@pytest.mark.parametrize(
    ("principal", "node_id", "may"),
    [
        (Principal("CN=x", ("node-2",)), 2, True),
        (Principal("CN=x", ("NODE-2.",)), 2, True),
        (Principal("CN=node-2", ("node-3",)), 2, False),
        (Principal("CN=node-2", ("10.0.0.2",)), 2, False),
        (Principal("CN=x", ("node-3",)), 7, True),
        (Principal("x"), 2, True),
        (ANONYMOUS, 2, True),
    ],
)
def test_a_certificate_acts_as_the_voter_at_its_host(principal: Principal, node_id: int, *, may: bool) -> None:
    assert (guard().impostor(principal, node_id) is None) == may


@pytest.mark.parametrize(
    ("principal", "node_id", "may"),
    [
        (Principal("CN=x", ("elsewhere",)), 2, True),
        (Principal("second"), 2, True),
        (Principal("CN=y", ("node-2",)), 2, False),
        (ANONYMOUS, 2, False),
        (Principal("CN=y", ("node-3",)), 3, True),
        (Principal("CN=x", ("node-2",)), 3, False),
    ],
)
def test_who_is_named_as_a_node_acts_as_it_and_nobody_else(principal: Principal, node_id: int, *, may: bool) -> None:
    named = guard(voter_principals=((2, "User:CN=x"), (2, "User:second")))
    assert (named.impostor(principal, node_id) is None) == may


def test_whoever_is_dialed_with_sasl_is_told_by_the_certificate_alone() -> None:
    named = guard(voter_principals=((2, "User:second"),), protocol=SecurityProtocol.SASL_SSL)
    assert named.impostor(Principal("CN=y", ("node-2",)), 2, is_dialed=True) is None
    assert named.impostor(Principal("CN=y", ("node-3",)), 2, is_dialed=True) is not None
    assert named.impostor(Principal("CN=y", ("node-2",)), 2) is not None


def test_whoever_is_dialed_with_tls_has_a_certificate() -> None:
    problem = guard().impostor(ANONYMOUS, 2, is_dialed=True)
    assert problem is not None
    assert "is for no host, and voter 2 is at node-2" in problem
    assert guard(protocol=SecurityProtocol.SASL_PLAINTEXT).impostor(ANONYMOUS, 2, is_dialed=True) is None


def test_where_certificates_may_have_any_name_their_hosts_say_nothing() -> None:
    open_guard = guard(algorithm="", voter_principals=((3, "User:x"),))
    assert open_guard.impostor(Principal("CN=y", ("node-3",)), 2) is None
    assert open_guard.impostor(Principal("CN=y", ("node-3",)), 2, is_dialed=True) is None
    assert open_guard.impostor(Principal("CN=y", ("node-3",)), 3) is not None


def test_no_name_is_in_a_request_of_an_operator() -> None:
    assert named_node(messages.RemoveVoterRequest(voter=ReplicaKey(NodeId(2)))) is None
    assert named_node(Refusal(1, {})) is None
    assert named_node(messages.EndQuorumEpochRequest(epoch=Epoch(1), leader_id=NodeId(4), successors=())) == 4


def test_a_node_without_authorizer_and_protection_checks_nothing() -> None:
    plain_node = config(1)
    assert Guard.of(FakePorts(), plain_node, lambda: plain_node.voters, None) is None


def table_of_needs() -> str:
    """What each API needs, for the documentation."""
    lines = ["| request | operation on the cluster | on the group | on the topic |", "|---|---|---|---|"]
    by_need: dict[Any, list[str]] = {}
    for key, need in NEEDS.items():
        kinds: tuple[Any, ...] = (ApiKey, ControllerApi)
        name = next((kind(key).name for kind in kinds if key in list(kind)), SASL_NAMES.get(key, ""))
        by_need.setdefault(need, []).append("".join(word.capitalize() for word in name.split("_")))
    for need, names in by_need.items():
        cells = [each.value if each is not None else "" for each in (need.cluster, need.group, need.topic)]
        lines.append(f"| {', '.join(names)} | {' | '.join(cells)} |")
    return "\n".join(lines)


SASL_NAMES: Final = {17: "SASL_HANDSHAKE", 36: "SASL_AUTHENTICATE"}


def test_the_page_has_the_table(request: pytest.FixtureRequest) -> None:
    path, mark, end = ROOT / "docs" / "security-reference.md", "<!-- operations -->\n", "\n<!-- end -->"
    page = path.read_text()
    before, _, rest = page.partition(mark)
    expected = f"{before}{mark}\n{table_of_needs()}\n{end}{rest.partition('<!-- end -->')[2]}"
    if request.config.getoption("--rewrite"):
        path.write_text(expected)
    assert path.read_text() == expected
