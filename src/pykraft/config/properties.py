"""The properties of a node: Java's text of them in, names and values between, `NodeConfig` out.

Unknown keys are ignored, as in Kafka, with a warning. Of a key that is given twice the last value counts. An error or
warning says where the value comes from: a line of a file, or an option.

Invariant: a node that is configured to protect itself in a way that it cannot does not start.

Source: Kafka's ``QuorumConfig``, ``KRaftConfigs``, ``KafkaConfig`` and ``Topic.validate``; ours (ADR 065);
``java.util.Properties``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pykraft.config import (
    ADVERTISED_KEY,
    ANY_RECORDS,
    AUTO_RECORDS,
    INT32_MAX,
    KAFKAS_RAFT,
    KRAFT_RECORDS,
    LOG_NUMBERS,
    NEVER_LEADS_KEY,
    NODE_NUMBERS,
    RAFT_NUMBERS,
    TEST_TOPIC_NAME,
    TOPICS,
    VOTERS_KEY,
    WILDCARDS,
    LogSettings,
    NodeConfig,
    Number,
    RaftConfig,
    own_entry_warning,
    refuse_shared_addresses,
)
from pykraft.config.known_properties import (
    ALIASES,
    IDLE,
    NODE_ID,
    PASSED_OVER,
    SEGMENT_SIZE_BYTES,
    or_similar,
    suggestion,
)
from pykraft.errors import ConfigError
from pykraft.security.acls import VOTER_PRINCIPALS_KEY, AuthorizerSettings, voter_principals
from pykraft.security.settings import (
    HTTP_NAMES,
    MAP_KEY,
    NAMES,
    NO_SASL,
    PROTOCOL_NAMES,
    Security,
    SecurityProtocol,
    is_of_security,
    protocols_by_listener,
    refuse_unsupported,
)
from pykraft.types import LISTENERS_MAX, PORT_MAX, Endpoint, Listeners, NodeId, ReplicaKey, Voter, VoterSet

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{0,4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Properties(dict[str, str]):
    """Keys and values; ``origins`` says for each key where its value comes from, for messages.

    That is the file and the line on which the value begins, or the option that gave it. ``source`` is the file alone,
    for messages about a key that is not there.
    """

    def __init__(self, source: str = "") -> None:
        super().__init__()
        self.source = source
        self.origins: dict[str, str] = {}
        self.bare: set[str] = set()
        """Keys whose line has nothing else: Java takes them for keys with an empty value."""

    def give(self, key: str, value: str, origin: str) -> None:
        """Set a value, with where it comes from."""
        self[key] = value
        self.origins[key] = origin
        self.bare.discard(key)


def is_bare(properties: Mapping[str, str], key: str) -> bool:
    """Whether the line of this key has neither a separator nor a value; False if nobody knows."""
    return isinstance(properties, Properties) and key in properties.bare


def origin_of(properties: Mapping[str, str], *keys: str) -> str:
    """Where the value of the first of these keys that is given comes from; empty if nobody knows."""
    if not isinstance(properties, Properties):
        return ""
    return next((properties.origins[key] for key in keys if key in properties.origins), properties.source)


@contextmanager
def with_origins(properties: Mapping[str, str]) -> Iterator[None]:
    """Within this block, an error about a property says where its value comes from. Errors: ConfigError."""
    try:
        yield
    except ConfigError as error:
        origin = error.origin or origin_of(properties, error.key)
        raise type(error)(error.key, error.value, error.allowed, origin=origin) from error.__cause__


def parse_properties(text: str, source: str = "") -> Properties:
    r"""Read Java's properties format: ``key=value``, ``key: value``, ``key value``; ``#`` and ``!`` begin a comment.

    A line that ends in an odd number of backslashes goes on in the next one. Escapes are ``\t \n \r \f``, ``\uXXXX``
    (UTF-16: pairs are one character), and a backslash before any other character, which then stands for itself.

    ``source`` is the name of the file, for messages.

    Errors: ConfigError for a broken unicode escape.
    """
    properties = Properties(source)
    for number, line in _logical_lines(text):
        raw_key, raw_value = _split(line)
        origin = f"{source}: line {number}" if source else f"line {number}"
        key = _unescape(raw_key, raw_key, origin)
        properties.give(key, _unescape(key, raw_value, origin), origin)
        if raw_key == line.rstrip(_BLANKS):
            properties.bare.add(key)
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending, begun = "", 0
    for number, raw in enumerate(_LINE_END.split(text), start=1):
        line = raw.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            continue
        begun = begun if pending else number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield begun, pending + line
        pending = ""
    if pending:
        yield begun, pending


def _split(line: str) -> tuple[str, str]:
    """Key and value of a logical line, at the first separator that is not escaped."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANKS:
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:at], rest


