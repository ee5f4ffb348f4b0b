"""Removes the registration of a controller that is gone from a quorum of Kafka's controllers.

A registration is a record of Kafka's application: host, ports and features of a controller. It outlives the voter, and
`kafka-features` then still waits for what the gone controller supports. Our own quorums have no registrations.

Invariant: a controller that leads no more is asked again for its leader, within the time, since the removed voter may
have been the leader.

Source: KIP-1312; Kafka's ``QuorumController.unregisterController``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from pykraft.client.remote.connection import Caller, connect
from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME
from pykraft.errors import ErrorCode, QuorumUnavailableError, RefusedError, UnreachableError, UsageError
from pykraft.protocol.messages import ApiKey
from pykraft.rpc.context import RpcContext
from pykraft.server.binding import Names
from pykraft.types import Endpoint, NodeId

RETRY_PAUSE_S: Final = 0.2
_LEADS_NOT: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER})


async def unregister_controller(
    controller_id: NodeId, find_leader: Callable[[], Awaitable[Endpoint | None]], *, client_id: str, timeout_ms: int
) -> None:
    """Ask the leader, which ``find_leader`` finds if it can, to forget this controller; returns when that is done.

    Errors: RefusedError with the leader's reason, such as CONTROLLER_ID_NOT_REGISTERED, or that the controller is still
    a voter; UsageError when the leader does not offer it; QuorumUnavailableError; those of ``find_leader``.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_ms / 1_000
    context = RpcContext(
        cluster_id=None, topic_name=METADATA_TOPIC_NAME, topic_id=METADATA_TOPIC_ID, default_listener="CONTROLLER"
    )
    caller = Caller(client_id=client_id, context=context, names=Names(loop))
    while True:
        leader = await find_leader()
        problem: RefusedError | QuorumUnavailableError | None = QuorumUnavailableError(
            "the leader's address is unknown"
        )
        if leader is not None:
            problem = await _ask(leader, controller_id, caller, timeout_ms)
        if problem is None:
            return
        if loop.time() >= deadline_s:
            raise problem
        await asyncio.sleep(RETRY_PAUSE_S)


async def _ask(
    leader: Endpoint, controller_id: NodeId, caller: Caller, timeout_ms: int
) -> RefusedError | QuorumUnavailableError | None:
    """None once it is done, or why another leader may do it. Errors: RefusedError, UsageError."""
    try:
        connection = await connect(leader, caller, timeout_ms=timeout_ms)
        try:
            if not connection.offers_key(ApiKey.UNREGISTER_CONTROLLER):
                text = f"{leader} does not offer UnregisterController: only Kafka's controllers do, from 4.4 on"
                raise UsageError(text)
            body = {"controller_id": controller_id}
            answer = await connection.ask_body(ApiKey.UNREGISTER_CONTROLLER, body, timeout_ms=timeout_ms)
        finally:
            await connection.close()
    except UnreachableError as error:
        return QuorumUnavailableError(str(error))
    code = answer["error_code"]
    if not code:
        return None
    refused = RefusedError(f"unregistering controller {controller_id}", code, answer["error_message"])
    if code in _LEADS_NOT:
        return refused
    raise refused
