"""Requests to a live quorum as a whole: who belongs to it, how far each replica is, and changes of the voters.

One round of the search for the node that can answer:

1. Ask a known node about the cluster: its id, its nodes, its leader (DescribeCluster).
2. Ask the leader (for brokers: the same node, which forwards the request). Its answer ends the search.
3. A node that fails or no longer leads is asked last in the next round. So is the node that named it, since it may be
   cut off and name a leader that resigned long ago.

Invariant: the search ends. If all nodes are unreachable in the first round, it ends at once. If one has answered, if
only that it knows no leader, it continues until the time is over, since a leader may yet be elected.

A change of the voters is sent once to each leader; any answer other than "ask another node" is final. The error code
decides, never the text: after a code of `NEVER_MADE` the change can no longer be made. If the answer is lost, or has
another code, and no later answer says that the change is made, the result is an OutcomeUnknownError.

Source: KIP-595 §DescribeQuorum, KIP-919 (bootstrap controllers); Kafka's ``KafkaAdminClient``; ADR 024, ADR 128.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Final, TypeVar

from pykraft.client.arguments import INT32_MAX, whole_number
from pykraft.client.remote import leader_search
from pykraft.client.remote.connection import ClientDialer, Connection
from pykraft.client.remote.quorum import Quorum, VoterProblem, quorum_of
from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME, TRANSFER_TIMEOUT_MS, TRANSFER_TIMEOUT_MS_MAX
from pykraft.core import messages
from pykraft.errors import (
    ErrorCode,
    ForeignClusterError,
    OutcomeUnknownError,
    QuorumUnavailableError,
    RefusedError,
    UnreachableError,
    UsageError,
    error_name,
)
from pykraft.protocol.messages import ApiKey
from pykraft.rpc.context import RpcContext
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.types import EPOCH_ZERO, Endpoint, Epoch, Listeners, NodeId, Offset, ReplicaKey

VOTER_TIMEOUT_MS: Final = 1_000
"""For the connection, and again for the answer; all voters are asked at the same time."""


async def own_problem_at(connection: Connection, *, timeout_ms: int) -> VoterProblem | None:
    """What this voter says of itself; None when nothing is wrong, or when it is not a pykraft node.

    Errors: UnreachableError.
    """
    answer = await leader_search.cluster_at(connection, timeout_ms=timeout_ms)
    text = None if answer is None else leader_search.own_words(answer)
    return None if text is None else VoterProblem(text=text, is_own=True)


def problem_with(error: UnreachableError) -> VoterProblem:
    """The problem with a voter that could not be asked."""
    return VoterProblem(text=str(error), is_refused=isinstance(error.__cause__, ConnectionRefusedError))


T = TypeVar("T")
_LEADS_NOT: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE}
)
_ASK_ANOTHER: Final = _LEADS_NOT | {ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT}
NEVER_MADE: Final = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        ErrorCode.INVALID_VOTER_KEY,
        ErrorCode.DUPLICATE_VOTER,
        ErrorCode.VOTER_NOT_FOUND,
    }
)
"""Codes of checks before a change begins: it was not made, and will not be.

