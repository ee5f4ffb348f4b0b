"""Nodes with an authorizer, as processes: who may do what, with certificates and passwords over real TLS and SASL."""

import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.nodes.cluster import Cluster
from pykraft.config import TEST_TOPIC_ID, TEST_TOPIC_NAME
from pykraft.errors import AuthenticationError
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, LISTENER, QUICK, free_ports
from pykraft.protocol.messages import APIS, SASL_KEYS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.security.acls import STANDARD_AUTHORIZER
from pykraft.security.authority import Authority
from pykraft.security.contexts import Side
from pykraft.security.sasl import SaslCredentials
from pykraft.security.settings import Security
from pykraft.types import ZERO_UUID
from tests.host.test_authorization import ACLS, EVERYBODY, LISTENERS, Somebody, asked, expected, refused_at
from tests.processes.commands import run, stop_under_load
from tests.processes.wire import Wire, framed
from tests.security.credentials import HOSTS, authority, context, properties, write
from tests.security.proofs import MODULES, jaas

pytestmark = pytest.mark.processes

REFUSED = 31
RULES = f"""
--allow-principal User:node1 --allow-principal User:node2 --operation ClusterAction --cluster
--allow-principal User:node3 --operation ClusterAction --cluster
--allow-principal User:reader --operation Read --topic {TEST_TOPIC_NAME}
--allow-principal User:reader --operation Describe --cluster
"""
ANSWERS: dict[str, tuple[int, int, int, int]] = {
    # DescribeQuorum, RemoveRaftVoter of nobody, Vote as node 2, Fetch as node 2: whether each is refused.
    "nobody": (1, 1, 1, 1),
    "reader": (0, 1, 1, 1),
    "node3": (1, 1, 1, 1),
    "node2": (1, 1, 0, 0),
    "root": (0, 0, 1, 1),
}


class Quorum:
    """Three voters, each with its own certificate, and the certificates of others."""

    def __init__(self, children: Children, folder: Path) -> None:
        self.folder = folder / "certificates"
        self.values = properties(self.folder)
        self.rules = folder / "rules"
        self.rules.write_text(RULES)
        given = {
            **self.values,
            "listener.security.protocol.map": f"{LISTENER}:SSL",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:root",
            "pykraft.acl.file": str(self.rules),
            "pykraft.voter.principals": "1@User:node1;2@User:node2;3@User:node3",
        }
        self.cluster = Cluster(children, folder, properties={**QUICK, **given})
        for node_id, node in self.cluster.nodes.items():
            with node.config.open("a") as file:
                file.write(f"\nssl.keystore.location={self.certificate(f'node{node_id}')}\n")

    def certificate(self, name: str) -> str:
        return write(self.folder / f"{name}.pem", authority().issue(name, HOSTS))

    def client(self, name: str) -> Path:
        """The properties file of a tool with this certificate."""
        path = self.folder / f"{name}.properties"
        location, trusted = self.certificate(name), self.values["ssl.truststore.location"]
        path.write_text(f"security.protocol=SSL\nssl.keystore.location={location}\nssl.truststore.location={trusted}\n")
        return path

    @contextmanager
    def wire(self, name: str, node_id: int) -> Iterator[Wire]:
        """A connection to a node with this certificate."""
        values = {**self.values, "ssl.keystore.location": self.certificate(name)}
        with Wire(self.cluster.nodes[node_id].port, context(values, Side.CLIENT).current) as wire:
            yield wire

    def logs(self) -> str:
        return "".join(node.process.log() for node in self.cluster.nodes.values())


def vote(cluster_id: str) -> Body:
    """A request for a pre-vote in the name of node 2."""
    partition: Body = {"replica_epoch": 0, "replica_id": 2, "pre_vote": True, "last_offset_epoch": 0, "last_offset": 0}
    partition |= {"replica_directory_id": ZERO_UUID, "voter_directory_id": ZERO_UUID, "partition_index": 0}
    topics = [{"topic_name": TEST_TOPIC_NAME, "partitions": [partition]}]
    return {"cluster_id": cluster_id, "voter_id": 1, "topics": topics}


