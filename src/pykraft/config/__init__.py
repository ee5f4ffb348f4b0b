"""The configuration of a node as values, with Kafka's defaults and bounds.

It has the table of whole numbers: which property sets which field, and its bounds. Invariants: every configuration
object is within its bounds, whether it comes from a file or from a program. No two static voters have one address: each
would be asked for the other's vote, and no epoch would ever have a leader.

Source: Kafka's ``QuorumConfig``, ``MetadataLogConfig``, ``SocketServerConfigs``; KIP-595 §Configurations; the checks of
voters are ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pykraft.errors import ConfigError
from pykraft.security.acls import VOTER_PRINCIPALS_KEY, AuthorizerSettings
from pykraft.security.settings import Security
from pykraft.types import ZERO_UUID, Endpoint, Listeners, NodeId, Uuid, VoterSet

INT32_MAX = 2**31 - 1
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

TEST_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Cluster id of every Kafka TestRaftServer."""
TEST_TOPIC_NAME = "__raft_performance_test"
TEST_TOPIC_ID = Uuid(bytes(15) + b"\2")
METADATA_TOPIC_NAME = "__cluster_metadata"
"""Topic of Kafka's own controllers, and the name by which its tools ask for any quorum."""
METADATA_TOPIC_ID = Uuid(bytes(15) + b"\1")
AUTO_RECORDS = "auto"
ANY_RECORDS = "any"
KRAFT_RECORDS = "kraft"
NEVER_LEADS_KEY = "pykraft.voter.never.leads"
ONLY_VOTER = "false: this node is the only voter, so no other can lead"
TOPICS = {TEST_TOPIC_NAME: TEST_TOPIC_ID, METADATA_TOPIC_NAME: METADATA_TOPIC_ID}
"""Topics that a properties file can name, with their ids."""
ANSWER_SIZE_BYTES_MIN = 104_857_600
"""Every response up to this size is accepted, however little this node requested."""
ANSWER_OVERHEAD_BYTES = 1_048_576
"""A generous bound on what a response holds besides records."""
FILL_SIZE_BYTES_MAX = 1_048_576
"""Larger batches gain nothing: the next one is encoded while this one is written and sent."""
TRANSFER_TIMEOUT_MS = 1_000
"""How long a leader waits for its successor's log by default; it accepts no records meanwhile."""
TRANSFER_TIMEOUT_MS_MAX = 60_000
"""The longest wait of a leader."""


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number that a property sets: key, field, and inclusive bounds."""

    key: str
    field: str
    least: int
    most: int

    @property
    def allowed(self) -> str:
        """The bounds as text."""
        return f"a whole number from {self.least} to {self.most}"


RAFT_NUMBERS = (
    Number("controller.quorum.election.timeout.ms", "election_timeout_ms", 0, INT32_MAX),
    Number("controller.quorum.fetch.timeout.ms", "fetch_timeout_ms", 0, INT32_MAX),
    Number("controller.quorum.election.backoff.max.ms", "election_backoff_max_ms", 0, INT32_MAX),
    Number("controller.quorum.append.linger.ms", "append_linger_ms", 0, INT32_MAX),
    Number("controller.quorum.request.timeout.ms", "request_timeout_ms", 0, INT32_MAX),
    Number("controller.quorum.retry.backoff.ms", "retry_backoff_ms", 0, INT32_MAX),
    Number("controller.quorum.fetch.max.bytes", "fetch_size_bytes_max", 1, INT32_MAX),
    Number("controller.quorum.fetch.snapshot.max.bytes", "fetch_snapshot_size_bytes_max", 1, INT32_MAX),
    Number("internal.metadata.max.batch.size.in.bytes", "batch_size_bytes_max", 1_024, 2**30),
)
LOG_NUMBERS = (
    Number("internal.metadata.log.segment.bytes", "segment_size_bytes", 1_024, INT32_MAX),
    Number("metadata.log.segment.ms", "segment_ms", 1, INT64_MAX),
    Number("index.interval.bytes", "index_interval_bytes", 0, INT32_MAX),
    Number("segment.index.bytes", "index_size_bytes_max", 24, INT32_MAX),
    Number("metadata.max.retention.bytes", "retention_size_bytes_max", INT64_MIN, INT64_MAX),
    Number("metadata.max.retention.ms", "retention_age_ms_max", INT64_MIN, INT64_MAX),
    Number("pykraft.log.clean.interval.ms", "clean_interval_ms", 1, INT64_MAX),
    Number("metadata.log.max.record.bytes.between.snapshots", "snapshot_record_bytes_max", 1, INT64_MAX),
    Number("metadata.log.max.snapshot.interval.ms", "snapshot_interval_ms", 0, INT64_MAX),
    Number("pykraft.snapshot.max.bytes", "snapshot_size_bytes_max", 1, INT64_MAX),
    Number("internal.metadata.delete.delay.millis", "delete_delay_ms", 0, INT64_MAX),
    Number("pykraft.log.scrub.bytes.per.second", "scrub_bytes_per_s_max", 0, INT32_MAX),
    Number("pykraft.log.scrub.interval.ms", "scrub_interval_ms", 1, INT64_MAX),
)
NODE_NUMBERS = (
    Number("socket.request.max.bytes", "request_size_bytes_max", 1_024, INT32_MAX),
    Number("connections.max.idle.ms", "connections_idle_ms_max", 1, INT64_MAX),
    # A handshake, which includes it, may take ten seconds.
    Number("connection.failed.authentication.delay.ms", "failed_authentication_delay_ms", 0, 5_000),
    Number("group.max.size", "group_members_max", 1, 250),
    Number("group.min.session.timeout.ms", "group_session_timeout_ms_min", 1, INT32_MAX),
    Number("group.max.session.timeout.ms", "group_session_timeout_ms_max", 1, INT32_MAX),
    Number("group.initial.rebalance.delay.ms", "group_initial_delay_ms", 0, INT32_MAX),
    Number("group.consumer.session.timeout.ms", "group_consumer_session_timeout_ms", 1, INT32_MAX),
    Number("group.consumer.heartbeat.interval.ms", "group_heartbeat_interval_ms", 1, INT32_MAX),
    Number("offset.metadata.max.bytes", "offset_metadata_size_bytes_max", 1, 2**15 - 1),
    Number("offsets.retention.minutes", "offsets_retention_minutes", 1, INT32_MAX),
    Number("offsets.retention.check.interval.ms", "offsets_check_interval_ms", 1, INT64_MAX),
)


_OBSERVES = (
    f"with pykraft.topic={METADATA_TOPIC_NAME} this node only observes Kafka's controllers, it never votes, unless "
    f"{NEVER_LEADS_KEY}=true makes it a voter that never leads"
)


def _check(config: object, numbers: Sequence[Number]) -> None:
    """Reject values out of bounds. Errors: ConfigError."""
    for number in numbers:
        value = getattr(config, number.field)
        if not number.least <= value <= number.most:
            raise ConfigError(number.key, value, number.allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """Timers in ms, sizes in bytes; names and defaults after ``controller.quorum.*``, but for two. Errors: ConfigError.

    ``append_linger_ms`` is 0 here: appends that come while the leader writes share its next write anyway, so a program
    gains nothing from waiting. A properties file keeps Kafka's 25 ms, see `KAFKAS_RAFT`. ``fetch_size_bytes_max`` is
    four times that of Kafka 4.3, and half of what all versions before it asked for (ADR 110).
    """

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    append_linger_ms: int = 0
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_size_bytes_max: int = 4_194_304
    fetch_snapshot_size_bytes_max: int = 1_048_576
    fetch_wait_ms_max: int = 500
    batch_size_bytes_max: int = 8_388_608
    accumulated_batches_max: int = 10
    leader_send_flushed_only: bool = False
    auto_join: bool = False
    never_leads: bool = False
    """True for a voter that leaves the elections and the leadership to the others (ADR 077)."""

    def __post_init__(self) -> None:
        _check(self, RAFT_NUMBERS)

    @property
    def fill_size_bytes_max(self) -> int:
        """Up to this size a leader puts proposals into one batch; only a single larger proposal makes a larger one."""
        return min(FILL_SIZE_BYTES_MAX, self.fetch_size_bytes_max, self.batch_size_bytes_max)


KAFKAS_RAFT = RaftConfig(append_linger_ms=25)
"""What a properties file says that sets none of this: Kafka's defaults, but for the larger Fetch (ADR 110)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How the log is split into files, read again, and cleaned behind snapshots; names after ``metadata.log.*``.

    Errors: ConfigError.
    """

    segment_size_bytes: int = 1_073_741_824
    """A segment never grows beyond this, unless a single batch is larger."""
    segment_ms: int = 604_800_000
    """The log rolls when the batch timestamps of a segment span more than this."""
    index_interval_bytes: int = 4_096
    """Bytes of the log between two index entries."""
    index_size_bytes_max: int = 10_485_760
    """Preallocated size of the active segment's index files; a full index rolls the log."""
    retention_size_bytes_max: int = 104_857_600
    retention_age_ms_max: int = 604_800_000
    clean_interval_ms: int = 60_000
    """Time between two checks for old snapshots; one requested since the last check is being fetched, and stays."""
    snapshot_record_bytes_max: int = 20_971_520
    snapshot_interval_ms: int = 3_600_000
    snapshot_size_bytes_max: int = INT64_MAX
    delete_delay_ms: int = 60_000
    scrub_bytes_per_s_max: int = 1_048_576
    scrub_interval_ms: int = 86_400_000
    recent_size_bytes_max: int = 33_554_432
    """Bytes of durable batches kept in memory; no property sets it, and simulated nodes have less."""

    def __post_init__(self) -> None:
        _check(self, LOG_NUMBERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One node: its identity, its listeners, its log directory, and its voters.

    The node binds ``listeners`` and tells others ``advertised_listeners``; voters dial the first of
    ``controller_listener_names``. ``prometheus_listener`` serves the metrics over HTTP, if it is set; port 0 is any
    free one. Operators may change the quorum on ``operator_listeners``, given by their upper case names (None: on those
    of ``controller_listener_names``), and Kafka's producers and consumers are served on ``client_listeners`` (by
    default on none): they may call the topic ``client_topic``, and with ``client_records`` "kraft" they may write only
    what Java's replicas can read; with "auto" as long as one may be in the quorum. ``directory_id`` None means that the
    node reads it from the log directory, or creates it at the first start. A node without ``node_id`` only observes. So
    does one whose topic is that of Kafka's controllers: a leader among them must understand the records.

    Errors: ConfigError.
    """

    node_id: NodeId | None
    cluster_id: str = TEST_CLUSTER_ID
    directory_id: Uuid | None = None
    listeners: Listeners
    advertised_listeners: Listeners
    controller_listener_names: tuple[str, ...]
    security: tuple[tuple[str, Security], ...] = ()
    """How listeners other than PLAINTEXT are protected, by name; nodes dial each other as the first for voters says."""
    authorizer: AuthorizerSettings | None = None
    """Who decides what others may do; None: whoever reaches a listener may do what it serves."""
    voter_principals: tuple[tuple[int, str], ...] = ()
    """Who may act as a node, by its id; a node that is not here is told by the hosts in its certificate."""
    voters: VoterSet
    bootstrap_servers: tuple[Endpoint, ...] = ()
    log_dir: Path
    topic_name: str = TEST_TOPIC_NAME
    topic_id: Uuid = TEST_TOPIC_ID
    prometheus_listener: Endpoint | None = None
    operator_listeners: tuple[str, ...] | None = None
    client_listeners: tuple[str, ...] = ()
    client_topic: str = ""
    client_records: str = AUTO_RECORDS
    serves_produce: bool = True
    """False: no listener takes records of clients, since a state machine reads the log; no property sets it."""
    forward_size_bytes_max: int = 0
    """Largest request with commands that other nodes forward, where a state machine takes them; no property sets it."""
    client_producers_max: int = 10_000
    """Idempotent producers that are remembered; no property sets it, and simulated nodes remember fewer."""
    request_size_bytes_max: int = 104_857_600
    connections_idle_ms_max: int = 600_000
    failed_authentication_delay_ms: int = 100
    group_members_max: int = 250
    group_session_timeout_ms_min: int = 6_000
    group_session_timeout_ms_max: int = 1_800_000
    group_initial_delay_ms: int = 3_000
    group_consumer_session_timeout_ms: int = 45_000
    group_heartbeat_interval_ms: int = 5_000
    offset_metadata_size_bytes_max: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_check_interval_ms: int = 600_000
    log: LogSettings = LogSettings()
    raft: RaftConfig = RaftConfig()

    def __post_init__(self) -> None:
        _check(self, NODE_NUMBERS)
        if self.voter_principals and not self.security:
            raise ConfigError(
                VOTER_PRINCIPALS_KEY, "…", "all listeners are PLAINTEXT, where nobody proves who they are"
            )
        if self.directory_id == ZERO_UUID:
            raise ConfigError("directory.id", "zero", "an id other than zero, which stands for an unknown one")
        if not self.may_vote and self.node_id in self.voters.ids:
            raise ConfigError("controller.quorum.voters", f"{self.node_id}@…", _OBSERVES)
        if not self.may_vote and self.raft.auto_join:
            raise ConfigError("controller.quorum.auto.join.enable", "true", _OBSERVES)
        if self.raft.never_leads and self.node_id is None:
            raise ConfigError(NEVER_LEADS_KEY, "true", "false: without node.id this node only observes")
        if self.raft.never_leads and self.voters.ids == (self.node_id,):
            raise ConfigError(NEVER_LEADS_KEY, "true", ONLY_VOTER)

    @property
    def may_vote(self) -> bool:
        """False for a node that never becomes a voter."""
        return self.node_id is not None and (self.raft.never_leads or not self.is_kafkas_log)

    @property
    def is_kafkas_log(self) -> bool:
        """True for the log of Kafka's controllers: they write its records and its snapshots."""
        return self.topic_name == METADATA_TOPIC_NAME

    @property
    def answer_size_bytes_max(self) -> int:
        """Largest response that this node reads from a peer.

        A Fetch response has one whole batch whatever the request asked for, and the leader's largest batch may be
        larger than this node's; Kafka has no bound on responses.
        """
        raft = self.raft
        wanted = max(raft.fetch_size_bytes_max, raft.fetch_snapshot_size_bytes_max, raft.batch_size_bytes_max)
        return min(max(ANSWER_SIZE_BYTES_MIN, wanted + ANSWER_OVERHEAD_BYTES), INT32_MAX)

    def security_of(self, listener: str) -> Security:
        """How this listener is protected."""
        return dict(self.security).get(listener, Security())

    @property
    def sasl_listeners(self) -> list[str]:
        """Names of the listeners whose clients authenticate, in upper case."""
        return [name.upper() for name, security in self.security if security.uses_sasl]

    @property
    def security_between_nodes(self) -> Security:
        """How nodes of the quorum are dialed."""
        return self.security_of(self.default_listener)

    @property
    def default_listener(self) -> str:
        """Name of the listener that voters dial."""
        return self.controller_listener_names[0]

    @property
    def partition_directory(self) -> Path:
        """The directory of the topic's only partition."""
        return self.log_dir / f"{self.topic_name}-0"


