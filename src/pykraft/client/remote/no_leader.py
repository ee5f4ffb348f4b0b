"""Why a client has no leader: what is wrong with each node that it asked, in one wording for all commands.

Invariant: each node is told once, with the last that is known of it: the voters by id, then the other nodes in the
order in which they became known, the bootstrap list first. ``localhost:9093`` and ``127.0.0.1:9093`` are one node,
under the name that became known first. The order does not depend on who answered when, so two runs say the same.

A pykraft node describes the voters also while it knows no leader. Then the text says how many answer and how many are
needed; a Kafka controller lists its registered controllers, which need not be voters, so it says nothing about that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pykraft.client.arguments import ENDPOINTS_MAX
from pykraft.client.remote.connection import Connection
from pykraft.core.quorum import majority_of
from pykraft.errors import ErrorCode, QuorumUnavailableError
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.text.words import counted, in_seconds
from pykraft.types import Endpoint, NodeId

CONTROLLERS: Final = 2
"""The endpoint type of controllers in DescribeCluster."""
NOT_ASKED: Final = "not asked yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """The last that is known of one node; ``has_answered``: it is there, and spoke as a node of a quorum."""

    problem: str
    has_answered: bool


class AskedNodes:
    """What a client knows of the nodes that it may ask: at most ENDPOINTS_MAX, and the voters."""

    def __init__(self, bootstrap: Sequence[Endpoint]) -> None:
        self._nodes = list(dict.fromkeys(bootstrap))
        self._addresses: dict[Endpoint, frozenset[str]] = {}
        self._voters: dict[NodeId, Endpoint] = {}
        self._said: dict[Endpoint, _Said] = {}
        """By the endpoint that was asked, in the order of asking: which of them are one node may show later."""

    def resolved(self, endpoint: Endpoint, addresses: Collection[str]) -> None:
        """The host of this endpoint has these numeric addresses."""
        if endpoint in self._nodes:
            self._addresses[endpoint] = frozenset(addresses)

    def known_as(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint under which this node became known first: itself for an unknown node."""
        same = (node for node in self._nodes if node == endpoint or self._is_same(node, endpoint))
        return next(same, endpoint)

    def add(self, endpoint: Endpoint) -> bool:
        """Note a node that another one named; False when it is known already, or there are too many."""
        if len(self._nodes) >= ENDPOINTS_MAX or self.known_as(endpoint) in self._nodes:
            return False
        self._nodes.append(endpoint)
        return True

    def add_voters(self, voters: Mapping[NodeId, Endpoint]) -> list[Endpoint]:
        """These are the voters, unless there are none; returns those that were unknown."""
        if voters:
            self._voters = dict(sorted(voters.items()))
        return [endpoint for endpoint in self._voters.values() if self.add(endpoint)]

    def note(self, endpoint: Endpoint, problem: str, *, has_answered: bool) -> None:
        """What is wrong with this node; it replaces what was known of it."""
        self.add(endpoint)
        self._said.pop(endpoint, None)
        self._said[endpoint] = _Said(problem=problem, has_answered=has_answered)

    def has(self, endpoint: Endpoint) -> bool:
        """Whether a problem of this node is known."""
        return self.known_as(endpoint) in self._last_said()

    def answer_of(self, endpoint: Endpoint) -> str | None:
        """What this node last said itself; None for one that did not answer, or that was not asked."""
        said = self._last_said().get(self.known_as(endpoint))
        return said.problem if said is not None and said.has_answered else None

    def clear(self) -> None:
        """A leader has answered: nothing is wrong any more."""
        self._said.clear()

    def are_all_silent(self, nodes: Iterable[Endpoint]) -> bool:
        """True when each of these nodes was asked since `clear`, and none of them answered."""
        last = self._last_said()
        found = (last.get(self.known_as(node)) for node in nodes)
        return all(said is not None and not said.has_answered for said in found)

    @property
    def story(self) -> str:
        """How many voters answer, if the voters are known, and what is wrong with each node."""
        voters = {node_id: self.known_as(endpoint) for node_id, endpoint in self._voters.items()}
        last = self._last_said()
        others = [node for node in self._nodes if node in last and node not in voters.values()]
        told: list[str] = []
        # A node that answers but is not found among the voters may be one of them under another name.
        if voters and not any(last[node].has_answered for node in others):
            told.append(_count([last.get(node) for node in voters.values()]))
        for node_id, endpoint in voters.items():
            said = last.get(endpoint)
            told.append(f"voter {node_id} at {endpoint}: {NOT_ASKED if said is None else said.problem}")
        return "; ".join([*told, *(f"{node}: {last[node].problem}" for node in others)])

    def unavailable(self, timeout_ms: int) -> QuorumUnavailableError:
        """The error for a search that was given up after this time."""
        return QuorumUnavailableError(f"no leader within {in_seconds(timeout_ms)}", self.story)

    def silent(self) -> QuorumUnavailableError:
        """The error for nodes that are all unreachable."""
        return QuorumUnavailableError("no node answers", self.story)

    def _last_said(self) -> dict[Endpoint, _Said]:
        """The last that is known of each node, by the endpoint under which it became known first."""
        return {self.known_as(endpoint): said for endpoint, said in self._said.items()}

    def _is_same(self, one: Endpoint, other: Endpoint) -> bool:
        """True when both have the same port and share an address, as far as the addresses are known."""
        if one.port != other.port:
            return False
        addresses = (self._addresses.get(each, frozenset({each.host})) for each in (one, other))
        return not next(addresses).isdisjoint(next(addresses))