A leader answers REQUEST_TIMED_OUT also to a change whose record may still commit, and NOT_LEADER_OR_FOLLOWER (or
NOT_CONTROLLER) also when it loses the leadership meanwhile.
"""
_NEVER_TRANSFERRED: Final = NEVER_MADE | {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT}
"""A leader that gives a transfer up stays the leader; one that has resigned answers LEADER_NOT_AVAILABLE."""
_OTHER_KIND: Final = frozenset({ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE})


class NodeKind(Enum):
    """The kind of the bootstrap nodes; the values are those of DescribeCluster."""

    BROKER = 1
    CONTROLLER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """One node's description of its cluster; ``leader_id`` is None when the node knows no leader.

    ``problem`` says whom it names, and why it cannot vote if it cannot.
    """

    cluster_id: str
    leader_id: NodeId | None
    nodes: Mapping[NodeId, Endpoint]
    problem: str


class Admin(leader_search.LeaderClient):
    """A client of a live quorum; use it in ``async with``, within one event loop. One request at a time."""

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        *,
        kind: NodeKind = NodeKind.CONTROLLER,
        cluster_id: str | None = None,
        client_id: str = "pykraft-admin",
        patience: leader_search.Patience = leader_search.PATIENCE,
        security: Security = IN_THE_CLEAR,
    ) -> None:
        """``bootstrap`` has some nodes of the quorum, one of them alive; nodes of another ``cluster_id`` are refused.

        ``security`` is how its connections are protected: `Security.of_client` reads Kafka's properties.

        Errors: UsageError for an empty list; ConfigError for certificates that cannot be used.
        """
        super().__init__(bootstrap, client_id=client_id, patience=patience, security=security)
        self._kind = kind
        self._cluster_id = cluster_id
        self._context = RpcContext(
            cluster_id=cluster_id,
            topic_name=METADATA_TOPIC_NAME,
            topic_id=METADATA_TOPIC_ID,
            default_listener="CONTROLLER",
        )
        self._is_somebody_there = False
        self._connections: dict[Endpoint, Connection] = {}
        self._end_s = 0.0

    async def close(self) -> None:
        """Close all connections."""
        while self._connections:
            await self._connections.popitem()[1].close()

    async def describe_quorum(self, *, ask_voters: bool = False) -> Quorum:
        """The quorum as its leader sees it; with ``ask_voters`` also what its followers say of themselves.

        Errors: QuorumUnavailableError when no node answers, or there is no leader within the time; ForeignClusterError;
        UsageError when the nodes are of the other kind.
        """
        cluster, answer = await self._ask_leader(partial(self._answer_of, messages.DescribeQuorumRequest(), 0, []))
        assert isinstance(answer, messages.DescribeQuorumResponse)
        assert answer.leader_id is not None
        found = quorum_of(cluster.cluster_id, answer, answer.leader_id)
        if self._kind is not NodeKind.CONTROLLER:
            return found
        voters = found.endpoints
        # If there is no leader at the next look, all voters are asked and shown: Kafka's controllers name only those of
        # them that are registered.
        self._search.nodes += self._search.asked.add_voters(voters)
        if not ask_voters:
            return found
        voters.pop(found.leader_id, None)
        return replace(found, problems=await self._problems_of(voters))

    async def _problems_of(self, voters: Mapping[NodeId, Endpoint]) -> dict[NodeId, VoterProblem]:
        timeout_ms = min(VOTER_TIMEOUT_MS, self._timeout_ms())

        async def ask(voter: Endpoint) -> VoterProblem | None:
            try:
                return await own_problem_at(await self._connection_to(voter, timeout_ms), timeout_ms=timeout_ms)
            except UnreachableError as error:
                return problem_with(error)

        problems = await asyncio.gather(*map(ask, voters.values()))
        return {node_id: problem for node_id, problem in zip(voters, problems, strict=True) if problem is not None}

    async def add_voter(
        self, voter: ReplicaKey, listeners: Listeners, *, timeout_ms: int = leader_search.PATIENCE.timeout_ms
    ) -> None:
        """Make an observer that has caught up a voter; returns when the new voter set is committed.

        ``listeners`` are those that voters dial.

        Errors: RefusedError with the leader's reason; OutcomeUnknownError when the change may still be made, also when
        a leader that is busy or new answers REQUEST_TIMED_OUT; as `describe_quorum`.
        Source: KIP-853 §AddRaftVoter.
        """
        message = messages.AddVoterRequest(voter=voter, listeners=listeners, timeout_ms=timeout_ms)
        await self._change(message, f"adding voter {voter.id}")

    async def remove_voter(self, voter: ReplicaKey) -> None:
        """Remove a voter; returns when the voter set without it is committed.

        Errors: as `add_voter`.
        Source: KIP-853 §RemoveRaftVoter.
        """
        await self._change(messages.RemoveVoterRequest(voter=voter), f"removing voter {voter.id}")

    async def upgrade_kraft_version(self, level: int, *, validate_only: bool = False) -> None:
        """Move static voters into the log (level 1); returns when that is committed. It cannot be undone.

        ``validate_only`` asks whether the upgrade is possible. A request for the current level changes nothing.

        Errors: as `add_voter`.
        Source: KIP-853, KIP-584 §UpdateFeatures.
        """
        message = messages.UpdateFeaturesRequest(kraft_version=level, validate_only=validate_only)
        await self._change(message, f"kraft.version {level}")

    async def transfer_leadership(self, to: int, *, timeout_ms: int = TRANSFER_TIMEOUT_MS) -> Epoch:
        """Transfer the leadership to this voter; returns its epoch. It has ``timeout_ms`` to get the leader's log.

        Errors: RefusedError with the leader's reason, or who leads instead; OutcomeUnknownError when the voter may
        still become leader; UsageError when the leader is not a pykraft node; as `describe_quorum`.
        """
        target_id = NodeId(whole_number("to", to, least=0, most=INT32_MAX))
        whole_number("timeout_ms", timeout_ms, least=0, most=TRANSFER_TIMEOUT_MS_MAX)
        message = messages.TransferLeadershipRequest(target_id=target_id, timeout_ms=timeout_ms)
        answer = await self._change(message, f"transferring the leadership to node {to}", longer_ms=timeout_ms)
        assert isinstance(answer, messages.TransferLeadershipResponse)
        return answer.epoch

    async def unregister_controller(self, controller_id: NodeId) -> None:
        """Remove the registration of a controller that is gone from a quorum of Kafka's controllers.

        A registration is a record of Kafka's application. It outlives the voter, and `kafka-features` then still waits
        for what the gone controller supports. Our own quorums have no registrations.

        Errors: RefusedError with the leader's reason, such as CONTROLLER_ID_NOT_REGISTERED, or that the controller is
        still a voter; UsageError when the leader does not offer it; as `describe_quorum`.
        Source: KIP-1312; Kafka's ``QuorumController.unregisterController``.
        """

        async def ask(leader: Endpoint, _: Endpoint) -> int:
            connection = await self._connection_to(leader)
            key = ApiKey.UNREGISTER_CONTROLLER
            if not connection.offers_key(key):
                text = f"{leader} does not offer UnregisterController: only Kafka's controllers do, from 4.4 on"
                raise UsageError(text)
            body = {"controller_id": controller_id}
            answer = await connection.ask_body(key, body, timeout_ms=self._timeout_ms())
            code: int = answer["error_code"]
            if code in _LEADS_NOT:
                raise UnreachableError(leader, f"it does not lead ({error_name(code)})", has_answered=True)
            if code:
                raise RefusedError(f"unregistering controller {controller_id}", code, answer["error_message"])
            return code

        await self._ask_leader(ask)

    async def _change(self, message: messages.Request, what: str, *, longer_ms: int = 0) -> messages.Response:
        """Send a change to the leader and return its answer, which may take ``longer_ms`` longer than other answers."""
        doubts: list[str] = []
        try:
            _, answer = await self._ask_leader(partial(self._answer_of, message, longer_ms, doubts), longer_ms)
        except QuorumUnavailableError as error:
            if not doubts:
                raise
            # An earlier leader may have begun the change, so "no node answers" is not the whole truth.
            raise OutcomeUnknownError(
                f"{what} {messages.MAY_BE_MADE_YET}: {'; '.join(doubts)}; then {error}"
            ) from error
        assert isinstance(answer, messages.ChangeVoterResponse | messages.TransferLeadershipResponse)
        if answer.error:
            refused = RefusedError(what, answer.error, answer.error_message)
            if not doubts and not _may_be_made_yet(answer):
                raise refused
            # After a doubt, this refusal may itself be a result of the change that an earlier leader made.
            earlier = f"{'; '.join(doubts)}; then " if doubts else ""
            raise OutcomeUnknownError(f"{what} {messages.MAY_BE_MADE_YET}: {earlier}{refused}") from refused
        return answer

    async def _ask_leader(
        self, ask: Callable[[Endpoint, Endpoint], Awaitable[T]], longer_ms: int = 0
    ) -> tuple[ClusterDescription, T]:
        """Find the leader and return what ``ask`` returns for it and the node that named it.

        Errors: as `describe_quorum`; those of ``ask``, except UnreachableError.
        """
        self._end_s = asyncio.get_running_loop().time() + (self._patience.timeout_ms + longer_ms) / 1_000
        self._is_somebody_there = False
        self._search.asked.clear()
        try:
            return await self._search_leader(ask)
        finally:
            self._patience.on_waiting(None)

    async def _search_leader(self, ask: Callable[[Endpoint, Endpoint], Awaitable[T]]) -> tuple[ClusterDescription, T]:
        loop = asyncio.get_running_loop()
        nodes = self._search.nodes
        is_first = True
        while True:
            for node in tuple(nodes):
                if not is_first and loop.time() >= self._end_s:
                    break
                is_first = False
                try:
                    # 1. The cluster, then 2. its leader.
                    cluster = await self._cluster_at(node)
                    return cluster, await ask(self._leader_in(cluster, node), node)
                except UnreachableError as error:
                    self._note(error)
                    # 3. Ask this node last in the next round, also if only the leader that it named failed.
                    nodes.remove(node)
                    nodes.append(node)
            if not self._is_somebody_there:
                raise self._search.asked.silent()
            if loop.time() >= self._end_s:
                raise self._search.asked.unavailable(self._patience.timeout_ms)
            self._patience.on_waiting(self._search.asked.story)
            await self.pause()

    def _note(self, error: UnreachableError) -> None:
        node = error.endpoint
        assert isinstance(node, Endpoint), "every connection has one"
        # Once our own time is over every request fails; do not overwrite the real problem with that.
        if not self._search.asked.has(node) or asyncio.get_running_loop().time() < self._end_s:
            self._search.asked.note(node, error.problem, has_answered=error.has_answered)

    async def _cluster_at(self, node: Endpoint) -> ClusterDescription:
        """This node's description of its cluster. Errors: UnreachableError, ForeignClusterError, UsageError."""
        connection = await self._connection_to(node)
        body = {"endpoint_type": self._kind.value}
        answer = await connection.ask_body(ApiKey.DESCRIBE_CLUSTER, body, timeout_ms=self._timeout_ms())
        code = answer["error_code"]
        if code in _OTHER_KIND:
            other = NodeKind.BROKER if self._kind is NodeKind.CONTROLLER else NodeKind.CONTROLLER
            raise UsageError(f"{node} is not a {self._kind.name.lower()}: bootstrap from it as a {other.name.lower()}")
        nodes = leader_search.nodes_in(answer)
        if self._kind is NodeKind.CONTROLLER and leader_search.is_pykraft(connection):
            self._search.nodes += self._search.asked.add_voters(nodes)
        if code == ErrorCode.LEADER_NOT_AVAILABLE:
            # A node of a quorum that elects: it will know the leader in a moment.
            self._is_somebody_there = True
            raise UnreachableError(node, str(leader_search.problem_in(answer)), has_answered=True)
        if code:
            raise UnreachableError(node, f"it answers DescribeCluster with {error_name(code)}")
        self._is_somebody_there = True
        found = ClusterDescription(
            cluster_id=answer["cluster_id"],
            leader_id=NodeId(answer["controller_id"]) if answer["controller_id"] >= 0 else None,
            nodes=nodes,
            problem=leader_search.problem_in(answer) or leader_search.whom_it_names(answer["controller_id"]),
        )
        if self._cluster_id not in (None, found.cluster_id):
            raise ForeignClusterError(f"{node} belongs to cluster {found.cluster_id}, not to {self._cluster_id}")
        self._cluster_id = found.cluster_id
        self._search.nodes += [endpoint for endpoint in nodes.values() if self._search.asked.add(endpoint)]
        return found

    def _leader_in(self, cluster: ClusterDescription, node: Endpoint) -> Endpoint:
        """The leader that ``node`` named. Errors: UnreachableError."""
        if self._kind is NodeKind.BROKER:
            return node
        if cluster.leader_id is None:
            raise UnreachableError(node, cluster.problem, has_answered=True)
        if cluster.leader_id not in cluster.nodes:
            problem = f"it does not know the address of its leader, node {cluster.leader_id}"
            raise UnreachableError(node, problem, has_answered=True)
        leader = cluster.nodes[cluster.leader_id]
        # In case that the leader fails. If it is this node itself, only its own problem counts, also an older one.
        if leader != node:
            self._note(UnreachableError(node, cluster.problem, has_answered=True))
        return leader

    async def _answer_of(
        self, message: messages.Request, longer_ms: int, doubts: list[str], leader: Endpoint, node: Endpoint
    ) -> messages.Response:
        """The answer of the leader that ``node`` named. Errors: UnreachableError, also when that node does not lead.

        ``doubts`` gets a text if the leader may have begun what it was asked for.
        """
        connection = await self._connection_to(leader)
        if not connection.offers(message):
            name = type(message).__name__.removesuffix("Request")
            raise UsageError(f"{leader} does not offer {name}: it is another program, or an older one")
        try:
            answer = (await connection.ask(message, self._context, timeout_ms=self._timeout_ms(longer_ms))).message
        except UnreachableError as error:
            # The leader may have received the request before the connection failed.
            doubts.append(str(error))
            raise
        code = answer.error
        is_change = isinstance(answer, messages.ChangeVoterResponse | messages.TransferLeadershipResponse)
        if code in (_LEADS_NOT if is_change else _ASK_ANOTHER):
            if _may_be_made_yet(answer):
                doubts.append(f"{leader}: it does not lead, and may have begun before")
            # What it said of itself when it was asked for its leader says more.
            own = None if leader == node else self._search.asked.answer_of(leader)
            raise UnreachableError(leader, own or f"it does not lead ({error_name(code)})", has_answered=True)
        if code and not is_change:
            raise UnreachableError(leader, f"it answers {type(message).__name__} with {error_name(code)}")
        if isinstance(answer, messages.DescribeQuorumResponse) and answer.leader_id is None:
            raise UnreachableError(leader, "it describes a quorum without a leader", has_answered=True)
        return answer

    async def _connection_to(self, node: Endpoint, timeout_ms: int | None = None) -> Connection:
        """The connection to this node, opened if none is open. Errors: UnreachableError."""
        connection = self._connections.get(node)
        if connection is None or not connection.is_open:
            connection = self._connections[node] = await self._dialer.connect(node, timeout_ms or self._timeout_ms())
        return connection

    def _timeout_ms(self, longer_ms: int = 0) -> int:
        left_ms = math.ceil((self._end_s - asyncio.get_running_loop().time()) * 1_000)
        return max(1, min(self._patience.request_timeout_ms + longer_ms, left_ms))


