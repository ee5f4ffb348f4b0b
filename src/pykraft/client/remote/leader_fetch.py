"""Fetches records and snapshots from the leader, for a client without a replica id.

Invariant: a returned answer comes from the leader of the highest known epoch and has no error; for any other answer the
next node is tried. The caller reports whether it could use an answer; an unusable one counts as none. The topic of the
log is found by trial: a node refuses a fetch of a topic that it does not have before it looks at anything else.

Source: KIP-595 §Fetch; Kafka's ``KafkaRaftClient`` as an observer.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from pykraft.client.remote.leader_search import LeaderClient, Patience, whom_it_names
from pykraft.core import messages
from pykraft.errors import ErrorCode, ForeignClusterError, UnreachableError, error_name
from pykraft.rpc.codec import Answer
from pykraft.rpc.context import RpcContext
from pykraft.types import EPOCH_MAX, Buffer, Endpoint, Epoch, Uuid

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
    ) -> None:
        """``topics`` are possible names and ids of the log's topic; without a cluster id any cluster is accepted."""
        super().__init__(bootstrap, client_id=client_id, patience=patience)
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
            raise ForeignClusterError(f"{node} belongs to another cluster than {self._cluster_id}")
        if code != ErrorCode.INVALID_REQUEST:
            raise UnreachableError(node, f"it answers Fetch with {error_name(code)}")
        # INVALID_REQUEST may mean that the node does not have this topic: try the next one.
        self._topics_left -= 1
        names = ", ".join(name for name, _ in self._topics)
        self._topics.append(self._topics.pop(0))
        if not self._topics_left:
            self._topics_left = len(self._topics)
            raise UnreachableError(node, f"it keeps none of the topics {names}")
