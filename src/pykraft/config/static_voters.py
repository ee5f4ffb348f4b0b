"""What cannot be true of ``controller.quorum.voters``, or contradicts what a node says of itself.

Invariant: no two static voters have one address. Each would be asked for the other's vote, and no epoch would ever have
a leader. `pykraft.config.properties` parses the list.

Source: KIP-595 §Configurations; the checks are ours.
"""

from __future__ import annotations

from typing import Final

from pykraft.errors import ConfigError
from pykraft.types import Endpoint, NodeId, VoterSet

VOTERS_KEY: Final = "controller.quorum.voters"
ADVERTISED_KEY: Final = "advertised.listeners"
WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - they are recognized, not bound
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


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
    return Endpoint("localhost" if host in _LOOPBACK else host, endpoint.port)


def _may_be_same(one: Endpoint, other: Endpoint) -> bool:
    """False if these are certainly two addresses, or two names. A name may have any address, and a wildcard has all."""
    if one.port != other.port:
        return False
    hosts = _normal(one).host, _normal(other).host
    if hosts[0] == hosts[1] or not WILDCARDS.isdisjoint(hosts):
        return True
    is_numeric = [":" in host or host.replace(".", "").isdecimal() for host in (one.host, other.host)]
    return is_numeric[0] != is_numeric[1]
