"""The properties that a node knows: their meaning, allowed values, and whether they have an effect here.

Invariant: every property that `pykraft.config.properties` reads is in `KNOWN`, and so in the documentation and among
the suggestions for misspelled names.

Source: Kafka's ``QuorumConfig``, ``MetadataLogConfig``, ``KRaftConfigs``, ``SocketServerConfigs`` and
``ServerConfigs``; KIP-595 for the names of 2020.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Final

from pykraft import config
from pykraft.security import acls
from pykraft.text.words import closest

ALIASES: Mapping[str, str] = {
    "broker.id": "node.id",
    "quorum.voters": "controller.quorum.voters",
    "quorum.bootstrap.voters": "controller.quorum.voters",
    "quorum.bootstrap.servers": "controller.quorum.bootstrap.servers",
    "quorum.election.timeout.ms": "controller.quorum.election.timeout.ms",
    "quorum.fetch.timeout.ms": "controller.quorum.fetch.timeout.ms",
    "quorum.election.backoff.max.ms": "controller.quorum.election.backoff.max.ms",
    "quorum.append.linger.ms": "controller.quorum.append.linger.ms",
    "quorum.request.timeout.ms": "controller.quorum.request.timeout.ms",
    "quorum.retry.backoff.ms": "controller.quorum.retry.backoff.ms",
    "pykraft.append.listeners": "pykraft.client.listeners",
}
"""Older names and their current ones; if both are given, the current name is used."""

PASSED_OVER = frozenset(
    {"inter.broker.listener.name", "zookeeper.connect", "zookeeper.connection.timeout.ms", "quorum.verbose"}
)
"""Keys of Kafka's older sample files that have no meaning here, whatever their value, and need no warning."""

NODE_ID = config.Number("node.id", "node_id", 0, config.INT32_MAX)
SEGMENT_SIZE_BYTES = config.Number("metadata.log.segment.bytes", "segment_size_bytes", 8_388_608, config.INT32_MAX)
SIMILARITY_MIN: Final = 0.8
"""How similar an unknown name must be to a known one to be suggested (1: equal)."""


class PropertyEffect(Enum):
    """The effect of a property."""

    PRESENT = "yes"
    NONE = "none here"


@dataclass(frozen=True, slots=True)
class Known:
    """The documentation of a property; ``default`` and ``allowed`` are text."""

    key: str
    default: str
    allowed: str
    meaning: str
    effect: PropertyEffect = PropertyEffect.PRESENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """A whole number that is checked but not used."""

    number: config.Number
    default: int
    meaning: str

    @property
    def known(self) -> Known:
        """Its row in `KNOWN`."""
        number = self.number
        return Known(number.key, str(self.default), number.allowed, self.meaning, PropertyEffect.NONE)


def _none(key: str, default: int, least: int, meaning: str, most: int = config.INT32_MAX) -> Idle:
    return Idle(number=config.Number(key, "", least, most), default=default, meaning=meaning)


IDLE: tuple[Idle, ...] = (
    _none("metadata.max.idle.interval.ms", 500, 0, "for no-op records, which only Kafka's controller writes"),
    _none("controller.quorum.retry.backoff.max.ms", 1_000, 0, "named in KIP-595; no version of Kafka has it"),
    _none("quorum.retry.backoff.max.ms", 1_000, 0, "its name in KIP-595"),
    _none("server.max.startup.time.ms", config.INT64_MAX, 0, "recovery has no time limit here", config.INT64_MAX),
    _none("num.network.threads", 3, 1, "one loop serves the network"),
    _none("num.io.threads", 8, 1, "one loop serves requests"),
    _none("socket.send.buffer.bytes", 102_400, -1, "the system decides"),
    _none("socket.receive.buffer.bytes", 102_400, -1, "the system decides"),
    _none("socket.listen.backlog.size", 50, 1, "fixed here"),
)
"""Properties that are checked as in Kafka and have no effect."""