def _unescape(key: str, text: str, origin: str) -> str:
    """The text with its escapes resolved; ``key`` and ``origin`` are for the error."""

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] != "u":
            return _ESCAPES.get(code, code)
        if len(code) != 5:
            raise ConfigError(key, text, r"\u must be followed by four hexadecimal digits", origin=origin)
        return chr(int(code[1:], 16))

    try:
        return _ESCAPE.sub(one, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise ConfigError(key, text, r"surrogates must come in pairs, \uD83D\uDE00", origin=origin) from None


_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


_HOST_PORT = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\s:\[\]@/,]*)):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedConfig:
    """A configuration, with warnings about its text."""

    config: NodeConfig
    warnings: tuple[str, ...]


def node_config(properties: Mapping[str, str]) -> ParsedConfig:
    """The configuration that the properties describe.

    Errors: ConfigError with key, value, what is allowed, and where the value comes from if `Properties` tells.
    """
    try:
        return _node_config(properties)
    except ConfigError as error:
        misspelled = _misspelled(properties, error.key)
        origin = origin_of(properties, *misspelled) if misspelled else _origin(properties, error.key)
        allowed = error.allowed + _hint(properties, error.key)
        if error.is_missing:
            # All at once, so that a new file needs one correction.
            missing = [key for key in _REQUIRED if key != error.key and _is_missing(properties, key)]
            allowed += "".join(
                f"; {key} is required, too: {_REQUIRED[key][0]}{_hint(properties, key)}" for key in missing
            )
        raise ConfigError(error.key, error.value, allowed, origin=origin) from error.__cause__


_REQUIRED: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "listeners": ("NAME://host:port, separated by commas", ()),
    VOTERS_KEY: (
        "id@host:port,…; or give controller.quorum.bootstrap.servers",
        ("controller.quorum.bootstrap.servers",),
    ),
    NODE_ID.key: (NODE_ID.allowed, ()),
    "log.dirs": ("the directory that keeps the log", ("log.dir", "metadata.log.dir")),
}
"""What a node needs: by the key, what is allowed, and what may be given in its place."""


def _lacks(key: str) -> ConfigError:
    return ConfigError(key, "", f"is required: {_REQUIRED[key][0]}")


def _is_missing(properties: Mapping[str, str], key: str) -> bool:
    names = {key, *_REQUIRED[key][1]}
    names |= {old for old, new in ALIASES.items() if new in names}
    return not any(properties.get(name, "").strip(" ,") for name in names)


def _misspelled(properties: Mapping[str, str], key: str) -> list[str]:
    """Keys that are given, and are perhaps meant for this one, which is not."""
    given = () if key in properties else properties
    return [each for each in given if ALIASES.get(each) != key and suggestion(each) == key]


def _hint(properties: Mapping[str, str], key: str) -> str:
    """What was written, and perhaps meant, in place of this key or its value."""
    if is_bare(properties, key):
        return f"; this line has no value: write {key}=VALUE"
    older = [each for each in properties if key not in properties and ALIASES.get(each) == key]
    meant = [f"; {each} is given: did you mean {key}?" for each in _misspelled(properties, key)]
    return "".join([*(f" (given as {each})" for each in older), *meant])


