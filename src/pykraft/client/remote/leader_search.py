"""A client's search for the leader: which node to ask next, for how long, and in the end why there is none.

`AskedNodes` says what is wrong with each node, in one wording for all commands: the voters by id, then the others in
the order in which they became known. ``localhost:9093`` and ``127.0.0.1:9093`` are one node, under its first name. A
pykraft node describes the voters also while it knows no leader, so the text says how many are needed; a Kafka
controller lists registered controllers, which need not be voters. `LeaderSearch` chooses the next node, without
connections or a clock, and `LeaderClient` tries one after the other.

`LeaderFetch` fetches records and snapshots from the leader, for a client without a replica id. For any answer but that
of the leader of the highest known epoch, without an error, the next node is tried. The caller reports whether it could
use an answer; an unusable one counts as none. The topic of the log is found by trial: a node refuses a fetch of a topic
that it does not have before it looks at anything else.

Invariants: the epoch never goes back; the leader is a node that somebody named for this epoch and that has not failed
since; a connection is kept only after a whole answer, so that nobody reads the answer to an earlier request.

Source: KIP-595 (§Fetch; every error answer carries leader and epoch), KIP-853 (and the leader's endpoint); Kafka's
``KafkaRaftClient`` as an observer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self, TypeAlias, TypeVar

from pykraft.client.arguments import ENDPOINTS_MAX, nodes_to_contact
from pykraft.client.remote.connection import ClientDialer, Connection
from pykraft.core import messages
from pykraft.core.quorum import majority_of
from pykraft.errors import ErrorCode, ForeignClusterError, QuorumUnavailableError, UnreachableError, error_name
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.codec import Answer
from pykraft.rpc.context import RpcContext
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.text.words import counted, in_seconds
from pykraft.types import EPOCH_MAX, Buffer, Endpoint, Epoch, NodeId, Uuid

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
        return {self.known_as(endpoint): said for endpoint, said in self._said.items()}

    def _is_same(self, one: Endpoint, other: Endpoint) -> bool:
        """True when both have the same port and share an address, as far as the addresses are known."""
        if one.port != other.port:
            return False
        addresses = (self._addresses.get(each, frozenset({each.host})) for each in (one, other))
        return not next(addresses).isdisjoint(next(addresses))


def _count(voters: Sequence[_Said | None]) -> str:
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


T = TypeVar("T")
OnWaiting: TypeAlias = Callable[[str | None], None]
"""Called while no leader is found, with what is wrong with each node; with None when the wait is over."""
TRIES_WITHOUT_PAUSE: Final = 2


def do_not_tell(story: str | None) -> None:
    """An `OnWaiting` for a program that does not want to know."""
    del story


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a client keeps trying without a useful answer, in ms, and whom it tells meanwhile."""

    timeout_ms: int = 15_000
    request_timeout_ms: int = 5_000
    """For connecting, for negotiating, and for an answer, in addition to the time that a fetch may wait for records."""
    retry_backoff_ms: int = 50
    on_waiting: OnWaiting = do_not_tell


PATIENCE: Final = Patience()