def _may_be_made_yet(answer: messages.Response) -> bool:
    """Whether a change that got this answer, which is an error, may be under way."""
    if isinstance(answer, messages.TransferLeadershipResponse):
        return answer.error not in _NEVER_TRANSFERRED
    return isinstance(answer, messages.ChangeVoterResponse) and answer.error not in NEVER_MADE


# Without an id it acknowledges nothing; at epoch 0 only a new voter has nothing to object.
_QUESTION = messages.FetchRequest(
    replica=None,
    epoch=EPOCH_ZERO,
    fetch_offset=Offset(0),
    last_fetched_epoch=EPOCH_ZERO,
    wait_ms_max=0,
    size_bytes_max=0,
    high_watermark=-1,
)


async def epochs_of(
    voters: Mapping[NodeId, Endpoint], context: RpcContext, security: Security = IN_THE_CLEAR
) -> dict[NodeId, Epoch | UnreachableError]:
    """The epoch of each voter, or why it could not be asked."""
    dialer = ClientDialer("pykraft-epochs", security=security)

    async def epoch_at(endpoint: Endpoint) -> Epoch | UnreachableError:
        try:
            connection = await dialer.connect(endpoint, VOTER_TIMEOUT_MS)
            try:
                message = (await connection.ask(_QUESTION, context, timeout_ms=VOTER_TIMEOUT_MS)).message
            finally:
                await connection.close()
        except UnreachableError as error:
            return error
        if isinstance(message, messages.FetchResponse):
            return message.epoch
        return UnreachableError(endpoint, "it belongs to another cluster, or keeps another log")

    return dict(zip(voters, await asyncio.gather(*map(epoch_at, voters.values())), strict=True))
