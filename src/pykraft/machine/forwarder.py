"""Forward: a follower passes records and reads on to the leader that it knows, and the leader appends them.

A few requests with records may be under way, each on a connection of its own; who has more waits for one, and gathers
records meanwhile. Reads have another one, so that a read does not wait for a commit, and digests one more. Invariant:
OutcomeUnknownError is raised whenever a request with records left and no answer decides what became of them; after any
other error they are not in the log and never will be. Of the leader's codes REQUEST_TIMED_OUT alone leaves that open.

The leader stamps the records with its own log time, and refuses what its own state machine cannot read: whatever it
appends is applied everywhere. A DIGEST ends a node that differs, and anybody can send one in a voter's name. So the
leader asks that voter, where the log places it, with the same request: a node that gets a DIGEST in its own name
answers whether it is its own. In the same way it asks each voter for the version of its code.

Reads are linearizable: one begins only when this node has applied everything that was committed when it arrived. All
that wait share one confirmation of the leader, which begins after they arrived; one that may be out of date by a
certain age uses the last confirmation that began within that time.

Source: Raft dissertation §6.4; ours (ADR 069, ADR 070, ADR 092, ADR 138), after ADR 050.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, TypeAlias

from pykraft.client.node import Node
from pykraft.client.remote.connection import Connection
from pykraft.errors import (
    BufferFullError,
    ErrorCode,
    NotLeaderError,
    NotRunningError,
    OutcomeUnknownError,
    PykraftError,
    QuorumUnavailableError,
    RefusedError,
    UnreachableError,
)
from pykraft.machine.applier import Applier
from pykraft.machine.records import (
    DigestRecord,
    SkipRecord,
    VersionRecord,
    check_forwarded,
    forwarded_alone,
    pack_records,
    stamped,
    unpack_records,
)
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.server.clock import now
from pykraft.types import Endpoint, Epoch, Offset

ConnectForward: TypeAlias = Callable[[Endpoint, int], Awaitable[Connection]]
"""Connects to an endpoint within a timeout in ms. Errors: UnreachableError."""
BATCH_SIZE_BYTES_MAX: Final = 61_000
"""Bytes of records that are gathered into one request; a larger command is alone in one."""
RECORD_OVERHEAD_BYTES: Final = 4
"""Most bytes that a request adds to a record."""
TIMEOUT_MS: Final = 5_000
"""How long one request may take; a leader that cannot commit steps down before."""
APPENDS_MAX: Final = 4
"""Requests with records that are under way at one time: what comes meanwhile waits for the first answer."""
UNSUPPORTED_MAX: Final = 3
"""So often in a row the leader must lack the API before that is an error: it may only be starting."""


class ForwardConnection:
    """A connection to the leader, for one request at a time."""

    def __init__(self, node: Node[bytes], cluster_id: str, connect: ConnectForward) -> None:
        self._node = node
        self._cluster_id = cluster_id
        self._connect = connect
        self._connection: Connection | None = None
        self._unsupported = 0

    async def ask(self, records: Sequence[bytes]) -> Offset:
        """Forward these records, or a read; returns the offset.

        Errors: NotLeaderError, BufferFullError, UnreachableError, RefusedError, NotRunningError; OutcomeUnknownError.
        """
        answer = await self._answered(self._leader(), records)
        offset = self._judge(answer)
        # The callers get their answers when this node applies the records, and a leader may tell its followers for some
        # milliseconds nothing of a commit (ADR 059).
        epoch, end_offset = Epoch(answer["leader_epoch"]), Offset(offset + len(records))
        self._node.call_host(lambda host: host.note_commit(epoch, end_offset, now()))
        return offset

    async def confirm(self, voter_id: int, question: bytes) -> Offset:
        """Ask a voter, where the log places it, whether this DIGEST in its name is its own, or what VERSION it has.

        Errors: those of `ask`, also when it is not.
        """
        endpoint = self._node.voter_node(voter_id)
        if endpoint is None:
            raise RefusedError("the question", ErrorCode.INVALID_REQUEST, f"node {voter_id} is no voter")
        return self._judge(await self._answered(endpoint, (question,)))

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _answered(self, endpoint: Endpoint, records: Sequence[bytes]) -> Body:
        connection = await self._connected(endpoint)
        body = {"cluster_id": self._cluster_id, "records": pack_records(records)}
        self._connection = None
        try:
            answer = await connection.ask_body(ApiKey.FORWARD, body, timeout_ms=TIMEOUT_MS)
        except UnreachableError as error:
            if not records:
                raise
            raise OutcomeUnknownError(f"{error}: the leader may have appended it, or not") from error
        except BaseException:
            # Cancelled: the answer may still arrive, so nobody may use this connection again.
            await connection.close()
            raise
        self._connection = connection
        return answer

    def _leader(self) -> Endpoint:
        known = self._node.leader_and_epoch
        endpoint = None if known.leader_id is None else self._node.voter_node(known.leader_id)
        if endpoint is None:
            raise NotLeaderError(known.leader_id, known.epoch)
        return endpoint

    def _judge(self, answer: Body) -> Offset:
        code, text = answer["error_code"], answer["error_message"]
        if code == ErrorCode.NONE:
            return Offset(answer["offset"])
        if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise NotLeaderError(None if answer["leader_id"] < 0 else answer["leader_id"], answer["leader_epoch"])
        if code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            raise BufferFullError(f"the leader: {text}")
        if code == ErrorCode.REQUEST_TIMED_OUT:
            raise OutcomeUnknownError(f"the leader: {text}")
        raise RefusedError("the forwarded request", code, text)

    async def _connected(self, leader: Endpoint) -> Connection:
        """The open connection if it goes to the leader, or a new one. Errors: UnreachableError, RefusedError."""
        connection, self._connection = self._connection, None
        if connection is not None and (connection.endpoint != leader or not connection.is_open):
            await connection.close()
            connection = None
        if connection is None:
            connection = await self._connect(leader, TIMEOUT_MS)
        if connection.offers_key(ApiKey.FORWARD):
            self._unsupported = 0
            return connection
        await connection.close()
        self._unsupported += 1
        text = f"{leader} leads, and takes no commands of other nodes: it runs Kafka, or does not run pykraft.machine"
        if self._unsupported < UNSUPPORTED_MAX:
            raise UnreachableError(leader, text)
        raise RefusedError("the forwarded request", ErrorCode.UNSUPPORTED_VERSION, text)


class Forwarder:
    """Passes what callers of this node execute on to the leader."""

    def __init__(self, node: Node[bytes], cluster_id: str, connect: ConnectForward) -> None:
        self._node = node
        self._appends = [ForwardConnection(node, cluster_id, connect) for _ in range(APPENDS_MAX)]
        self._idle = [*reversed(self._appends)]
        """Those without a request; the last one was used last, and is used next."""
        self._reads = ForwardConnection(node, cluster_id, connect)
        self._digests = ForwardConnection(node, cluster_id, connect)
        self._asked: set[int] = set()
        """Voters that are asked whether a digest is theirs, or for their version."""
        self._cluster_id, self._connect = cluster_id, connect
        self._turns = asyncio.Semaphore(APPENDS_MAX)

    @property
    def is_needed(self) -> bool:
        """True when another node leads."""
        leader_id = self._node.leader_and_epoch.leader_id
        return leader_id is not None and leader_id != self._node.node_id

    def turn(self) -> AbstractAsyncContextManager[object]:
        """Where another node leads, a request may leave within this: what gathers meanwhile shares one."""
        return self._turns if self.is_needed else nullcontext()

    async def append(self, records: Sequence[bytes]) -> Offset:
        """Forward these records, which fit into one request, within a `turn`; returns their offset once committed.

        Errors: see `ForwardConnection.ask`.
        """
        connection = self._idle.pop()
        try:
            return await connection.ask(records)
        finally:
            self._idle.append(connection)

    async def read_index(self) -> Offset:
        """Ask the leader to confirm a read. Errors: see `ForwardConnection.ask`."""
        return await self._reads.ask(())

    async def forward_digest(self, digest: bytes) -> None:
        """Forward a DIGEST, which shares no request: the leader may refuse it. Errors: see `ForwardConnection.ask`."""
        await self._digests.ask((digest,))

    async def confirm(self, voter_id: int, question: bytes) -> Offset:
        """Ask a voter whether this DIGEST is its own, or what VERSION it has; each has one question at a time.

        Errors: see `ForwardConnection.confirm`; BufferFullError while another one is asked.
        """
        if voter_id in self._asked:
            raise BufferFullError(f"node {voter_id} is being asked something else")
        connection = ForwardConnection(self._node, self._cluster_id, self._connect)
        self._asked.add(voter_id)
        try:
            return await connection.confirm(voter_id, question)
        finally:
            self._asked.discard(voter_id)
            await connection.close()

    async def close(self) -> None:
        """The node has ended, and so have the calls of `append`."""
        for connection in self._appends:
            await connection.close()
        await self._reads.close()
        await self._digests.close()


REQUESTS_MAX: Final = 1_000
"""Requests of other nodes at one time; one more is told to come later."""
REQUESTS_SIZE_BYTES_MAX: Final = 1 << 25
"""The same in bytes of their records."""
ERROR_TEXT_MAX: Final = 1_000
"""Characters of an error in an answer: it may quote the request."""


class ForwardServer:
    """Serves the requests of other nodes on this one."""

    def __init__(
        self,
        node: Node[bytes],
        applier: Applier[Any, Any],
        cluster_id: str,
        confirm: Callable[[int, bytes], Awaitable[object]],
    ) -> None:
        """``confirm`` asks a voter about a DIGEST, see `pykraft.machine.forwarder.Forwarder`."""
        self._confirm = confirm
        self._node = node
        self._applier = applier
        self._cluster_id = cluster_id
        self._tasks: set[asyncio.Task[None]] = set()
        self._size_bytes = 0
        """Of the records in requests that are under way."""

    def start(self) -> None:
        """Offer the API from now on."""
        self._node.call_host(lambda host: host.serve_forwards(self._on_request))

    def ended(self) -> None:
        """The node has ended: nobody hears an answer."""
        for task in self._tasks:
            task.cancel()

    def _on_request(self, request: Body, answer: Callable[[Body], None]) -> None:
        self._node.loops.to_application(self._begin, request, answer)

    def _begin(self, request: Body, answer: Callable[[Body], None]) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(request, answer), name="pykraft forwarded")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, request: Body, answer: Callable[[Body], None]) -> None:
        try:
            body = self._answer(offset=await self._act(request))
        except NotLeaderError as error:
            body = self._answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error))
        except BufferFullError as error:
            body = self._answer(ErrorCode.THROTTLING_QUOTA_EXCEEDED, str(error))
        except OutcomeUnknownError as error:
            body = self._answer(ErrorCode.REQUEST_TIMED_OUT, str(error))
        except NotRunningError:
            return  # the connection ends, too
        except PykraftError as error:
            body = self._answer(ErrorCode.INVALID_REQUEST, str(error))
        self._node.call_host(lambda _: answer(body))

    async def _act(self, request: Body) -> Offset:
        if request["cluster_id"] != self._cluster_id:
            raise PykraftError(f"this node is of cluster {self._cluster_id}, the request of {request['cluster_id']}")
        if len(self._tasks) > REQUESTS_MAX:
            raise BufferFullError(f"{REQUESTS_MAX} requests of other nodes are under way")
        data = bytes(request["records"])
        if self._size_bytes + len(data) > REQUESTS_SIZE_BYTES_MAX:
            raise BufferFullError(f"requests of other nodes with {self._size_bytes} bytes are under way")
        self._size_bytes += len(data)
        try:
            return await self._act_on(unpack_records(data))
        finally:
            self._size_bytes -= len(data)

    async def _act_on(self, records: Sequence[bytes]) -> Offset:
        if not records:
            offset: Offset = await self._node.ask(lambda host, answer: host.read_index(now(), answer))
            return offset
        alone = forwarded_alone(records)
        known = self._node.leader_and_epoch
        if isinstance(alone, VersionRecord):
            if alone.version != self._node.node_id:
                raise PykraftError(f"this node is {self._node.node_id}, not {alone.version}")
            return Offset(self._applier.replica.machine.code_version)
        if alone is None:
            commands = (command for command in map(check_forwarded, records) if command is not None)
            self._applier.replica.read_ahead(commands)
        elif isinstance(alone, DigestRecord) and alone.node_id == self._node.node_id:
            if self._applier.check is None or not self._applier.check.has_found(alone):
                raise PykraftError(f"node {alone.node_id} did not find this at offset {alone.offset}")
            return Offset(alone.offset)
        elif known.leader_id != self._node.node_id:
            raise NotLeaderError(known.leader_id, known.epoch)
        elif isinstance(alone, DigestRecord):
            await self._confirm(alone.node_id, records[0])
        elif self._applier.held_at != alone.offset:
            raise PykraftError(
                f"the leader's machine does not stand before offset {alone.offset}, so nothing is skipped"
            )
        # A skip must come before what it skips can be applied.
        time_ms = self._applier.time_ms() if isinstance(alone, SkipRecord) else self._applier.leader_time_ms()
        committed = await self._node.propose([stamped(record, time_ms) for record in records])
        return committed.base_offset

    def _answer(self, error: ErrorCode = ErrorCode.NONE, text: str | None = None, *, offset: int = -1) -> Body:
        known = self._node.leader_and_epoch
        return {
            "error_code": int(error),
            "error_message": None if text is None else text[:ERROR_TEXT_MAX],
            "leader_id": -1 if known.leader_id is None else known.leader_id,
            "leader_epoch": known.epoch,
            "offset": offset,
        }


PAUSE_S_MIN: Final = 0.01
PAUSE_S_MAX: Final = 0.25
"""Pauses between two tries of a confirmation; each is twice as long as the one before."""


class MachineReads:
    """The reads of one node."""

    def __init__(self, node: Node[bytes], applier: Applier[Any, Any], forwarder: Forwarder) -> None:
        self._node = node
        self._forwarder = forwarder
        self._applier = applier
        self._waiting: list[asyncio.Future[Offset]] = []
        """Those that share the next confirmation."""
        self._serving: list[asyncio.Future[Offset]] = []
        self._task: asyncio.Task[None] | None = None
        applier.committed = self._ask
        self._confirmed: tuple[float, Offset] | None = None
        """When the last confirmation began, and its offset."""
        self._error: Exception | None = None

    async def wait(self, max_age_ms: int, timeout_ms: int) -> None:
        """Wait until this node may be read. Errors: QuorumUnavailableError, NotRunningError, RefusedError."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                offset = self._fresh(max_age_ms)
                if offset is None:
                    offset = await self._join()
                await self._node.wait_applied(self._applier, offset)
        except TimeoutError:
            last = "" if self._error is None else f" (the last try: {self._error})"
            text = f"no leader confirmed within {timeout_ms} ms that this node's state is current{last}"
            raise QuorumUnavailableError(text) from self._error

    async def wait_loaded(self, timeout_ms: int) -> None:
        """Wait while this node loads a snapshot. Errors: QuorumUnavailableError, NotRunningError."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                while (offset := self._applier.loading_offset) is not None:
                    await self._node.wait_applied(self._applier, offset)
        except TimeoutError:
            raise QuorumUnavailableError(f"this node has loaded a snapshot for {timeout_ms} ms, and goes on") from None

    async def close(self) -> None:
        """The node has ended: no read begins any more."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(NotRunningError("the node has ended"))

    def _fresh(self, max_age_ms: int) -> Offset | None:
        if self._confirmed is None:
            return None
        begun_s, offset = self._confirmed
        return offset if (asyncio.get_running_loop().time() - begun_s) * 1_000 < max_age_ms else None

    def _join(self) -> asyncio.Future[Offset]:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Offset] = loop.create_future()
        self._waiting.append(waiter)
        if self._task is None:
            self._task = loop.create_task(self._confirm(), name="pykraft read index")
        return waiter

    async def _confirm(self) -> None:
        try:
            while self._waiting:
                self._serving, self._waiting = self._waiting, []
                begun_s = asyncio.get_running_loop().time()
                offset = await self._offset()
                if offset is not None:
                    self._confirmed = begun_s, offset
                    for waiter in self._serving:
                        if not waiter.done():
                            waiter.set_result(offset)
        except PykraftError as error:
            for waiter in (*self._serving, *self._waiting):
                if not waiter.done():
                    waiter.set_exception(error)
            self._waiting = []
        except asyncio.CancelledError:
            for waiter in self._serving:
                if not waiter.done():
                    waiter.set_exception(NotRunningError("the node has ended"))
            raise
        finally:
            self._serving = []
            self._task = None

    async def _offset(self) -> Offset | None:
        """The confirmed offset; None when nobody waits for it any more. Errors: NotRunningError."""
        pause_s = PAUSE_S_MIN
        while not all(waiter.done() for waiter in self._serving):
            try:
                offset = await self._ask()
            except (NotLeaderError, BufferFullError, UnreachableError) as error:
                self._error = error
            else:
                self._error = None
                return offset
            await asyncio.sleep(pause_s)
            pause_s = min(PAUSE_S_MAX, pause_s * 2)
        return None

    async def _ask(self) -> Offset:
        """Ask the leader, which may be this node. Errors: see `pykraft.machine.forwarder.ForwardConnection.ask`."""
        if self._forwarder.is_needed:
            return await self._forwarder.read_index()
        return await self._node.ask(lambda host, answer: host.read_index(now(), answer))