class LeaderSearch:
    """Starts with a bootstrap list and remembers nodes that are named as leaders, up to ENDPOINTS_MAX nodes."""

    def __init__(self, bootstrap: Sequence[Endpoint]) -> None:
        """Errors: UsageError for what is not a list of endpoints, and for an empty one."""
        self.epoch = Epoch(0)
        """The highest epoch in any answer."""
        self.leader: Endpoint | None = None
        self.nodes = nodes_to_contact("bootstrap", bootstrap)
        self.asked = AskedNodes(self.nodes)
        """What was wrong with each node since the last answer of a leader."""

    @property
    def whom(self) -> Endpoint:
        """The node to ask next: the leader, or else the node that was not asked for the longest time."""
        return self.leader or self.nodes[0]

    @property
    def is_nobody_there(self) -> bool:
        """True when every known node was unreachable since the last answer of a leader."""
        return self.asked.are_all_silent(self.nodes)

    def add_voters(self, node: Endpoint, voters: Mapping[NodeId, Endpoint], problem: str | None) -> None:
        """This node named the voters: ask them too. It has this problem itself. None when it does not tell."""
        self.nodes += self.asked.add_voters(voters)
        if problem is not None:
            self.asked.note(node, problem, has_answered=True)

    def led(self, node: Endpoint) -> None:
        """This node answered as the leader of `epoch`."""
        self.leader = node
        self.asked.clear()

    def redirected(self, node: Endpoint, epoch: Epoch, leader: Endpoint | None, problem: str) -> None:
        """This node does not lead; it knows this epoch, and the leader's endpoint or None."""
        self._note(node, problem, has_answered=True)
        if epoch > self.epoch:
            self.epoch = epoch
            self.leader = None
        # An older epoch: the leader that it names may have resigned.
        if epoch < self.epoch:
            return
        # A node that refused as "not leader" cannot be the leader, even if it names itself.
        self.leader = leader if leader != node else None
        if leader is not None and self.asked.add(leader):
            self.nodes.append(leader)

    def failed(self, node: Endpoint, problem: str) -> None:
        """This node could not be reached, or its answer was unusable."""
        self._note(node, problem, has_answered=False)

    def _note(self, node: Endpoint, problem: str, *, has_answered: bool) -> None:
        """Remember the problem, and ask this node last, under each of its names."""
        self.asked.note(node, problem, has_answered=has_answered)
        known = self.asked.known_as(node)
        self.nodes.sort(key=lambda each: self.asked.known_as(each) == known)
        if node == self.leader:
            self.leader = None


class LeaderClient:
    """Use it in ``async with``, within one event loop; one request at a time."""

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        *,
        client_id: str,
        patience: Patience = PATIENCE,
        security: Security = IN_THE_CLEAR,
    ) -> None:
        """``bootstrap`` has some nodes of the quorum. Errors: ConfigError for certificates that cannot be used."""
        self._search = LeaderSearch(bootstrap)
        self._patience = patience
        self._dialer = ClientDialer(client_id, security=security, resolved=self._search.asked.resolved)
        self._connection: Connection | None = None
        self._was_heard = False
        self._tries = 0
        self._deadline_s: float | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; nothing is waited for any more."""
        self._patience.on_waiting(None)
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def accept(self) -> None:
        """The last answer was useful: reset the time limit and the tries."""
        if self._tries > TRIES_WITHOUT_PAUSE:
            self._patience.on_waiting(None)
        self._tries, self._deadline_s = 0, None

    async def pause(self) -> None:
        """Wait briefly, so that nodes do not get a storm of requests."""
        await asyncio.sleep(self._patience.retry_backoff_ms / 1_000)

    async def _until_done(self, try_once: Callable[[], Awaitable[T | None]]) -> T:
        self._tries, self._deadline_s = 0, None
        result = await self._go_on(try_once)
        self.accept()
        return result

    async def _go_on(self, try_once: Callable[[], Awaitable[T | None]]) -> T:
        """Try on until there is a result, within the time since the last `accept`; pause after the first few tries.

        Errors: QuorumUnavailableError when the time is over; those of ``try_once``.
        """
        loop = asyncio.get_running_loop()
        if self._deadline_s is None:
            self._deadline_s = loop.time() + self._patience.timeout_ms / 1_000
        while True:
            if self._tries and loop.time() >= self._deadline_s:
                self._deadline_s = None
                raise self._search.asked.unavailable(self._patience.timeout_ms)
            if self._tries > TRIES_WITHOUT_PAUSE:
                self._patience.on_waiting(self._search.asked.story)
                await self.pause()
            self._tries += 1
            result = await self._once(try_once)
            if result is not None:
                return result
            # Only in trouble: a first redirect names the leader, and who the voters are does not matter then.
            if self._tries > TRIES_WITHOUT_PAUSE and self._connection is not None:
                with suppress(UnreachableError):
                    timeout_ms = self._patience.request_timeout_ms
                    voters, problem = await voters_at(self._connection, timeout_ms=timeout_ms)
                    self._search.add_voters(self._connection.endpoint, voters, problem)

    async def _once(self, try_once: Callable[[], Awaitable[T | None]]) -> T | None:
        """None also for a node that is of no use.

        Errors: QuorumUnavailableError when no node has ever answered, instead of waiting for an election.
        """
        try:
            return await try_once()
        except UnreachableError as error:
            node, problem = error.endpoint, error.problem
        assert isinstance(node, Endpoint), "every connection has one"
        self._search.failed(node, problem)
        if self._search.is_nobody_there and not self._was_heard:
            raise self._search.asked.silent()
        return None

    async def _connected(self, node: Endpoint) -> Connection:
        """The open connection if it goes to that node and still stands, or a new one; the caller puts it back.

        Errors: UnreachableError.
        """
        connection, self._connection = self._connection, None
        if connection is not None and connection.endpoint == node and connection.is_open:
            return connection
        if connection is not None:
            await connection.close()
        return await self._dialer.connect(node, self._patience.request_timeout_ms)


_LISTENER: Final = "LEADER"
_OF_A_LEADER: Final = {
    messages.FetchResponse: frozenset({ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}),
    messages.FetchSnapshotResponse: frozenset(
        {ErrorCode.NONE, ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE}
    ),
}
_NOT_OUR_LOG: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Answers of a Kafka broker, which has other topics."""
_NOT_THE_LEADER: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