def fetch(cluster_id: str) -> Body:
    """A request in the name of node 2 that would acknowledge everything."""
    part = {"partition": 0, "fetch_offset": 2**40, "last_fetched_epoch": 1, "partition_max_bytes": 1_000}
    return {
        "cluster_id": cluster_id,
        "replica_state": {"replica_id": 2, "replica_epoch": -1},
        "max_wait_ms": 0,
        "topics": [{"topic_id": TEST_TOPIC_ID, "partitions": [part]}],
    }


def codes(quorum: Quorum, name: str) -> tuple[int, ...]:
    """For each request of `ANSWERS`, whether a follower, or the leader, refuses it of the holder of a certificate."""
    cluster_id, described = quorum.cluster.cluster_id, {"partitions": [{"partition_index": 0}]}
    asked: list[tuple[ApiKey, int, Any]] = [
        (ApiKey.DESCRIBE_QUORUM, 2, {"topics": [{"topic_name": TEST_TOPIC_NAME, **described}]}),
        (ApiKey.REMOVE_RAFT_VOTER, 0, {"cluster_id": cluster_id, "voter_id": 9, "voter_directory_id": ZERO_UUID}),
        (ApiKey.VOTE, 2, vote(cluster_id)),
        (ApiKey.FETCH, 17, fetch(cluster_id)),
    ]
    with ExitStack() as stack:
        wires = [stack.enter_context(quorum.wire(name, node_id)) for node_id in quorum.cluster.nodes]
        found = [{wire.ask(*each)["error_code"] == REFUSED for wire in wires} for each in asked]
    assert all(len(each) == 1 for each in found), "all nodes have the same rules"
    return tuple(int(True in each) for each in found)


def test_everybody_may_do_what_the_rules_say_and_no_node_acts_as_another(children: Children, tmp_path: Path) -> None:
    quorum = Quorum(children, tmp_path)
    cluster = quorum.cluster
    cluster.start()
    cluster.journal.wait_for_acknowledged(100, since=0)
    assert {name: codes(quorum, name) for name in ANSWERS} == ANSWERS
    assert "refused User:node3 at 127.0.0.1 on " in quorum.logs()
    assert "VOTE as node 2: User:node3 is not among pykraft.voter.principals of node 2" in quorum.logs()

    for name, authority_of in (("root", Authority.create("another cluster's CA")), ("none", None)):
        # Neither the certificate of another cluster nor none gets as far as a request.
        path = tmp_path / f"{name}.pem"
        values = {**quorum.values, "ssl.keystore.location": ""}
        if authority_of is not None:
            values["ssl.keystore.location"] = write(path, authority_of.issue("root", HOSTS))
        for node in cluster.nodes.values():
            with (
                pytest.raises((OSError, ConnectionError)),
                Wire(node.port, context(values, Side.CLIENT).current) as wire,
            ):
                wire.ask(ApiKey.API_VERSIONS, 3, {"client_software_name": "a", "client_software_version": "1"})

    bootstrap = ",".join(f"{HOSTS[1]}:{node.port}" for node in cluster.nodes.values())
    asked = ("--bootstrap-controller", bootstrap, "--timeout", "10")
    seen = run("tail", *asked, "--command-config", str(quorum.client("reader")), "--max-records", "3")
    assert len(seen.stdout.splitlines()) == 3
    told = run("quorum", *asked, "--command-config", str(quorum.client("reader")), "describe", "--status")
    assert told.returncode == 0
    refused = run(
        "quorum", *asked[:2], "--timeout", "2", "--command-config", str(quorum.client("nobody")), "describe", "--status"
    )
    assert refused.returncode != 0
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused.stderr + refused.stdout
    stop_under_load(cluster)


