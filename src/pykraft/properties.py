"""Kafka's properties files: text in, `NodeConfig` out.

`parse_properties` reads the Java format; `node_config` knows which keys there are and what they mean. A key given
twice counts as given last, so a file that was appended to twice is still the same node. Keys that mean nothing here
are passed over, as Kafka does, and named in a warning.

Invariant: a node that was asked to protect itself (TLS, SASL, an authorizer) and cannot does not start. Refuses to
know files, and the bounds of numbers (`pykraft.config`).

Source: ``java.util.Properties``; Kafka's ``QuorumConfig``, ``MetadataLogConfig``, ``KRaftConfigs``,
``SocketServerConfigs``; the property names of 2020 are aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pykraft.config import (
    INT32_MAX,
    LOG_NUMBERS,
    NODE_NUMBERS,
    RAFT_NUMBERS,
    LogSettings,
    NodeConfig,
    Number,
    RaftConfig,
)
from pykraft.errors import ConfigError
from pykraft.types import Endpoint, Listeners, NodeId, ReplicaKey, Voter, VoterSet

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
}
"""Older names and what they are called now; where both are given, the present name counts."""

WITHOUT_EFFECT = frozenset(
    {
        "process.roles",
        "inter.broker.listener.name",
        "zookeeper.connect",
        "quorum.retry.backoff.max.ms",
        "num.network.threads",
        "num.io.threads",
    }
)
"""Keys of Kafka's own sample files that change nothing here and deserve no warning."""

NODE_ID = Number("node.id", "node_id", 0, INT32_MAX)
SEGMENT_SIZE_BYTES = Number("metadata.log.segment.bytes", "segment_size_bytes", 8_388_608, INT32_MAX)