def _node_config(properties: Mapping[str, str]) -> ParsedConfig:
    reader = _Reader(properties)
    reader.check_roles()
    listeners = reader.listeners("listeners")
    names = reader.controller_listener_names(listeners)
    for name in names:
        if listeners.get(name) is None:
            given = ", ".join(each for each, _ in listeners)
            raise ConfigError("controller.listener.names", name, f"each name must be one of listeners: {given}")
    security = reader.security(listeners, names[0])
    voters = reader.voters(VOTERS_KEY, names[0])
    bootstrap = reader.endpoints("controller.quorum.bootstrap.servers")
    if not len(voters) and not bootstrap:
        raise _lacks(VOTERS_KEY)
    node_id = NodeId(reader.number(NODE_ID, None))
    if len(voters) and node_id not in voters.ids:
        reader.warn(NODE_ID.key, f"node.id {node_id} is not one of controller.quorum.voters: this node only observes")
    own = reader.listeners(ADVERTISED_KEY, required=False)
    advertised = reader.advertised(own, listeners, names[0], voters.get(node_id))
    if warning := own_entry_warning(voters, node_id, names[0], listeners.get(names[0]), own.get(names[0])):
        reader.warn(VOTERS_KEY, warning)
    topic_name = reader.one_of("pykraft.topic", tuple(TOPICS), TEST_TOPIC_NAME)
    config = NodeConfig(
        node_id=node_id,
        listeners=listeners,
        advertised_listeners=advertised,
        controller_listener_names=names,
        security=security,
        authorizer=AuthorizerSettings.of(reader.text),
        voter_principals=voter_principals(reader.text(VOTER_PRINCIPALS_KEY)),
        voters=voters,
        bootstrap_servers=bootstrap,
        log_dir=reader.log_dir(),
        topic_name=topic_name,
        topic_id=TOPICS[topic_name],
        prometheus_listener=reader.prometheus_listener(),
        operator_listeners=reader.listener_names("pykraft.operator.listeners", listeners),
        log=reader.log_settings(),
        raft=reader.raft_config(),
    )
    config = replace(config, **_client_settings(reader, listeners), **reader.numbers(NODE_NUMBERS, config))
    return ParsedConfig(config=config, warnings=tuple(reader.finish()))


def _client_settings(reader: _Reader, listeners: Listeners) -> dict[str, Any]:
    """What is about Kafka's own clients: where they are served, the topic's name, the records."""
    key = "pykraft.client.topic"
    name = reader.text(key)
    if name and (not _TOPIC.fullmatch(name) or name in (".", "..")):
        raise ConfigError(key, name, "a topic's name has at most 249 of the characters a-z A-Z 0-9 . _ -")
    return {
        "client_listeners": reader.listener_names("pykraft.client.listeners", listeners) or (),
        "client_topic": name,
        "client_records": reader.one_of(
            "pykraft.client.records", (AUTO_RECORDS, ANY_RECORDS, KRAFT_RECORDS), AUTO_RECORDS
        ),
    }