def test_a_changed_rule_counts_on_open_connections_and_a_broken_file_changes_nothing(
    children: Children, tmp_path: Path
) -> None:
    quorum = Quorum(children, tmp_path)
    cluster = quorum.cluster
    cluster.start()
    cluster.journal.wait_for_acknowledged(100, since=0)
    described = {"topics": [{"topic_name": TEST_TOPIC_NAME, "partitions": [{"partition_index": 0}]}]}
    node = cluster.nodes[1]
    with quorum.wire("reader", 1) as wire:

        def is_refused() -> bool:
            return bool(wire.ask(ApiKey.DESCRIBE_QUORUM, 2, described)["error_code"] == REFUSED)

        assert not is_refused()
        quorum.rules.write_text(RULES + "--deny-principal User:reader")
        told = run("quorum", "reload", str(node.partition.parent))
        assert told.returncode == 1
        assert "line 6: give --topic, --group or --cluster" in told.stdout
        assert "changed rules are not taken up" in node.process.log()
        assert not is_refused()
        quorum.rules.write_text(f"{RULES}--deny-principal User:reader --cluster\n")
        told = run("quorum", "reload", str(node.partition.parent))
        assert (told.returncode, "refused" in told.stdout, is_refused()) == (0, False, True), told
        wait_until(lambda: "6 rules were read again" in cluster.nodes[2].process.log(), "others notice it themselves")
    mark = cluster.journal.mark()
    cluster.journal.wait_for_acknowledged(100, since=mark)
    stop_under_load(cluster)


BY_CERTIFICATE = ("CONTROLLER", "OPERATORS", "OTHER")
CERTIFIED = ("another's client", "client that reads", "reader in a node's name", "operator", "watcher", "another node")
BY_PASSWORD = ("CLIENTS", "BOTH")
PROVEN = (*CERTIFIED[:3], "producer", "consumer", "keeper of groups")


class EveryListener:
    """A node with all kinds of listeners, each secured, and the rules of `tests.host.test_authorization`."""

    def __init__(self, children: Children, folder: Path) -> None:
        self.values = properties(folder / "certificates")
        self.folder = folder
        self.foreign = Authority.create("another cluster's CA")
        *ports, self.metrics_port = free_ports(len(LISTENERS) + 1)
        self.ports = dict(zip(LISTENERS, ports, strict=True))
        (folder / "rules").write_text(ACLS)
        users = " ".join(f'user_{name}="{name}"' for name in (EVERYBODY[each].principal.name for each in PROVEN))
        given = {
            **self.values,
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items()),
            "controller.listener.names": "CONTROLLER,BOTH",
            "controller.quorum.voters": f"1@{HOST}:{self.ports['CONTROLLER']}",
            "pykraft.operator.listeners": "OPERATORS,CONTROLLER",
            "pykraft.client.listeners": "CLIENTS,BOTH",
            "pykraft.prometheus.listener": f"{HOST}:{self.metrics_port}",
            "listener.security.protocol.map": "CONTROLLER:SSL,OPERATORS:SSL,CLIENTS:SASL_SSL,BOTH:SASL_PLAINTEXT,"
            "OTHER:SSL,PROMETHEUS:SSL",
            "listener.name.clients.ssl.client.auth": "none",
            "listener.name.other.ssl.client.auth": "requested",
            "ssl.principal.mapping.rules": "RULE:^CN=([a-z-]+)$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": "PLAIN",
            "plain.sasl.jaas.config": f"{MODULES['PLAIN']} required {users};",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "pykraft.acl.file": str(folder / "rules"),
            "pykraft.voter.principals": "2@User:CN=node2;3@User:CN=node3",
        }
        self.cluster = Cluster(children, folder, size=1, properties=given)
        self.cluster.start()

    def certified(self, listener: str, name: str | None, issuer: Authority | None = None) -> Wire:
        """A connection with a certificate for this name, or with none."""
        return Wire(self.ports[listener], context(self.shown(name, issuer), Side.CLIENT).current)

    def shown(self, name: str | None, issuer: Authority | None = None) -> Mapping[str, str]:
        """Properties of a client with a certificate for this name, or with none."""
        if name is None:
            return {**self.values, "ssl.keystore.location": ""}
        content = (issuer or authority()).issue(name.removeprefix("CN="), HOSTS)
        return {**self.values, "ssl.keystore.location": write(self.folder / "shown.pem", content)}

    def unproven(self, listener: str) -> Wire:
        """A connection that has to authenticate."""
        return self.certified(listener, None) if listener == "CLIENTS" else Wire(self.ports[listener])

    def proven(self, listener: str, name: str, password: str | None = None) -> Wire:
        """A connection of this user. Errors: AuthenticationError, then it is closed."""
        values = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
        values["sasl.jaas.config"] = jaas("PLAIN", user=name, password=password or name)
        wire = self.unproven(listener)
        try:
            wire.prove(SaslCredentials(Security.of_client(values)))
        except AuthenticationError:
            with wire:
                assert wire.is_closed_by_peer()
            raise
        return wire


