"""Configures a node from Python, also when ports and voters become known only later.

Addresses are text: ``host:port``, an IPv6 host in brackets, port 0 for any free port. Invariant: the result is
complete, and whatever is not given is Kafka's default.

Source: Kafka's ``KRaftConfigs`` and ``QuorumConfig``; RFC 3986 §3.2.2 for brackets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Final

from pykraft.client.arguments import nodes_to_contact
from pykraft.config import TEST_CLUSTER_ID, VOTERS_KEY, LogSettings, NodeConfig, RaftConfig, refuse_shared_addresses
from pykraft.errors import ConfigError, UsageError
from pykraft.security.acls import AuthorizerSettings
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.types import NO_LISTENERS, PORT_MAX, Endpoint, Listeners, NodeId, ReplicaKey, Voter, VoterSet

ANY_PORT: Final = "127.0.0.1:0"


def configure(  # noqa: PLR0913 - keyword-only, and each for itself
    directory: str | PathLike[str],
    *,
    node_id: int | None = None,
    voters: Mapping[int, str] | None = None,
    bootstrap: Sequence[Endpoint] = (),
    listen: str | None = None,
    cluster_id: str = TEST_CLUSTER_ID,
    security: Security = IN_THE_CLEAR,
    authorizer: AuthorizerSettings | None = None,
    raft: RaftConfig = RaftConfig(),  # noqa: B008 - it is frozen
    log: LogSettings = LogSettings(),  # noqa: B008 - it is frozen
) -> NodeConfig:
    """The configuration of one node that keeps its files in ``directory``.

    ``voters`` are the addresses of all voters by id; without them, pass them to `Node.initialize`. A node of a quorum
    that exists needs only some addresses, ``bootstrap``, such as `discover` finds; with ``RaftConfig(auto_join=True)``
    it becomes a voter by itself, if the voters are in the log (`Membership.allow_changes`). A node listens at
    ``listen``, or at the address of its own entry, or on a free port of the loopback interface. A node without an id is
    an observer and does not listen. ``security`` protects its connections in both directions; `Security.of_client`
    reads it from Kafka's properties, and all nodes need the same protocol. ``authorizer`` says what others may do
    here, by rules in a file; without it, whoever can connect may do everything.

    Errors: ConfigError; UsageError for settings of another type.
    """
    if isinstance(directory, bytes) or not isinstance(directory, str | PathLike):
        raise ConfigError("log.dirs", directory, "the directory is a str or a Path")
    if not isinstance(cluster_id, str):
        raise ConfigError("cluster.id", cluster_id, "it is text, as `pykraft storage random-uuid` prints it")
    for name, settings, kind in (
        ("raft", raft, RaftConfig),
        ("log", log, LogSettings),
        ("security", security, Security),
        ("authorizer", AuthorizerSettings() if authorizer is None else authorizer, AuthorizerSettings),
    ):
        if not isinstance(settings, kind):
            raise UsageError(f"{name} = {settings!r}: it is a {kind.__name__}")
    addresses, listener = _mapping({} if voters is None else voters), security.protocol.value
    at: Listeners = NO_LISTENERS
    if node_id is None:
        if listen is not None:
            raise ConfigError("listeners", listen, "a node without an id only observes, and does not listen")
    else:
        own = addresses.get(_node_id("node.id", node_id), ANY_PORT)
        endpoint = _endpoint("listeners", own if listen is None else listen)
        at = Listeners(((listener, endpoint),))
    return NodeConfig(
        node_id=None if node_id is None else NodeId(node_id),
        cluster_id=cluster_id,
        listeners=at,
        advertised_listeners=at,
        controller_listener_names=(listener,),
        security=() if security.is_in_the_clear else ((listener, security),),
        authorizer=authorizer,
        voters=voter_set(addresses, listener),
        bootstrap_servers=tuple(nodes_to_contact("bootstrap", bootstrap)) if bootstrap else (),
        log_dir=Path(directory),
        log=log,
        raft=raft,
    )


def voter_set(addresses: Mapping[int, str], listener: str = IN_THE_CLEAR.protocol.value) -> VoterSet:
    """A voter set from addresses by id, at the listener of this name, which is that of its protocol.

    Errors: ConfigError.
    """
    addresses = _mapping(addresses)
    return VoterSet.of(
        Voter(
            key=ReplicaKey(_node_id(VOTERS_KEY, node_id)),
            listeners=Listeners(((listener, _endpoint(VOTERS_KEY, address)),)),
        )
        for node_id, address in addresses.items()
    )


def with_ports(config: NodeConfig, ports: Mapping[str, int]) -> NodeConfig:
    """The configuration with the real ports of its listeners, by listener name."""
    real = [(name, replace(endpoint, port=ports[name])) for name, endpoint in config.listeners]
    told = [
        (name, endpoint if endpoint.port else replace(endpoint, port=ports[name]))
        for name, endpoint in config.advertised_listeners
    ]
    return replace(config, listeners=Listeners(tuple(real)), advertised_listeners=Listeners(tuple(told)))


def with_voters(config: NodeConfig, voters: VoterSet | None) -> NodeConfig:
    """The configuration with these voters, or with its own; a port 0 of this node is replaced by the real port.

    Errors: ConfigError when another voter has port 0, or two voters have one address.
    """
    resolved = [_resolved(config, voter) for voter in (config.voters if voters is None else voters).voters]
    resolved_set = VoterSet.of(resolved)
    refuse_shared_addresses(resolved_set)
    return replace(config, voters=resolved_set)


def _resolved(config: NodeConfig, voter: Voter) -> Voter:
    entries: list[tuple[str, Endpoint]] = []
    for name, endpoint in voter.listeners:
        own = config.advertised_listeners.get(name) if voter.key.id == config.node_id else None
        if endpoint.port == 0 and own is None:
            raise ConfigError(VOTERS_KEY, f"{voter.key.id}@{endpoint}", "the port of another voter must be given")
        entries.append((name, endpoint if endpoint.port or own is None else replace(endpoint, port=own.port)))
    return replace(voter, listeners=Listeners(tuple(entries)))


def _mapping(addresses: object) -> dict[int, str]:
    if not isinstance(addresses, Mapping):
        raise ConfigError(VOTERS_KEY, addresses, 'voters are a mapping from id to address: {1: "host:port"}')
    return dict(addresses)


def _node_id(key: str, node_id: int) -> NodeId:
    if type(node_id) is not int or not 0 <= node_id < 2**31:
        raise ConfigError(key, node_id, "a node id is a whole number of 0 or more")
    return NodeId(node_id)


def _endpoint(key: str, address: object) -> Endpoint:
    if not isinstance(address, str):
        raise ConfigError(key, address, "an address is text, host:port")
    host, separator, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        separator = ""
    is_port = port.isascii() and port.isdigit() and int(port) <= PORT_MAX
    if not separator or not is_port or not Endpoint(host, PORT_MAX).can_be_dialed:
        raise ConfigError(key, address, "an address is host:port (IPv6 in brackets) with a port from 0 to 65535")
    return Endpoint(host, int(port))
