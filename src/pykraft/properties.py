"""Kafka's properties files: text in, `NodeConfig` out.

`parse_properties` reads the Java format; `node_config` knows which keys there are, what they mean and what
they may be. A key given twice counts as given last, so a file that was appended to twice is still the same
node. Keys that are not known are ignored, as Kafka does, and returned so that they can be named.

Source: ``java.util.Properties``; Kafka ``QuorumConfig``, ``MetadataLogConfig``, ``KRaftConfigs``,
``SocketServerConfigs``; the property names of 2020 are aliases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pykraft.config import LogSettings, NodeConfig, RaftConfig
from pykraft.errors import ConfigError
from pykraft.types import Endpoint, Listeners, NodeId, ReplicaKey, Voter, VoterSet

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

ALIASES: Mapping[str, str] = {
    "broker.id": "node.id",
    "quorum.voters": "controller.quorum.voters",
    "quorum.bootstrap.servers": "controller.quorum.bootstrap.servers",
    "quorum.election.timeout.ms": "controller.quorum.election.timeout.ms",
    "quorum.fetch.timeout.ms": "controller.quorum.fetch.timeout.ms",
    "quorum.election.backoff.max.ms": "controller.quorum.election.backoff.max.ms",
    "quorum.append.linger.ms": "controller.quorum.append.linger.ms",
    "quorum.request.timeout.ms": "controller.quorum.request.timeout.ms",
    "quorum.retry.backoff.ms": "controller.quorum.retry.backoff.ms",
    "log.dir": "log.dirs",
}
"""Older names and what they are called now."""

WITHOUT_EFFECT = frozenset(
    {
        "zookeeper.connect",
        "process.roles",
        "quorum.retry.backoff.max.ms",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "num.network.threads",
        "num.io.threads",
        "offsets.topic.replication.factor",
    }
)
"""Known keys that change nothing here."""

REFUSED_PREFIXES = ("ssl.", "sasl.", "authorizer.")
"""A node that was asked to protect itself and cannot must not start unprotected."""

_HOST_PORT = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:\[\]@/,]*)):(?P<port>\d{1,5})")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedConfig:
    """A configuration, and what an operator should know about the text it came from."""

    config: NodeConfig
    warnings: tuple[str, ...]


def parse_properties(text: str) -> dict[str, str]:
    """Read Java's properties format: ``key=value``, ``key: value``, ``key value``, ``#`` and ``!`` comments.

    Errors: ConfigError for a broken unicode escape.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> list[str]:
    """Lines without comments, continued ones joined."""
    lines: list[str] = []
    pending = ""
    for raw in text.splitlines():
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        lines.append(pending + line)
        pending = ""
    return [*lines, pending] if pending else lines


def _split(line: str) -> tuple[str, str]:
    """Key and value of a logical line, at the first separator that is not escaped."""
    at = 0
    while at < len(line) and line[at] not in "=: \t\f":
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return line[:at], rest


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "u":
            if len(code) != 5:
                raise ConfigError(text, text, r"\u must be followed by four hexadecimal digits")
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9A-Fa-f]{0,4}|.)", one, text)


def node_config(properties: Mapping[str, str]) -> ParsedConfig:
    """What the properties say about a node.

    Errors: ConfigError with key, value and what is allowed.
    """
    reader = _Reader(properties)
    names = reader.names("controller.listener.names")
    listeners = reader.listeners("listeners")
    for name in names:
        if listeners.get(name) is None:
            raise ConfigError("controller.listener.names", name, "each name must be one of listeners")
    advertised = _advertised(reader, listeners)
    voters = reader.voters("controller.quorum.voters", names[0])
    bootstrap = reader.endpoints("controller.quorum.bootstrap.servers")
    if not len(voters) and not bootstrap:
        raise ConfigError(
            "controller.quorum.voters", "", "give the voters as id@host:port,… or controller.quorum.bootstrap.servers"
        )
    config = NodeConfig(
        node_id=NodeId(reader.integer("node.id", None, 0, INT32_MAX)),
        listeners=listeners,
        advertised_listeners=advertised,
        controller_listener_names=names,
        voters=voters,
        bootstrap_servers=bootstrap,
        log_dir=reader.log_dir(),
        request_size_bytes_max=reader.integer("socket.request.max.bytes", 104_857_600, 1_024, INT32_MAX),
        connections_idle_ms_max=reader.integer("connections.max.idle.ms", 600_000, 1, INT64_MAX),
        log=_log_settings(reader),
        raft=_raft_config(reader),
    )
    return ParsedConfig(config=config, warnings=tuple(reader.finish()))