_ADDRESSES = "host:port, separated by commas; IPv6 in brackets"
_LISTENERS = "NAME://host:port, separated by commas; port 1 to 65535"
_MEANINGS: Mapping[str, str] = {
    "controller.quorum.election.timeout.ms": "a voter without a leader for this long (up to twice) starts an election",
    "controller.quorum.fetch.timeout.ms": "a follower gives up a silent leader; a leader resigns after 1.5 times this",
    "controller.quorum.election.backoff.max.ms": "longest wait of a lower-ranked successor after a leader resigns",
    "controller.quorum.append.linger.ms": "how long records wait for more records, to share a write and a sync",
    "controller.quorum.request.timeout.ms": "a request unanswered for this long fails, and its connection is closed",
    "controller.quorum.retry.backoff.ms": "pause after a failed request",
    "controller.quorum.fetch.max.bytes": "limit of bytes in a Fetch response; it always holds at least one batch",
    "controller.quorum.fetch.snapshot.max.bytes": "limit of bytes in a FetchSnapshot response",
    "internal.metadata.max.batch.size.in.bytes": "largest batch",
    "internal.metadata.log.segment.bytes": "as metadata.log.segment.bytes, which it overrides; for tests",
    "metadata.log.segment.bytes": "size of a segment file",
    "metadata.log.segment.ms": "a segment older than this is closed, and a new one begins",
    "metadata.max.retention.bytes": "size of log and snapshots to keep once a later snapshot exists; below 0: no limit",
    "metadata.max.retention.ms": "how long to keep them once a later snapshot exists; below 0: forever",
    "metadata.log.max.record.bytes.between.snapshots": "ask the application for a snapshot after this many bytes",
    "metadata.log.max.snapshot.interval.ms": "or this long after the last one, if there are new records; 0: never",
    "pykraft.snapshot.max.bytes": "largest snapshot that this node writes; at most 2147483647 with Java nodes",
    "internal.metadata.delete.delay.millis": "how long deleted files are kept, as .deleted",
    "index.interval.bytes": "bytes of the log between two index entries",
    "segment.index.bytes": "largest size of an index file",
    "pykraft.log.clean.interval.ms": "time between checks for files to delete; fetched ones stay at least that long",
    "pykraft.log.scrub.bytes.per.second": "how fast the log is re-read to find damage; 0 turns this off",
    "pykraft.log.scrub.interval.ms": "time from the start of one pass over the log to the start of the next",
    "socket.request.max.bytes": "largest request; above 65536 it has no effect, since none needs more",
    "connections.max.idle.ms": "a connection without requests for this long is closed",
    "connection.failed.authentication.delay.ms": "how long a wrong password or proof of SASL waits for its refusal",
    "group.max.size": "most members of a consumer group",
    "group.min.session.timeout.ms": "shortest session that a member of a group may ask for",
    "group.max.session.timeout.ms": "longest session that a member of a group may ask for",
    "group.initial.rebalance.delay.ms": "how long an empty group waits for more members after the first",
    "group.consumer.session.timeout.ms": "how long a member of a group of KIP-848 may be silent",
    "group.consumer.heartbeat.interval.ms": "time between two heartbeats of such a member",
    "offset.metadata.max.bytes": "largest metadata of a committed offset",
    "offsets.retention.minutes": "how long a group without members keeps its offsets; others, from each commit on",
    "offsets.retention.check.interval.ms": "time between two searches for offsets to forget",
}


def _defaults() -> dict[str, object]:
    defaults = {each.name: each.default for owner in (config.NodeConfig, config.LogSettings) for each in fields(owner)}
    return defaults | {each.name: getattr(config.KAFKAS_RAFT, each.name) for each in fields(config.KAFKAS_RAFT)}


def _number(number: config.Number, defaults: Mapping[str, object]) -> Known:
    default = "none" if number.key.startswith("internal.metadata.log") else str(defaults[number.field])
    return Known(number.key, default, number.allowed, _MEANINGS[number.key])


_AUTHORIZATION: Final = (
    Known(acls.AUTHORIZER_KEY, "none", acls.STANDARD_AUTHORIZER, "whether rules decide what others may do"),
    Known(acls.SUPER_USERS_KEY, "none", "principals, separated by ;", "who may do everything"),
    Known(acls.ACL_FILE_KEY, "none", "a file", "the rules, each line as for kafka-acls --add"),
    Known(
        acls.ALLOW_EVERYONE_KEY,
        "false",
        "true or false",
        "whether everybody may do what they like to a resource that no rule is about",
    ),
    Known(
        acls.VOTER_PRINCIPALS_KEY,
        "certificates for the voter's host",
        "id@User:NAME, separated by ;",
        "who may vote and acknowledge as a node",
    ),
)