class _Reader:
    """Reads values by their current or older names; `finish` reports the keys that nothing read."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._left = dict(properties)
        self._given = properties
        self._warnings: list[str] = []
        for old, new in ALIASES.items():
            value = self._left.pop(old, None)
            if value is None:
                continue
            counts = self._left.setdefault(new, value).strip()
            other = "" if counts == value.strip() else f"; that is also given, and {counts} is used"
            self.warn(old, f"property {old} is now called {new}{other}")

    def finish(self) -> list[str]:
        """Check the properties without effect; returns all warnings, also those about unknown keys.

        Errors: ConfigError.
        """
        for idle in IDLE:
            if idle.number.key in self._left:
                self.number(idle.number, idle.default)
        unknown = self._left.keys() - PASSED_OVER
        for key in sorted(unknown):
            if is_bare(self._given, key):
                what = f"{key!r} has no value, and is no known property"
                self.warn(
                    key, f"{what}{or_similar(key)}; a line is key=value, and goes on in the next after a backslash"
                )
            else:
                self.warn(key, f"property {key} is unknown and has no effect{or_similar(key)}")
        for key in sorted(key for key in self._given if is_bare(self._given, key) and key not in unknown):
            self.warn(key, f"property {key} has no value and no effect: write {key}=VALUE")
        return self._warnings

    def warn(self, key: str, text: str) -> None:
        """Add a warning for the operator about this property; it says where the property comes from."""
        origin = _origin(self._given, key)
        self._warnings.append(f"{origin}: {text}" if origin else text)

    def one_of(self, key: str, allowed: Sequence[str], default: str) -> str:
        """One of these words, in any case."""
        word = self.text(key).lower() or default
        if word not in allowed:
            raise ConfigError(key, word, f"one of {', '.join(allowed)}")
        return word

    def number(self, number: Number, default: int | None) -> int:
        """A whole number within its bounds; required if there is no default."""
        text = self.text(number.key)
        if not text:
            if default is None:
                raise _lacks(number.key)
            return default
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not number.least <= int(text) <= number.most:
            raise ConfigError(number.key, text, number.allowed)
        return int(text)

    def numbers(self, numbers: Sequence[Number], defaults: object) -> dict[str, Any]:
        """Several numbers by field; the defaults are the fields of a configuration."""
        return {number.field: self.number(number, getattr(defaults, number.field)) for number in numbers}

    def raft_config(self) -> RaftConfig:
        """``controller.quorum.*``, and whether a leader sends records before it has flushed them."""
        send = self.one_of("pykraft.leader.send", ("written", "flushed"), "written")
        auto_join, never_leads = (
            self.one_of(key, ("false", "true"), "false") == "true"
            for key in ("controller.quorum.auto.join.enable", NEVER_LEADS_KEY)
        )
        defaults = replace(
            KAFKAS_RAFT, leader_send_flushed_only=send == "flushed", auto_join=auto_join, never_leads=never_leads
        )
        return replace(defaults, **self.numbers(RAFT_NUMBERS, defaults))

    def log_settings(self) -> LogSettings:
        """``metadata.log.*``; the internal segment size overrides the other, as in Kafka, and may be smaller."""
        defaults = LogSettings()
        public = self.number(SEGMENT_SIZE_BYTES, defaults.segment_size_bytes)
        defaults = replace(defaults, segment_size_bytes=public)
        return replace(defaults, **self.numbers(LOG_NUMBERS, defaults))

    def log_dir(self) -> Path:
        """``metadata.log.dir``, else the first of ``log.dirs``, else ``log.dir``."""
        found: list[Path] = []
        for key in ("metadata.log.dir", "log.dirs", "log.dir"):
            dirs = [self.text(key)] if key == "metadata.log.dir" else self._items(key)
            if any("\0" in path for path in dirs):
                raise ConfigError(key, ",".join(dirs), "a directory")
            if len(dirs) > 1 and not found:
                self.warn(key, f"of {key} only the first has an effect here: {dirs[0]}")
            found += [Path(text) for text in dirs if text]
        if not found:
            raise _lacks("log.dirs")
        return found[0]

    def prometheus_listener(self) -> Endpoint | None:
        """Where the metrics are served; its port may be 0, since no other node needs to know it."""
        key = "pykraft.prometheus.listener"
        text = self.text(key)
        return _endpoint(key, text, text, port_least=0) if text else None

    def listener_names(self, key: str, listeners: Listeners) -> tuple[str, ...] | None:
        """Names of some of the listeners, in upper case, or ``none``; None if the property is absent."""
        names = tuple(name.upper() for name in self._items(key))
        if names == ("NONE",):
            return ()
        if any(listeners.get(name) is None for name in names):
            known = ", ".join(name for name, _ in listeners)
            raise ConfigError(key, ",".join(names), f"each name must be one of listeners, or none: {known}")
        return names or None

    def check_roles(self) -> None:
        """``process.roles``: a node here is a controller, also if the property is absent."""
        key = "process.roles"
        if key not in self._left:
            return
        roles = self._items(key)
        if "controller" not in roles or len(set(roles)) != len(roles) or set(roles) - {"broker", "controller"}:
            raise ConfigError(key, ",".join(roles), "controller, or broker,controller: a node here is a controller")
        if "broker" in roles:
            self.warn(key, "of process.roles only controller has an effect here")

    def controller_listener_names(self, listeners: Listeners) -> tuple[str, ...]:
        """Listener names, upper case, each once; without the property (files of 2020) the first listener."""
        key = "controller.listener.names"
        if key not in self._left:
            first = listeners.entries[0][0]
            # A single listener leaves no doubt; of several, Kafka requires that the one for voters is named.
            if len(listeners.entries) > 1:
                self.warn(key, f"property {key} is not given: voters use the first of listeners, {first}")
            return (first,)
        names = tuple(name.upper() for name in self._items(key))
        if not names or len(set(names)) != len(names):
            raise ConfigError(key, ",".join(names), "names of listeners, each once")
        return names

    def listeners(self, key: str, *, required: bool = True) -> Listeners:
        """``NAME://host:port,…``; the host may be empty, but not the port: other nodes must know it."""
        entries: dict[str, Endpoint] = {}
        for item in self._items(key):
            name, separator, address = item.partition("://")
            if not separator or not re.fullmatch(r"\w+", name):
                raise ConfigError(key, item, "listeners are NAME://host:port, separated by commas")
            endpoint = _endpoint(key, item, address)
            if name.upper() in entries or endpoint in entries.values():
                raise ConfigError(key, item, "each listener name and each address may be given once")
            entries[name.upper()] = endpoint
        if required and not entries:
            raise _lacks(key)
        if len(entries) > LISTENERS_MAX:  # nobody takes more from a voter
            raise ConfigError(key, f"{len(entries)} listeners", f"at most {LISTENERS_MAX}")
        return Listeners(tuple(entries.items()))

    def advertised(self, own: Listeners, listeners: Listeners, voters_listener: str, entry: Voter | None) -> Listeners:
        """The addresses for other nodes: advertised.listeners (``own``), else listeners; a wildcard becomes localhost.

        ``entry`` is this node's among the static voters, at the listener for voters: the other voters dial that one, so
        the node names no other, unless advertised.listeners does (KAFKA-20380).
        """
        key = ADVERTISED_KEY
        for name, endpoint in own:
            if listeners.get(name) is None:
                raise ConfigError(key, f"{name}://{endpoint}", "each name must be one of listeners")
            if endpoint.host in WILDCARDS:
                raise ConfigError(key, f"{name}://{endpoint}", "other nodes cannot connect to a wildcard address")
        told = []
        for name, bound in listeners:
            listed = entry.listeners.get(name) if entry is not None and name == voters_listener else None
            endpoint = own.get(name) or listed or bound
            if endpoint.host in WILDCARDS:
                endpoint = replace(endpoint, host="localhost")
                self.warn(
                    "listeners",
                    f"other nodes will dial {endpoint} for {name}; if that is wrong, set advertised.listeners",
                )
            told.append((name, endpoint))
        return Listeners(tuple(told))

    def voters(self, key: str, listener: str) -> VoterSet:
        """``id@host:port,…``; of two with the same id the last one counts."""
        parsed = []
        for item in self._items(key):
            node_id, separator, address = item.partition("@")
            if not separator or not re.fullmatch("[0-9]{1,10}", node_id) or int(node_id) > INT32_MAX:
                raise ConfigError(key, item, "voters are id@host:port with an id of 0 or more, separated by commas")
            listeners = Listeners(((listener, _reachable(key, item, address)),))
            parsed.append(Voter(key=ReplicaKey(NodeId(int(node_id))), listeners=listeners))
        voters = VoterSet.of(parsed)
        refuse_shared_addresses(voters)
        return voters

    def endpoints(self, key: str) -> tuple[Endpoint, ...]:
        """``host:port,…``."""
        return tuple(_reachable(key, item, item) for item in self._items(key))

    def security(self, listeners: Listeners, voters_listener: str) -> tuple[tuple[str, Security], ...]:
        """How each listener is protected; one that the map does not have is its own protocol name, or PLAINTEXT."""
        mapped = protocols_by_listener(self.text(MAP_KEY))
        for name, protocol in mapped.items():
            if name in HTTP_NAMES and Security(protocol).uses_sasl and listeners.get(name) is None:
                raise ConfigError(MAP_KEY, f"{name}:{protocol.value}", NO_SASL)
        # HTTP has addresses of its own; they are protected as if they were listeners of these names.
        names = [name for name, _ in listeners]
        names += [name for name in HTTP_NAMES if name in mapped and name not in names]
        refuse_unsupported(self._left, listeners=tuple(names))
        found = []
        for name in names:
            protocol = mapped.get(name) or SecurityProtocol(name if name in PROTOCOL_NAMES else "PLAINTEXT")
            is_dialed = name == voters_listener
            found.append((name, Security.of_listener(name, protocol, self._left, is_dialed=is_dialed)))
        self._refuse_unused(found, dict(found)[voters_listener].protocol.value)
        return tuple(entry for entry in found if not entry[1].is_in_the_clear)

    def _refuse_unused(self, found: Sequence[tuple[str, Security]], between_nodes: str) -> None:
        """Errors: ConfigError for properties of security that no listener uses: who gives them expects protection."""
        used = {setting.key for _, security in found for _, setting in security.settings}
        for key in [key for key in self._left if is_of_security(key)]:
            value = self._left.pop(key)
            is_overridden = key in NAMES and any(security.honours(key) for _, security in found)
            if value.strip() and key not in used and not is_overridden:
                protocol = "SSL" if key.rpartition("ssl.")[1] else "SASL_SSL"
                allowed = f"no listener uses it: give one {protocol} in {MAP_KEY}"
                raise ConfigError(key, value, allowed)
        between_key = "security.inter.broker.protocol"
        between = self.text(between_key)
        if between.upper() not in ("", between_nodes):
            raise ConfigError(between_key, between, f"the listener between nodes is {between_nodes}")

    def text(self, key: str) -> str:
        """The value without surrounding blanks; empty if absent."""
        return self._left.pop(key, "").strip()

    def _items(self, key: str) -> list[str]:
        return [item.strip() for item in self.text(key).split(",") if item.strip()]


def _origin(properties: Mapping[str, str], key: str) -> str:
    return origin_of(properties, key, *(old for old, new in ALIASES.items() if new == key))


def _endpoint(key: str, item: str, address: str, *, port_least: int = 1) -> Endpoint:
    match = _HOST_PORT.fullmatch(address)
    host = "" if match is None else match["ipv6"] or match["host"] or ""
    is_host = not host or Endpoint(host, PORT_MAX).can_be_dialed
    if match is None or not is_host or not port_least <= int(match["port"]) <= PORT_MAX:
        allowed = f"an address is host:port (IPv6 in brackets) with a port from {port_least} to {PORT_MAX}"
        raise ConfigError(key, item, allowed)
    return Endpoint(host, int(match["port"]))


def _reachable(key: str, item: str, address: str) -> Endpoint:
    endpoint = _endpoint(key, item, address)
    if endpoint.host in WILDCARDS:
        raise ConfigError(key, item, "other nodes cannot connect to a wildcard address: give a host")
    return endpoint