VOTERS_KEY: Final = "controller.quorum.voters"
ADVERTISED_KEY: Final = "advertised.listeners"
WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - they are recognized, not bound
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def refuse_shared_addresses(voters: VoterSet) -> None:
    """Errors: ConfigError that names two voters with one address. Port 0 is that of nobody yet."""
    owners: dict[Endpoint, NodeId] = {}
    for voter in voters.voters:
        for _, endpoint in voter.listeners:
            owner = owners.setdefault(_normal(endpoint), voter.key.id)
            if endpoint.port and owner != voter.key.id:
                raise ConfigError(
                    VOTERS_KEY,
                    f"{voter.key.id}@{endpoint}",
                    f"voter {owner} has this address, too: each voter needs one of its own",
                )


def own_entry_warning(
    voters: VoterSet, node_id: NodeId, name: str, bound: Endpoint | None, advertised: Endpoint | None
) -> str | None:
    """The warning that the other voters dial this node where it is not, or elsewhere than it says; None without one.

    ``bound`` is where it listens for voters, and ``advertised`` what advertised.listeners has for this listener; None
    if that has nothing.

    Errors: ConfigError if it advertises the address of another voter.
    """
    for voter in voters.voters:
        other = voter.listeners.get(name)
        if voter.key.id == node_id or other is None or advertised is None:
            continue
        if _normal(other) == _normal(advertised):
            allowed = f"{VOTERS_KEY} has node {voter.key.id} at this address, and this is node {node_id}"
            raise ConfigError(ADVERTISED_KEY, f"{name}://{advertised}", allowed)
    entry = voters.get(node_id)
    listed = None if entry is None else entry.listeners.get(name)
    if listed is None:
        return None
    if advertised is None:
        if bound is None or _may_be_same(listed, bound):
            return None
        return (
            f"{VOTERS_KEY} has this node at {listed}, and it listens at {bound}: other nodes dial {listed}, so correct "
            "one of them, unless a proxy or a container's port forwards between them"
        )
    if _may_be_same(listed, advertised):
        return None
    return (
        f"{VOTERS_KEY} has this node at {listed}, and {ADVERTISED_KEY} at {advertised}: other nodes dial {listed} for "
        f"its vote, and {advertised} while it leads, so correct one of them, unless both reach this node"
    )


def _normal(endpoint: Endpoint) -> Endpoint:
    """The same endpoint for all ways to write an address that are certainly one."""
    host = endpoint.host.lower()
    return Endpoint("localhost" if host in LOOPBACK else host, endpoint.port)


def _may_be_same(one: Endpoint, other: Endpoint) -> bool:
    """False if these are certainly two addresses, or two names. A name may have any address, and a wildcard has all."""
    if one.port != other.port:
        return False
    hosts = _normal(one).host, _normal(other).host
    if hosts[0] == hosts[1] or not WILDCARDS.isdisjoint(hosts):
        return True
    is_numeric = [":" in host or host.replace(".", "").isdecimal() for host in (one.host, other.host)]
    return is_numeric[0] != is_numeric[1]