def requests_on(wire: Wire) -> Iterator[tuple[int, int]]:
    """Every API and version that the listener of a connection serves."""
    for api in wire.ask(ApiKey.API_VERSIONS, 0, {})["api_keys"]:
        key = api["api_key"]
        for version in range(api["min_version"], api["max_version"] + 1):
            # Versions of Produce before the first are listed for librdkafka, and not served.
            if key not in SASL_KEYS and version in APIS[key].request.versions:
                yield key, version


def refusals(wire: Wire, who: Somebody, listener: str) -> int:
    """Ask everything that somebody may not do; how much that was."""
    count = 0
    for key, version in list(requests_on(wire)):
        is_allowed, codes = expected(who, listener, key, version)
        if not is_allowed:
            wire.send(framed(asked(key, version, who.node_id)))
            assert refused_at(key, version, wire.receive()) == codes, (listener, who, key, version)
            count += 1
    return count


def is_heard(connected: Callable[[], Wire], data: bytes) -> bool:
    """Whether anything is answered on a new connection."""
    try:
        with connected() as wire:
            wire.send(data)
            wire.receive()
    except OSError:
        return False
    return True


def test_nobody_gets_more_than_the_table_says_on_any_listener(children: Children, tmp_path: Path) -> None:
    """What each may do is tried in `tests.host.test_authorization`; here is what they may not, as they really come."""
    node, tried = EveryListener(children, tmp_path), 0
    for listener in BY_CERTIFICATE:
        for name in CERTIFIED:
            with node.certified(listener, EVERYBODY[name].principal.name) as wire:
                tried += refusals(wire, EVERYBODY[name], listener)
    with node.certified("OTHER", None) as wire:
        tried += refusals(wire, EVERYBODY["stranger"], "OTHER")
        everything = {key: framed(asked(*key, -1)) for key in requests_on(wire)}
    for listener in BY_PASSWORD:
        for name in PROVEN:
            with node.proven(listener, EVERYBODY[name].principal.name) as wire:
                tried += refusals(wire, EVERYBODY[name], listener)
                everything |= {key: framed(asked(*key, -1)) for key in requests_on(wire)}

    # Whoever shows no certificate, one of another cluster, no password or a wrong one gets as far as no request.
    assert (tried > 1_000, len(everything) > 100) == (True, True), (tried, len(everything))
    for listener in BY_CERTIFICATE:
        connections = [partial(node.certified, listener, "reader", node.foreign)]
        connections += [partial(node.certified, listener, None)] if listener != "OTHER" else []
        for connected in connections:
            assert not is_heard(connected, b"".join(everything.values())), listener
    for listener in BY_PASSWORD:
        for (key, version), data in everything.items():
            is_open = key == ApiKey.API_VERSIONS
            assert is_heard(partial(node.unproven, listener), data) == is_open, (listener, key, version)
        for name, password in (("reader", "guess"), ("nobody", "nobody")):
            with pytest.raises(AuthenticationError, match="Invalid username or password"):
                node.proven(listener, name, password)

    def scraped(values: Mapping[str, str]) -> int:
        url, tls = f"https://localhost:{node.metrics_port}/metrics", context(values, Side.CLIENT).current
        with urllib.request.urlopen(url, timeout=60, context=tls) as answer:
            return int(answer.status)

    assert scraped(node.shown("reader")) == 200
    for values in (node.shown(None), node.shown("reader", node.foreign)):
        with pytest.raises(OSError, match=r"(?s)."):
            scraped(values)
    stop_under_load(node.cluster)