_Request: TypeAlias = messages.FetchRequest | messages.FetchSnapshotRequest
_Response: TypeAlias = messages.FetchResponse | messages.FetchSnapshotResponse
R = TypeVar("R", messages.FetchResponse, messages.FetchSnapshotResponse)


class LeaderFetch(LeaderClient):
    """Fetches from the leader, one at a time, in one event loop."""

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        *,
        topics: Sequence[tuple[str, Uuid]],
        cluster_id: str | None,
        client_id: str,
        patience: Patience,
        security: Security = IN_THE_CLEAR,
    ) -> None:
        """``topics`` are possible names and ids of the log's topic; without a cluster id any cluster is accepted."""
        super().__init__(bootstrap, client_id=client_id, patience=patience, security=security)
        self._topics = list(topics)
        self._topics_left = len(topics)
        self._cluster_id = cluster_id

    @property
    def topic_name(self) -> str:
        """The topic that is tried now; once a node has answered, that of the log."""
        return self._topics[0][0]

    async def ask(self, request_in: Callable[[Epoch], messages.FetchRequest]) -> tuple[messages.FetchResponse, Buffer]:
        """The leader's answer, with no error or OFFSET_OUT_OF_RANGE, and its records.

        ``request_in`` makes the request for an epoch.

        Errors: QuorumUnavailableError when no node was of use within the time; ForeignClusterError.
        """
        return await self._go_on(lambda: self._try(request_in, messages.FetchResponse))

    async def ask_for_snapshot(
        self, request_in: Callable[[Epoch], messages.FetchSnapshotRequest]
    ) -> tuple[messages.FetchSnapshotResponse, Buffer] | None:
        """The leader's answer and bytes; None when it did not answer, or no longer leads.

        This tries only once: the next fetch of records finds the leader, and its snapshot, anew. Kafka does not answer
        when the snapshot is gone.

        Errors: as `ask`.
        """
        return await self._once(lambda: self._try(request_in, messages.FetchSnapshotResponse))

    async def find_cluster_id(self) -> str | None:
        """The cluster id, over the connection to the leader; None if nodes do not report it (Kafka's TestRaftServer).

        Errors: ForeignClusterError; QuorumUnavailableError when no node has ever answered.
        """
        for _ in range(TRIES_WITHOUT_PAUSE):
            # A connection may have ended since the last answer; a node that never answers this has no answer.
            found = await self._once(self._describe)
            if found is not None:
                return found[0]
        return None

    async def _describe(self) -> tuple[str | None]:
        """Errors: UnreachableError, ForeignClusterError."""
        node = self._search.whom
        connection = await self._connected(node)
        cluster_id: str | None = None
        if connection.offers_key(ApiKey.DESCRIBE_CLUSTER):
            timeout_ms = self._patience.request_timeout_ms
            body = {"endpoint_type": CONTROLLERS}
            answer = await connection.ask_body(ApiKey.DESCRIBE_CLUSTER, body, timeout_ms=timeout_ms)
            cluster_id = answer["cluster_id"] or None
        self._connection = connection
        if cluster_id is not None and self._cluster_id not in (None, cluster_id):
            raise _foreign(node, self._cluster_id)
        return (cluster_id,)

    @property
    def epoch(self) -> Epoch:
        """The highest known epoch."""
        return self._search.epoch

    @property
    def story(self) -> str:
        """What was wrong with each node since the last answer of a leader."""
        return self._search.asked.story

    def reject(self, problem: str) -> None:
        """The last answer was not usable; another node may do better, or the same one later."""
        self._search.failed(self._search.whom, problem)

    async def _try(self, request_in: Callable[[Epoch], _Request], kind: type[R]) -> tuple[R, Buffer] | None:
        """Ask the next node once; None when it does not lead. Errors: UnreachableError, ForeignClusterError."""
        node = self._search.whom
        connection = await self._connected(node)
        request = request_in(self._search.epoch)
        name, topic_id = self._topics[0]
        context = RpcContext(
            cluster_id=self._cluster_id, topic_name=name, topic_id=topic_id, default_listener=_LISTENER
        )
        wait_ms = request.wait_ms_max if isinstance(request, messages.FetchRequest) else 0
        timeout_ms = wait_ms + self._patience.request_timeout_ms
        answer = await connection.ask(request, context, timeout_ms=timeout_ms)
        self._connection = connection
        message = self._judge(node, answer, request.epoch)
        if message is None:
            return None
        assert isinstance(message, kind), "a response has the type of its request"
        return message, answer.records

    def _judge(self, node: Endpoint, answer: Answer, asked_epoch: Epoch) -> _Response | None:
        """The answer if it is a leader's; None when the node does not lead, after noting what it knows.

        Errors: UnreachableError for an unusable answer, ForeignClusterError.
        """
        message = answer.message
        if isinstance(message, messages.TopLevelError):
            self._refused(node, message.error)
            return None
        assert isinstance(message, _Response), "a Fetch is answered by a FetchResponse"
        if message.error in _NOT_OUR_LOG:
            raise UnreachableError(node, f"it answers Fetch with {error_name(message.error)}: is it a controller?")
        epoch = asked_epoch if message.epoch is None else message.epoch
        # Adopting such an epoch would make every real leader look outdated for ever.
        if epoch > EPOCH_MAX:
            raise UnreachableError(node, f"it names epoch {epoch}, which no quorum reaches")
        self._was_heard = True
        # Every error answer names the epoch and, if known, the leader with its endpoint (KIP-595, KIP-853).
        if message.error in _NOT_THE_LEADER:
            problem = whom_it_names(message.leader_id)
            self._search.redirected(node, epoch, message.listeners.get(_LISTENER), problem)
            return None
        if message.error not in _OF_A_LEADER[type(message)]:
            raise UnreachableError(node, f"it answers Fetch with {error_name(message.error)}")
        if epoch != asked_epoch:
            raise UnreachableError(node, f"it answers for epoch {epoch} a fetch of epoch {asked_epoch}")
        self._search.led(node)
        return message

    def _refused(self, node: Endpoint, code: int) -> None:
        """An error above the partition level: if the topic may be wrong, try the next one.

        Errors: UnreachableError, ForeignClusterError.
        """
        if code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise _foreign(node, self._cluster_id)
        if code != ErrorCode.INVALID_REQUEST:
            raise UnreachableError(node, f"it answers Fetch with {error_name(code)}")
        # INVALID_REQUEST may mean that the node does not have this topic: try the next one.
        self._topics_left -= 1
        names = ", ".join(name for name, _ in self._topics)
        self._topics.append(self._topics.pop(0))
        if not self._topics_left:
            self._topics_left = len(self._topics)
            raise UnreachableError(node, f"it keeps none of the topics {names}")


def _foreign(node: Endpoint, cluster_id: str | None) -> ForeignClusterError:
    return ForeignClusterError(f"{node} belongs to another cluster than {cluster_id}")
