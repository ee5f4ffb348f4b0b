"""The leader's side of Forward: appends what other nodes' clients execute, and confirms their reads.

Invariant: NOT_LEADER_OR_FOLLOWER, THROTTLING_QUOTA_EXCEEDED, INCONSISTENT_CLUSTER_ID and INVALID_REQUEST mean that the
records are not in the log and never will be; REQUEST_TIMED_OUT means that they may be. The leader stamps the records
with its own log time, and refuses what its own state machine cannot read: whatever it appends is applied everywhere.

A DIGEST ends a node that differs, and anybody can send one in a voter's name. So the leader asks that voter, where the
log places it, with the same request: a node that gets a DIGEST in its own name answers whether it is its own.

Source: ours (ADR 070, ADR 092, ADR 138), after ADR 050.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pykraft.client.node import Node
from pykraft.errors import (
    BufferFullError,
    ErrorCode,
    NotLeaderError,
    NotRunningError,
    OutcomeUnknownError,
    PykraftError,
)
from pykraft.machine.applier import Applier
from pykraft.machine.records import check_forwarded, forwarded_digest, stamped, unpack_records
from pykraft.protocol.schema import Body
from pykraft.server.clock import now
from pykraft.types import Offset

REQUESTS_MAX: Final = 1_000
"""Requests of other nodes at one time; one more is told to come later."""
ERROR_TEXT_MAX: Final = 1_000
"""Characters of an error in an answer: it may quote the request."""


class ForwardServer:
    """Serves the requests of other nodes on this one."""

    def __init__(
        self,
        node: Node[bytes],
        applier: Applier[Any, Any],
        cluster_id: str,
        confirm: Callable[[int, bytes], Awaitable[None]],
    ) -> None:
        """``confirm`` asks a voter about a DIGEST, see `pykraft.machine.forwarder.Forwarder`."""
        self._confirm = confirm
        self._node = node
        self._applier = applier
        self._cluster_id = cluster_id
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Offer the API from now on."""
        self._node.call_host(lambda host: host.serve_forwards(self._on_request))

    def ended(self) -> None:
        """The node has ended: nobody hears an answer."""
        for task in self._tasks:
            task.cancel()

    def _on_request(self, request: Body, answer: Callable[[Body], None]) -> None:
        """On the node's loop."""
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
        records = unpack_records(bytes(request["records"]))
        if not records:
            offset: Offset = await self._node.ask(lambda host, answer: host.read_index(now(), answer))
            return offset
        digest = forwarded_digest(records)
        if digest is None:
            commands = (command for command in map(check_forwarded, records) if command is not None)
            self._applier.replica.read_ahead(commands)
        elif digest.node_id == self._node.node_id:
            if self._applier.check is None or not self._applier.check.has_found(digest):
                raise PykraftError(f"node {digest.node_id} did not find this at offset {digest.offset}")
            return Offset(digest.offset)
        else:
            known = self._node.leader_and_epoch
            if known.leader_id != self._node.node_id:
                raise NotLeaderError(known.leader_id, known.epoch)
            await self._confirm(digest.node_id, records[0])
        time_ms = self._applier.time_ms()
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
