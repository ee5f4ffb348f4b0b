"""The first voters of a quorum that is being formatted: static voters, this node alone, a list, or none for a joiner.

Checks which options go together, and parses the list. Invariant: accepted options make a quorum that can start, and a
list means the same on every node.

Source: KIP-853 §Bootstrapping, KIP-1170; Kafka's ``StorageTool`` and ``DynamicVoters``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pykraft.config import NEVER_LEADS_KEY, ONLY_VOTER, NodeConfig
from pykraft.errors import ConfigError, UsageError
from pykraft.log.directory import is_reserved
from pykraft.log.fs import Fs
from pykraft.snapshot.bootstrap import BOOTSTRAP_KRAFT_VERSION, write_bootstrap
from pykraft.types import (
    KRAFT_VERSIONS,
    PORT_MAX,
    Endpoint,
    Listeners,
    NodeId,
    ReplicaKey,
    Uuid,
    Voter,
    VoterSet,
    uuid_parse,
)

_VOTERS = "controller.quorum.voters"
FORM = "id@host:port:directory-id"
_CONTROLLER = re.compile(r"([0-9]{1,10})@(\[[^\]]+\]|[^:\[\]]+):([0-9]{1,5}):([A-Za-z0-9_-]{22})")
_ID_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Initial:
    """What to format: the level of kraft.version, Kafka's term for such a directory, and the first voters if known.

    ``directory_id`` is that of the metadata directory; None for a random one.
    """

    kraft_version: int
    kind: str
    voters: VoterSet | None
    directory_id: Uuid | None

    def write(self, fs: Fs, partition: Path) -> None:
        """The checkpoint of a dynamic quorum; nothing for a static one. Errors: StorageError."""
        if self.kraft_version >= BOOTSTRAP_KRAFT_VERSION:
            write_bootstrap(fs, partition, self.voters)


def initial_voters(
    config: NodeConfig,
    *,
    standalone: bool,
    controllers: str | None,
    joins: bool,
    directory_id: Uuid | None,
    random_uuid: Callable[[], Uuid],
) -> Initial:
    """What the options mean for this node. Errors: UsageError, ConfigError."""
    given = {
        "--standalone": standalone,
        "--initial-controllers": controllers is not None,
        "--no-initial-controllers": joins,
    }
    named = [name for name, is_given in given.items() if is_given]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)}: give one of them")
    if len(config.voters):
        if named:
            static = ",".join(f"{voter.key.id}@{voter.listeners.entries[0][1]}" for voter in config.voters.voters)
            raise ConfigError(_VOTERS, static, f"names static voters, but {named[0]} is for a dynamic quorum")
        return Initial(kraft_version=0, kind="metadata", voters=None, directory_id=directory_id)
    if not named:
        raise ConfigError(
            _VOTERS,
            "",
            "is required for static voters; for a dynamic quorum give --standalone, --initial-controllers with the "
            "same list on each node, or --no-initial-controllers for a node that joins later",
        )
    if not config.may_vote and not joins:
        allowed = f"lets this node only observe Kafka's controllers, but {named[0]} makes it a voter: give "
        raise ConfigError("pykraft.topic", config.topic_name, f"{allowed}--no-initial-controllers")
    if config.raft.never_leads and standalone:
        raise ConfigError(NEVER_LEADS_KEY, "true", ONLY_VOTER)
    if joins:
        return Initial(kraft_version=1, kind="dynamic metadata", voters=None, directory_id=directory_id)
    if controllers is None:
        own = _this_node(config, directory_id or random_uuid())
        return Initial(
            kraft_version=1,
            kind="dynamic metadata voter",
            voters=VoterSet.of([own]),
            directory_id=own.key.directory_id,
        )
    voters = parse_controllers(controllers, config.default_listener)
    listed = voters.get(config.node_id)
    if listed is None:
        raise UsageError(
            f"--initial-controllers does not name node.id {config.node_id}; to join later give --no-initial-controllers"
        )
    if directory_id not in (None, listed.key.directory_id):
        raise UsageError("--replica-directory-id is not the one that --initial-controllers gives for this node")
    if config.raft.never_leads and len(voters) == 1:
        raise ConfigError(NEVER_LEADS_KEY, "true", ONLY_VOTER)
    return Initial(kraft_version=1, kind="dynamic metadata voter", voters=voters, directory_id=listed.key.directory_id)


def parse_controllers(text: str, listener: str) -> VoterSet:
    """A list of ``id@host:port:directory-id``, IPv6 in brackets. Errors: UsageError that names the entry."""
    voters: dict[int, Voter] = {}
    for entry in (part.strip() for part in text.split(",")):
        match = _CONTROLLER.fullmatch(entry)
        if match is None:
            raise UsageError(f"--initial-controllers: {entry!r} does not have the form {FORM}")
        node_id, port, directory = int(match[1]), int(match[3]), uuid_parse(match[4])
        endpoint = Endpoint(match[2].strip("[]"), port)
        if node_id > _ID_MAX or not endpoint.can_be_dialed:
            problem = f"an id above {_ID_MAX}, or a host or port that cannot be dialed (ports are 1 to {PORT_MAX})"
            raise UsageError(f"--initial-controllers: {entry!r} has {problem}")
        if is_reserved(directory):
            raise UsageError(f"--initial-controllers: {entry!r} has a directory id that Kafka reserves")
        if node_id in voters:
            raise UsageError(f"--initial-controllers: id {node_id} is given twice")
        if any(voter.key.directory_id == directory for voter in voters.values()):
            raise UsageError(f"--initial-controllers: directory id {match[4]} is given twice")
        voters[node_id] = _voter(NodeId(node_id), directory, Listeners(((listener.upper(), endpoint),)))
    return VoterSet.of(voters.values())


def _this_node(config: NodeConfig, directory_id: Uuid) -> Voter:
    assert config.node_id is not None
    name = config.default_listener
    endpoint = config.advertised_listeners.get(name)
    assert endpoint is not None, "the configuration was checked"
    listeners = Listeners(((name.upper(), Endpoint(endpoint.host or "localhost", endpoint.port)),))
    return _voter(config.node_id, directory_id, listeners)


def _voter(node_id: NodeId, directory_id: Uuid, listeners: Listeners) -> Voter:
    return Voter(key=ReplicaKey(node_id, directory_id), listeners=listeners, kraft_version=KRAFT_VERSIONS)