_PROTECTION = re.compile(r"(listener\.name\.[^.]+\.)?(ssl|sasl|authorizer)\..*|super\.users")
_PROTECTED = frozenset({"SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_UNPROTECTED = "PLAINTEXT"
_NOT_YET = "TLS, SASL and authorizers are not supported yet, and without them the node does not start"
_WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - they are recognized, not bound
_HOST_PORT = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\s:\[\]@/,]*)):(?P<port>[0-9]{1,5})")
_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{0,4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedConfig:
    """A configuration, and what an operator should know about the text it came from."""

    config: NodeConfig
    warnings: tuple[str, ...]


def parse_properties(text: str) -> dict[str, str]:
    r"""Read Java's properties format: ``key=value``, ``key: value``, ``key value``; ``#`` and ``!`` begin a comment.

    A line that ends in an odd number of backslashes goes on in the next one. Escapes are ``\t \n \r \f``, ``\uXXXX``
    (UTF-16: pairs are one character), and a backslash before any other character, which then stands for itself.

    Errors: ConfigError for a broken unicode escape.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        raw_key, raw_value = _split(line)
        key = _unescape(raw_key, raw_key)
        properties[key] = _unescape(key, raw_value)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, continued ones joined."""
    pending = ""
    for raw in _LINE_END.split(text):
        line = raw.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    """Key and value of a logical line, at the first separator that is not escaped."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANKS:
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:at], rest


def _unescape(key: str, text: str) -> str:
    """The text with its escapes resolved; ``key`` is for the error."""

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] != "u":
            return _ESCAPES.get(code, code)
        if len(code) != 5:
            raise ConfigError(key, text, r"\u must be followed by four hexadecimal digits")
        return chr(int(code[1:], 16))

    try:
        return _ESCAPE.sub(one, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise ConfigError(key, text, r"surrogates must come in pairs, \uD83D\uDE00") from None


def node_config(properties: Mapping[str, str]) -> ParsedConfig:
    """What the properties say about a node.

    Errors: ConfigError with key, value and what is allowed.
    """
    reader = _Reader(properties)
    listeners = reader.listeners("listeners")
    names = reader.names("controller.listener.names")
    for name in names:
        if listeners.get(name) is None:
            raise ConfigError("controller.listener.names", name, "each name must be one of listeners")
    reader.refuse_protection(listeners)
    voters = reader.voters("controller.quorum.voters", names[0])
    bootstrap = reader.endpoints("controller.quorum.bootstrap.servers")
    if not len(voters) and not bootstrap:
        raise ConfigError(
            "controller.quorum.voters", "", "give the voters as id@host:port,… or controller.quorum.bootstrap.servers"
        )
    config = NodeConfig(
        node_id=NodeId(reader.number(NODE_ID, None)),
        listeners=listeners,
        advertised_listeners=reader.advertised(listeners),
        controller_listener_names=names,
        voters=voters,
        bootstrap_servers=bootstrap,
        log_dir=reader.log_dir(),
        log=reader.log_settings(),
        raft=reader.raft_config(),
    )
    config = replace(config, **reader.numbers(NODE_NUMBERS, config))
    return ParsedConfig(config=config, warnings=tuple(reader.finish()))


class _Reader:
    """Takes values out of properties, each by its present or an older name; `finish` tells what nobody took."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._left = dict(properties)
        self._warnings: list[str] = []
        for old, new in ALIASES.items():
            if old in self._left:
                self._left.setdefault(new, self._left[old])
                del self._left[old]
                self._warnings.append(f"property {old} is now called {new}")

    def finish(self) -> list[str]:
        """Warnings, those about keys that nobody asked for included."""
        unused = sorted(self._left.keys() - WITHOUT_EFFECT)
        return [*self._warnings, *(f"property {key} has no effect here" for key in unused)]

    def number(self, number: Number, default: int | None) -> int:
        """A whole number within its bounds; without a default it is required."""
        text = self._text(number.key)
        if not text:
            if default is None:
                raise ConfigError(number.key, text, f"is required: {number.allowed}")
            return default
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not number.least <= int(text) <= number.most:
            raise ConfigError(number.key, text, number.allowed)
        return int(text)

    def numbers(self, numbers: Sequence[Number], defaults: object) -> dict[str, Any]:
        """Several by field; the defaults are the fields of a configuration."""
        return {number.field: self.number(number, getattr(defaults, number.field)) for number in numbers}

    def raft_config(self) -> RaftConfig:
        """``controller.quorum.*``, and whether a leader sends what it has not flushed."""
        key, allowed = "pykraft.leader.send", ("written", "flushed")
        send = self._text(key) or allowed[0]
        if send not in allowed:
            raise ConfigError(key, send, f"one of {', '.join(allowed)}")
        defaults = RaftConfig(leader_send_flushed_only=send == "flushed")
        return replace(defaults, **self.numbers(RAFT_NUMBERS, defaults))

    def log_settings(self) -> LogSettings:
        """``metadata.log.*``; the internal segment size wins, as in Kafka, and may be smaller."""
        defaults = LogSettings()
        public = self.number(SEGMENT_SIZE_BYTES, defaults.segment_size_bytes)
        defaults = replace(defaults, segment_size_bytes=public)
        return replace(defaults, **self.numbers(LOG_NUMBERS, defaults))

    def log_dir(self) -> Path:
        """``metadata.log.dir``, else the first of ``log.dirs``, else ``log.dir``."""
        dirs = self._items("log.dirs") or self._items("log.dir") or [""]
        if len(dirs) > 1:
            self._warnings.append(f"of log.dirs only the first has an effect here: {dirs[0]}")
        text = self._text("metadata.log.dir") or dirs[0]
        if not text or "\0" in text:
            raise ConfigError("log.dirs", text, "is required: the directory that keeps the log")
        return Path(text)

    def names(self, key: str) -> tuple[str, ...]:
        """Listener names, upper case, each once."""
        names = tuple(name.upper() for name in self._items(key))
        if not names or len(set(names)) != len(names):
            raise ConfigError(key, ",".join(names), "is required: listener names, each once")
        return names

    def listeners(self, key: str, *, required: bool = True) -> Listeners:
        """``NAME://host:port,…``; a host may be empty, a port not: others must know it."""
        entries: dict[str, Endpoint] = {}
        for item in self._items(key):
            name, separator, address = item.partition("://")
            if not separator or not re.fullmatch(r"\w+", name):
                raise ConfigError(key, item, "listeners are NAME://host:port, separated by commas")
            endpoint = _endpoint(key, item, address)
            if name.upper() in entries or endpoint in entries.values():
                raise ConfigError(key, item, "each listener name and each address may stand once")
            entries[name.upper()] = endpoint
        if required and not entries:
            raise ConfigError(key, "", "is required: NAME://host:port, separated by commas")
        return Listeners(tuple(entries.items()))

    def advertised(self, listeners: Listeners) -> Listeners:
        """What others are told: advertised.listeners, else listeners; a wildcard becomes localhost."""
        key = "advertised.listeners"
        own = self.listeners(key, required=False)
        for name, endpoint in own:
            if listeners.get(name) is None:
                raise ConfigError(key, f"{name}://{endpoint}", "each name must be one of listeners")
            if endpoint.host in _WILDCARDS:
                raise ConfigError(key, f"{name}://{endpoint}", "others cannot connect to a wildcard address")
        told = []
        for name, bound in listeners:
            endpoint = own.get(name) or bound
            if endpoint.host in _WILDCARDS:
                endpoint = replace(endpoint, host="localhost")
                self._warnings.append(f"others are told that {name} is at {endpoint}; set advertised.listeners")
            told.append((name, endpoint))
        return Listeners(tuple(told))

    def voters(self, key: str, listener: str) -> VoterSet:
        """``id@host:port,…``; of two with the same id the last counts."""
        voters = []
        for item in self._items(key):
            node_id, separator, address = item.partition("@")
            if not separator or not re.fullmatch("[0-9]{1,10}", node_id) or int(node_id) > INT32_MAX:
                raise ConfigError(key, item, "voters are id@host:port with an id from 0 on, separated by commas")
            listeners = Listeners(((listener, _reachable(key, item, address)),))
            voters.append(Voter(key=ReplicaKey(NodeId(int(node_id))), listeners=listeners))
        return VoterSet.of(voters)

    def endpoints(self, key: str) -> tuple[Endpoint, ...]:
        """``host:port,…``."""
        return tuple(_reachable(key, item, item) for item in self._items(key))

    def refuse_protection(self, listeners: Listeners) -> None:
        """Refuse every wish for more than plaintext; a listener's protocol is its name where the map has none."""
        for key, value in self._left.items():
            if _PROTECTION.fullmatch(key) and value.strip():
                raise ConfigError(key, value, _NOT_YET)
        protocols = {name: name for name in _PROTECTED}
        map_key = "listener.security.protocol.map"
        for item in self._items(map_key):
            name, _, protocol = (part.strip().upper() for part in item.partition(":"))
            if not name or protocol not in (*_PROTECTED, _UNPROTECTED):
                raise ConfigError(map_key, item, f"NAME:PROTOCOL with one of {_UNPROTECTED}, {', '.join(_PROTECTED)}")
            protocols[name] = protocol
        for name, _ in listeners:
            if protocols.get(name, _UNPROTECTED) != _UNPROTECTED:
                raise ConfigError("listeners", f"{name} ({protocols[name]})", _NOT_YET)
        between_key = "security.inter.broker.protocol"
        between = self._text(between_key)
        if between.upper() not in ("", _UNPROTECTED):
            raise ConfigError(between_key, between, _NOT_YET)

    def _text(self, key: str) -> str:
        """The value without blanks around it; empty when absent."""
        return self._left.pop(key, "").strip()

    def _items(self, key: str) -> list[str]:
        return [item.strip() for item in self._text(key).split(",") if item.strip()]


def _endpoint(key: str, item: str, address: str) -> Endpoint:
    match = _HOST_PORT.fullmatch(address)
    if match is None or not 1 <= int(match["port"]) <= 65_535:
        raise ConfigError(key, item, "an address is host:port (IPv6 in brackets) with a port from 1 to 65535")
    return Endpoint(match["ipv6"] or match["host"] or "", int(match["port"]))


def _reachable(key: str, item: str, address: str) -> Endpoint:
    """An address that is to be dialed."""
    endpoint = _endpoint(key, item, address)
    if endpoint.host in _WILDCARDS:
        raise ConfigError(key, item, "others cannot connect to a wildcard address: give a host")
    return endpoint
