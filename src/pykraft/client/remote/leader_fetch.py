"""Fetches records and snapshots from the leader, for a client without a replica id.

This module owns one connection, to the node that probably leads, and the time limit for finding a useful answer.
Invariant: a returned answer comes from the leader of the highest known epoch and has no error. For any other answer the
next node is tried, with a pause after the first few tries, until the time is over. The caller reports whether it could
use an answer; an unusable one counts as no answer.

The topic of the log is found by trial: a node refuses a fetch of a topic that it does not have before it looks at
anything else in the request.

Source: KIP-595 §Fetch; Kafka's ``KafkaRaftClient`` as an observer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from pykraft.client.remote.connection import Caller, Connection, connect
from pykraft.client.remote.leader_search import LeaderSearch, OnWaiting, do_not_tell
from pykraft.client.remote.no_leader import voters_at, whom_it_names
from pykraft.core.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    TopLevelError,
)
from pykraft.errors import ErrorCode, ForeignClusterError, UnreachableError, error_name
from pykraft.rpc.codec import Answer
from pykraft.rpc.context import RpcContext
from pykraft.server.binding import Names
from pykraft.types import EPOCH_MAX, Buffer, Endpoint, Epoch, Uuid

TRIES_WITHOUT_PAUSE: Final = 2
_LISTENER: Final = "LEADER"
_OF_A_LEADER: Final = {
    FetchResponse: frozenset({ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}),
    FetchSnapshotResponse: frozenset({ErrorCode.NONE, ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE}),
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


_Request: TypeAlias = FetchRequest | FetchSnapshotRequest
_Response: TypeAlias = FetchResponse | FetchSnapshotResponse
R = TypeVar("R", FetchResponse, FetchSnapshotResponse)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a client keeps trying without a useful answer, in ms, and whom it tells meanwhile."""

    timeout_ms: int = 15_000
    request_timeout_ms: int = 5_000
    """For connecting, for negotiating, and for an answer, in addition to the time that a fetch may wait for records."""
    retry_backoff_ms: int = 50
    on_waiting: OnWaiting = do_not_tell
    """Called while no leader is found, and with None when that is over."""


PATIENCE: Final = Patience()


class LeaderFetch:
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
        self._search = LeaderSearch(bootstrap)
        self._topics = list(topics)
        self._topics_left = len(topics)
        self._cluster_id = cluster_id
        self._client_id = client_id
        self._patience = patience
        self._names: Names | None = None
        self._connection: Connection | None = None
        self._trouble_since_s: float | None = None
        self._tries = 0
        self._was_heard = False

    async def close(self) -> None:
        """Close the connection; nothing is waited for any more."""
        self._patience.on_waiting(None)
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    @property
    def topic_name(self) -> str:
        """The topic that is tried now; once a node has answered, that of the log."""
        return self._topics[0][0]

    async def ask(self, request_in: Callable[[Epoch], FetchRequest]) -> tuple[FetchResponse, Buffer]:
        """The leader's answer, with no error or OFFSET_OUT_OF_RANGE, and its records.

        ``request_in`` makes the request for an epoch.

        Errors: QuorumUnavailableError when no node was of use within the time; ForeignClusterError.
        """
        loop = asyncio.get_running_loop()
        if self._trouble_since_s is None:
            self._trouble_since_s = loop.time()
        while True:
            if self._tries and loop.time() >= self._trouble_since_s + self._patience.timeout_ms / 1_000:
                self._trouble_since_s = None
                raise self._search.asked.unavailable(self._patience.timeout_ms)
            if self._tries > TRIES_WITHOUT_PAUSE:
                self._patience.on_waiting(self._search.asked.story)
                await self.pause()
            self._tries += 1
            found = await self._try(request_in, FetchResponse)
            if found is not None:
                return found

    async def ask_for_snapshot(
        self, request_in: Callable[[Epoch], FetchSnapshotRequest]
    ) -> tuple[FetchSnapshotResponse, Buffer] | None:
        """The leader's answer and bytes; None when it did not answer, or no longer leads.

        This tries only once: the next fetch of records finds the leader, and its snapshot, anew. Kafka does not answer
        when the snapshot is gone.

        Errors: as `ask`.
        """
        return await self._try(request_in, FetchSnapshotResponse)

    @property
    def epoch(self) -> Epoch:
        """The highest known epoch."""
        return self._search.epoch

    @property
    def story(self) -> str:
        """What was wrong with each node since the last answer of a leader."""
        return self._search.asked.story

    def accept(self) -> None:
        """The last answer was useful: reset the time limit and the tries."""
        if self._tries > TRIES_WITHOUT_PAUSE:
            self._patience.on_waiting(None)
        self._trouble_since_s = None
        self._tries = 0

    def reject(self, problem: str) -> None:
        """The last answer was not usable; another node may do better, or the same one later."""
        self._search.failed(self._search.whom, problem)

    async def pause(self) -> None:
        """Wait briefly, so that nodes do not get a storm of requests."""
        await asyncio.sleep(self._patience.retry_backoff_ms / 1_000)

    async def _try(self, request_in: Callable[[Epoch], _Request], kind: type[R]) -> tuple[R, Buffer] | None:
        """Try the next node once; None when its answer was of no use. Errors: as `ask`."""
        node = self._search.whom
        try:
            request = request_in(self._search.epoch)
            answer = await self._exchange(node, request)
            message = self._judge(node, answer, request.epoch)
            # Only in trouble: a first redirect names the leader, and who the voters are does not matter then.
            if message is None and self._connection is not None and self._tries > TRIES_WITHOUT_PAUSE:
                timeout_ms = self._patience.request_timeout_ms
                self._search.told(node, *await voters_at(self._connection, timeout_ms=timeout_ms))
        except UnreachableError as error:
            self._search.failed(node, error.problem)
            if self._search.is_nobody_there and not self._was_heard:
                # No node has ever answered: fail at once instead of waiting for an election.
                raise self._search.asked.silent() from None
            return None
        if message is None:
            return None
        assert isinstance(message, kind), "a response has the type of its request"
        return message, answer.records

    def _judge(self, node: Endpoint, answer: Answer, asked_epoch: Epoch) -> _Response | None:
        """The answer if it is a leader's; None when the node does not lead, after noting what it knows.

        Errors: UnreachableError for an unusable answer, ForeignClusterError.
        """
        message = answer.message
        if isinstance(message, TopLevelError):
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

    async def _exchange(self, node: Endpoint, request: _Request) -> Answer:
        """Send one request to this node, over the open connection if it goes to that node. Errors: UnreachableError."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.endpoint != node:
            await connection.close()
            connection = None
        caller = self._caller()
        timeout_ms = self._patience.request_timeout_ms
        if connection is None:
            connection = await connect(node, caller, timeout_ms=timeout_ms)
        wait_ms = request.wait_ms_max if isinstance(request, FetchRequest) else 0
        answer = await connection.ask(request, caller.context, timeout_ms=wait_ms + timeout_ms)
        self._connection = connection
        return answer

    def _caller(self) -> Caller:
        """The caller for the topic that is tried now."""
        if self._names is None:
            self._names = Names(asyncio.get_running_loop())
        name, topic_id = self._topics[0]
        context = RpcContext(
            cluster_id=self._cluster_id, topic_name=name, topic_id=topic_id, default_listener=_LISTENER
        )
        resolved = self._search.asked.resolved
        return Caller(client_id=self._client_id, context=context, names=self._names, resolved=resolved)