def _advertised(reader: _Reader, listeners: Listeners) -> Listeners:
    """What others are told: advertised.listeners, else listeners; an empty host becomes localhost."""
    own = dict(reader.listeners("advertised.listeners", required=False))
    told = []
    for name, bound in listeners:
        endpoint = own.get(name, bound)
        if endpoint.host in ("0.0.0.0", "::") and name in own:  # noqa: S104
            raise ConfigError("advertised.listeners", str(endpoint), "others cannot connect to a wildcard address")
        is_named = endpoint.host not in ("", "0.0.0.0", "::")  # noqa: S104
        told.append((name, endpoint if is_named else replace(endpoint, host="localhost")))
    return Listeners(tuple(told))


def _raft_config(reader: _Reader) -> RaftConfig:
    def quorum(key: str, default: int, least: int = 0) -> int:
        return reader.integer(f"controller.quorum.{key}", default, least, INT32_MAX)

    send = reader.choice("pykraft.leader.send", "written", ("written", "flushed"))
    return RaftConfig(
        election_timeout_ms=quorum("election.timeout.ms", 1_000),
        fetch_timeout_ms=quorum("fetch.timeout.ms", 2_000),
        election_backoff_max_ms=quorum("election.backoff.max.ms", 1_000),
        append_linger_ms=quorum("append.linger.ms", 25),
        request_timeout_ms=quorum("request.timeout.ms", 2_000),
        retry_backoff_ms=quorum("retry.backoff.ms", 20),
        fetch_size_bytes_max=quorum("fetch.max.bytes", 1_048_576, 1),
        fetch_snapshot_size_bytes_max=quorum("fetch.snapshot.max.bytes", 1_048_576, 1),
        batch_size_bytes_max=reader.integer("internal.metadata.max.batch.size.in.bytes", 8_388_608, 1_024, 2**30),
        leader_send_flushed_only=send == "flushed",
    )


def _log_settings(reader: _Reader) -> LogSettings:
    public = reader.integer("metadata.log.segment.bytes", 1_073_741_824, 8_388_608, INT32_MAX)
    return LogSettings(
        segment_size_bytes=reader.integer("internal.metadata.log.segment.bytes", public, 1_024, INT32_MAX),
        segment_ms=reader.integer("metadata.log.segment.ms", 604_800_000, 1, INT64_MAX),
        index_interval_bytes=reader.integer("index.interval.bytes", 4_096, 0, INT32_MAX),
        index_size_bytes_max=reader.integer("segment.index.bytes", 10_485_760, 24, INT32_MAX),
    )


