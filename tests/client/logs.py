"""One log that scripted nodes serve by Fetch; the test decides who leads, what is committed and what goes wrong.

It keeps a list of batches and answers as a leader or a follower would. It does not check the requests: tests read those
from the nodes.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from pykraft.client.remote.leader_search import Patience
from pykraft.config import TEST_TOPIC_ID, TEST_TOPIC_NAME
from pykraft.core.messages import FetchResponse, FetchSnapshotResponse
from pykraft.errors import ErrorCode
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import encode_batch, encode_control_batch, read_header
from pykraft.protocol.schema import Body
from pykraft.rpc import fetch, fetch_snapshot, parts
from pykraft.rpc.context import RpcContext
from pykraft.types import Endpoint, Epoch, LeaderChange, Listeners, NodeId, Offset, OffsetAndEpoch, Uuid
from tests.client.scripted import Answer, ScriptedNode

VERSION = 18
PATIENT = Patience(timeout_ms=10_000, request_timeout_ms=2_000, retry_backoff_ms=5)
HASTY = Patience(timeout_ms=600, request_timeout_ms=500, retry_backoff_ms=5)


class ScriptedLog:
    """Nodes 1 to 3 and what they say of one log."""

    def __init__(self, *, topic_id: Uuid = TEST_TOPIC_ID) -> None:
        self.epoch = Epoch(1)
        self.leader_id: int | None = 2
        self.high_watermark: int | None = 0
        self.log_start_offset = 0
        self.snapshot_id: OffsetAndEpoch | None = None
        """The newest snapshot; `oldest_epoch` is the epoch of the oldest, behind which the log starts."""
        self.oldest_epoch = Epoch(0)
        self.snapshot = b""
        self.batches: list[bytes] = []
        self.answer: Callable[[int, Body], Answer] = self.serve
        """Answers a fetch of a node; a test may put its own in front."""
        self.answer_slice: Callable[[int, Body], Answer] = self.serve_slice
        self._context = RpcContext(
            cluster_id=None, topic_name=TEST_TOPIC_NAME, topic_id=topic_id, default_listener="CONTROLLER"
        )
        self.nodes = {i: ScriptedNode(self._scripts(i)) for i in (1, 2, 3)}

    def _scripts(self, node_id: int) -> dict[ApiKey, Callable[[Body], Answer]]:
        return {
            ApiKey.FETCH: lambda body: self.answer(node_id, body),
            ApiKey.FETCH_SNAPSHOT: lambda body: self.answer_slice(node_id, body),
        }

    @property
    def leader(self) -> ScriptedNode:
        assert self.leader_id is not None
        return self.nodes[self.leader_id]

    @property
    def bootstrap(self) -> list[Endpoint]:
        return [node.endpoint for node in self.nodes.values()]

    @property
    def end_offset(self) -> Offset:
        return read_header(self.batches[-1]).end_offset if self.batches else Offset(self.log_start_offset)

    def clean(self, snapshot_id: OffsetAndEpoch, snapshot: bytes) -> None:
        """The log begins behind this snapshot, which ends where it ends now or before."""
        self.snapshot_id, self.oldest_epoch, self.snapshot = snapshot_id, snapshot_id.epoch, snapshot
        self.log_start_offset = snapshot_id.offset
        self.batches = [batch for batch in self.batches if read_header(batch).end_offset > snapshot_id.offset]

    def append(self, *values: bytes, is_committed: bool = True) -> None:
        """One batch of the present epoch at the end."""
        self.batches.append(
            encode_batch(values, base_offset=self.end_offset, epoch=self.epoch, timestamp_ms=1_000).data
        )
        if is_committed:
            self.high_watermark = self.end_offset

    def append_leader_change(self) -> None:
        """The control batch that opens an epoch, committed."""
        record = LeaderChange(leader_id=NodeId(2), voters=(NodeId(1), NodeId(2)), granting_voters=(NodeId(2),))
        batch = encode_control_batch([record], base_offset=self.end_offset, epoch=self.epoch, timestamp_ms=900).data
        self.batches.append(batch)
        self.high_watermark = self.end_offset

    def lead(self, leader_id: int | None) -> None:
        """The next epoch begins."""
        self.epoch = Epoch(self.epoch + 1)
        self.leader_id = leader_id

    def serve(self, node_id: int, body: Body) -> Answer:
        """What a correct node answers."""
        if body["topics"][0]["topic_id"] != self._context.topic_id:
            return {"error_code": ErrorCode.INVALID_REQUEST}
        [asked] = body["topics"][0]["partitions"]
        error = self._error(node_id, asked["current_leader_epoch"])
        offset, epoch = asked["fetch_offset"], asked["last_fetched_epoch"]
        is_snapshot = not error and self._is_snapshot_due(offset, epoch)
        diverging = None if error or is_snapshot else self._diverging(offset, epoch)
        has_records = not error and diverging is None and not is_snapshot
        records = b"".join(batch for batch in self.batches if read_header(batch).end_offset > offset)
        return self.body(
            error=error,
            diverging=diverging,
            snapshot_id=self.snapshot_id if is_snapshot else None,
            records=records[: body["max_bytes"]] if has_records else b"",
        )

    def body(
        self,
        *,
        error: int = 0,
        diverging: OffsetAndEpoch | None = None,
        snapshot_id: OffsetAndEpoch | None = None,
        records: bytes = b"",
        epoch: int | None = None,
    ) -> Body:
        """An answer about the log as it is now."""
        leader_id = None if self.leader_id is None else NodeId(self.leader_id)
        listeners = Listeners() if leader_id is None else Listeners((("ANY", self.nodes[leader_id].endpoint),))
        message = FetchResponse(
            error=error,
            epoch=self.epoch if epoch is None else Epoch(epoch),
            leader_id=leader_id,
            high_watermark=None if error or self.high_watermark is None else Offset(self.high_watermark),
            log_start_offset=Offset(self.log_start_offset),
            diverging=diverging,
            snapshot_id=snapshot_id,
            listeners=listeners,
        )
        body = fetch.response_to_wire(message, VERSION, self._context)
        fetch.put_records(body, records)
        return body

    def serve_slice(self, node_id: int, body: Body) -> Answer:
        """What a correct node answers to FetchSnapshot."""
        [asked] = body["topics"][0]["partitions"]
        error = self._error(node_id, asked["current_leader_epoch"])
        if not error and parts.snapshot_id_of(asked["snapshot_id"]) != self.snapshot_id:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        return self.slice(asked["position"], body["max_bytes"], error=error)

    def slice(self, position: int, size_bytes: int, *, error: int = 0) -> Body:
        """An answer with these bytes of the snapshot."""
        assert self.snapshot_id is not None
        message = FetchSnapshotResponse(
            error=error,
            epoch=self.epoch,
            leader_id=None if self.leader_id is None else NodeId(self.leader_id),
            snapshot_id=self.snapshot_id,
            size_bytes=len(self.snapshot),
            position=position,
        )
        body = fetch_snapshot.response_to_wire(message, 1, self._context)
        fetch_snapshot.put_records(body, b"" if error else self.snapshot[position : position + size_bytes])
        return body

    def _is_snapshot_due(self, offset: int, epoch: int) -> bool:
        start = self.log_start_offset
        is_before = offset < start or epoch < self.oldest_epoch or (offset == start and epoch != self.oldest_epoch)
        return self.snapshot_id is not None and (offset == 0 or is_before)

    def _error(self, node_id: int, epoch: int) -> int:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if node_id == self.leader_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _diverging(self, offset: int, epoch: int) -> OffsetAndEpoch | None:
        """Where this log parts from one that ends there; None when it does not."""
        if offset == 0 or (offset, epoch) == (self.log_start_offset, self.oldest_epoch):
            return None
        headers = [read_header(batch) for batch in self.batches]
        end = max((header.end_offset for header in headers if header.epoch <= epoch), default=0)
        if epoch >= self.epoch:
            end = self.end_offset
        known = max((header.epoch for header in headers if header.epoch <= epoch), default=0)
        known = self.epoch if epoch >= self.epoch else known
        return None if known == epoch and end >= offset else OffsetAndEpoch(Offset(end), Epoch(known))


@asynccontextmanager
async def served_log(**options: Uuid) -> AsyncIterator[ScriptedLog]:
    """Three nodes that serve one log."""
    log = ScriptedLog(**options)
    async with AsyncExitStack() as stack:
        for node in log.nodes.values():
            await stack.enter_async_context(node)
        yield log