def _count(voters: Sequence[_Said | None]) -> str:
    """How many of these voters answer, and whether they are enough."""
    answering = sum(said is not None and said.has_answered for said in voters)
    told = f"{answering} of {counted(len(voters), 'voter')} answer{'s' if answering == 1 else ''}"
    needed = majority_of(len(voters))
    if answering >= needed:
        return f"{told}, but none leads yet"
    return f"{told}, {needed} {'is' if needed == 1 else 'are'} needed"


def whom_it_names(leader_id: int | None) -> str:
    """The problem with a node that answers, but does not lead."""
    return "it knows no leader" if leader_id is None or leader_id < 0 else f"it names node {leader_id} as the leader"


async def voters_at(connection: Connection, *, timeout_ms: int) -> tuple[dict[NodeId, Endpoint], str | None]:
    """The voters as this node describes them, and its own problem; neither if it is no pykraft node.

    Errors: UnreachableError.
    """
    answer = await cluster_at(connection, timeout_ms=timeout_ms)
    return ({}, None) if answer is None else (nodes_in(answer), problem_in(answer))


async def cluster_at(connection: Connection, *, timeout_ms: int) -> Body | None:
    """This node's answer to DescribeCluster; None if it is no pykraft node. Errors: UnreachableError."""
    if not is_pykraft(connection) or not connection.offers_key(ApiKey.DESCRIBE_CLUSTER):
        return None
    return await connection.ask_body(ApiKey.DESCRIBE_CLUSTER, {"endpoint_type": CONTROLLERS}, timeout_ms=timeout_ms)


def own_words(answer: Body) -> str | None:
    """What a node says of itself in its answer to DescribeCluster: that it knows no leader, why it cannot vote."""
    if answer["error_code"] == ErrorCode.LEADER_NOT_AVAILABLE:
        return answer["error_message"] or whom_it_names(None)
    # A node may know its leader and yet be unable to vote (ADR 024).
    return answer["error_message"] if answer["error_code"] == ErrorCode.NONE else None


def problem_in(answer: Body) -> str | None:
    """The same for one who looks for a leader: with the leader that the node names."""
    own = own_words(answer)
    if own is None or answer["error_code"] != ErrorCode.NONE:
        return own
    return f"{whom_it_names(answer['controller_id'])}, and {own}"


def is_pykraft(connection: Connection) -> bool:
    """Whether the other end is a pykraft node: then DescribeCluster lists voters, and does so without a leader, too."""
    return connection.offers_key(ApiKey.TRANSFER_LEADERSHIP)


def nodes_in(answer: Body) -> dict[NodeId, Endpoint]:
    """The nodes in an answer to DescribeCluster that can be dialed; none in a refusal, but for want of a leader."""
    if answer["error_code"] not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
        return {}
    return {
        NodeId(each["broker_id"]): endpoint
        for each in answer["brokers"]
        if (endpoint := Endpoint(each["host"], each["port"])).can_be_dialed
    }