class _Reader:
    """Takes values out of properties, each by its present or an older name."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._left = dict(properties)
        self._warnings: list[str] = []
        for old, new in ALIASES.items():
            if old in self._left:
                value = self._left.pop(old)
                self._left.setdefault(new, value)
                self._warnings.append(f"property {old} is now called {new}")
        for key, value in self._left.items():
            self._refuse_security(key, value)

    def finish(self) -> list[str]:
        """Warnings, those about keys that nobody asked for included."""
        unknown = sorted(self._left.keys() - WITHOUT_EFFECT)
        return [*self._warnings, *(f"property {key} is not known and has no effect" for key in unknown)]

    def text(self, key: str) -> str:
        """The value without blanks around it; empty when absent."""
        return self._left.pop(key, "").strip()

    def integer(self, key: str, default: int | None, least: int, most: int) -> int:
        """A whole number within bounds, both inclusive."""
        text = self.text(key)
        if not text and default is not None:
            return default
        allowed = f"a whole number from {least} to {most}"
        if not re.fullmatch(r"[+-]?\d{1,19}", text):
            raise ConfigError(key, text, allowed if text else f"is required: {allowed}")
        value = int(text)
        if not least <= value <= most:
            raise ConfigError(key, text, allowed)
        return value

    def choice(self, key: str, default: str, allowed: tuple[str, ...]) -> str:
        """One of a few words."""
        text = self.text(key) or default
        if text not in allowed:
            raise ConfigError(key, text, f"one of {', '.join(allowed)}")
        return text

    def names(self, key: str) -> tuple[str, ...]:
        """Listener names, upper case, without duplicates."""
        names = tuple(name.upper() for name in self._items(key))
        if not names or len(set(names)) != len(names):
            raise ConfigError(key, ",".join(names), "is required: listener names, each once")
        return names

    def listeners(self, key: str, *, required: bool = True) -> Listeners:
        """``NAME://host:port,…``."""
        entries: dict[str, Endpoint] = {}
        for item in self._items(key):
            name, separator, address = item.partition("://")
            if not separator or not name:
                raise ConfigError(key, item, "listeners are NAME://host:port, separated by commas")
            if name.upper() in entries:
                raise ConfigError(key, item, "each listener name may stand once")
            entries[name.upper()] = _endpoint(key, item, address)
        if required and not entries:
            raise ConfigError(key, "", "is required: NAME://host:port, separated by commas")
        return Listeners(tuple(entries.items()))

    def voters(self, key: str, listener: str) -> VoterSet:
        """``id@host:port,…``; of two with the same id the last counts."""
        voters = []
        for item in self._items(key):
            node_id, separator, address = item.partition("@")
            if not separator or not node_id.isdecimal() or int(node_id) > INT32_MAX:
                raise ConfigError(key, item, "voters are id@host:port with an id from 0 on, separated by commas")
            endpoint = _endpoint(key, item, address)
            if endpoint.host in ("", "0.0.0.0", "::") or endpoint.port == 0:  # noqa: S104
                raise ConfigError(key, item, "others must be able to connect to it: give a host and a port")
            listeners = Listeners(((listener, endpoint),))
            voters.append(Voter(key=ReplicaKey(NodeId(int(node_id))), listeners=listeners))
        return VoterSet.of(voters)

    def endpoints(self, key: str) -> tuple[Endpoint, ...]:
        """``host:port,…``."""
        return tuple(_endpoint(key, item, item) for item in self._items(key))

    def log_dir(self) -> Path:
        """``metadata.log.dir``, else the first of ``log.dirs``."""
        first = self._items("log.dirs")[:1]
        text = self.text("metadata.log.dir") or (first[0] if first else "")
        if not text:
            raise ConfigError("log.dirs", "", "is required: the directory that keeps the log")
        return Path(text)

    def _items(self, key: str) -> list[str]:
        return [item.strip() for item in self.text(key).split(",") if item.strip()]

    def _refuse_security(self, key: str, value: str) -> None:
        if key.startswith(REFUSED_PREFIXES) and value.strip():
            raise ConfigError(
                key, value, "TLS, SASL and authorizers are not supported yet; remove it to run in plaintext"
            )
        if key == "listener.security.protocol.map":
            for item in value.split(","):
                if item.strip() and item.rpartition(":")[2].strip().upper() != "PLAINTEXT":
                    raise ConfigError(key, value, "only PLAINTEXT is supported yet")


def _endpoint(key: str, item: str, address: str) -> Endpoint:
    match = _HOST_PORT.fullmatch(address)
    if match is None or int(match["port"]) > 65_535:
        raise ConfigError(key, item, "an address is host:port (IPv6 in brackets) with a port up to 65535")
    return Endpoint(match["ipv6"] or match["host"] or "", int(match["port"]))