def _rows() -> tuple[Known, ...]:
    defaults = _defaults()
    numbers = (*config.RAFT_NUMBERS, SEGMENT_SIZE_BYTES, *config.LOG_NUMBERS, *config.NODE_NUMBERS)
    return (
        Known("node.id", "required", NODE_ID.allowed, "id of this node"),
        Known("process.roles", "controller", "controller, or broker,controller", "a node is a controller only"),
        Known("listeners", "required", _LISTENERS, "addresses to bind; an empty host is every interface"),
        Known("advertised.listeners", "static voters, then listeners", _LISTENERS, "addresses that other nodes use"),
        Known("controller.listener.names", "the first listener", "names of listeners", "voters dial the first"),
        Known(
            "listener.security.protocol.map", "PLAINTEXT", "NAME:PROTOCOL, with commas", "protection, by TLS and SASL"
        ),
        *_AUTHORIZATION,
        Known(
            "controller.quorum.voters",
            "none",
            "id@host:port, separated by commas",
            "static voters; if an id is repeated, the last one counts",
        ),
        Known("controller.quorum.bootstrap.servers", "none", _ADDRESSES, "nodes to contact first"),
        Known("controller.quorum.auto.join.enable", "false", "true or false", "the node adds itself as a voter"),
        Known("log.dirs", "required", "a directory", "where the log is kept; of several directories, the first"),
        Known("log.dir", "none", "a directory", "as log.dirs, which overrides it"),
        Known("metadata.log.dir", "log.dirs", "a directory", "overrides log.dirs"),
        Known(
            "pykraft.topic",
            config.TEST_TOPIC_NAME,
            f"{config.TEST_TOPIC_NAME} or {config.METADATA_TOPIC_NAME}",
            "topic of the log: TestRaftServer's, or that of Kafka's controllers, where a node never leads",
        ),
        Known(
            "pykraft.leader.send",
            "written",
            "written or flushed",
            "whether a leader sends records before it has flushed them",
        ),
        Known(
            config.NEVER_LEADS_KEY,
            "false",
            "true or false",
            "a voter that leaves the leadership to the others, as in a quorum of Kafka's controllers",
        ),
        Known(
            "pykraft.operator.listeners",
            "`controller.listener.names`",
            "names of listeners, or none",
            "listeners that accept changes of voters and features, and leadership transfers",
        ),
        Known(
            "pykraft.client.listeners",
            "none",
            "names of listeners, or none",
            "where Kafka's clients and pykraft append are served",
        ),
        Known("pykraft.client.topic", "none", "a topic's name", "a further name by which clients may call the topic"),
        Known(
            "pykraft.client.records",
            config.AUTO_RECORDS,
            f"{config.AUTO_RECORDS}, {config.ANY_RECORDS} or {config.KRAFT_RECORDS}",
            "what clients may write; kraft: only what Kafka's own replicas can read; auto: so unless all are pykraft",
        ),
        Known(
            "pykraft.prometheus.listener",
            "none",
            "host:port, IPv6 in brackets; port 0 to 65535",
            "address for metrics over HTTP; an empty host is every interface, port 0 any free port",
        ),
        *(_number(number, defaults) for number in numbers),
        *(idle.known for idle in IDLE),
    )


KNOWN: tuple[Known, ...] = _rows()
"""Every property, in the order of the documentation; older names are in `ALIASES`."""


def suggestion(key: str) -> str | None:
    """The known name that is most similar to a misspelled one, if any is close."""
    names = [known.key for known in KNOWN] + list(ALIASES)
    return closest(key.strip().lower().replace("_", "."), names, similarity_min=SIMILARITY_MIN)


def or_similar(key: str) -> str:
    """A suggestion for the end of a message, if a known property has a similar name."""
    meant = suggestion(key)
    return "" if meant is None else f"; did you mean {meant}?"
