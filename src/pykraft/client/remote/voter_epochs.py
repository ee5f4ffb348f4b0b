"""Which epoch each voter is in: whoever is above 0 has taken part in a quorum, and may hold its records.

For a caller who must know that before there is a leader, or without disturbing one. Invariant: asking changes nothing,
and takes at most twice VOTER_TIMEOUT_MS for all voters together.

Source: ours (ADR 128); KIP-595 §Fetch (every replica answers with its epoch).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pykraft.client.remote.connection import Caller, connect
from pykraft.client.remote.voter_problem import VOTER_TIMEOUT_MS
from pykraft.core.messages import FetchRequest, FetchResponse
from pykraft.errors import UnreachableError
from pykraft.rpc.context import RpcContext
from pykraft.server.binding import Names
from pykraft.types import EPOCH_ZERO, Endpoint, Epoch, NodeId, Offset

# Without an id it acknowledges nothing; at epoch 0 only a new voter has nothing to object.
_QUESTION = FetchRequest(
    replica=None,
    epoch=EPOCH_ZERO,
    fetch_offset=Offset(0),
    last_fetched_epoch=EPOCH_ZERO,
    wait_ms_max=0,
    size_bytes_max=0,
    high_watermark=-1,
)


async def epochs_of(voters: Mapping[NodeId, Endpoint], context: RpcContext) -> dict[NodeId, Epoch | UnreachableError]:
    """The epoch of each voter, or why it could not be asked."""
    caller = Caller(client_id="pykraft-epochs", context=context, names=Names(asyncio.get_running_loop()))
    return dict(zip(voters, await asyncio.gather(*(_epoch_at(each, caller) for each in voters.values())), strict=True))


async def _epoch_at(endpoint: Endpoint, caller: Caller) -> Epoch | UnreachableError:
    try:
        connection = await connect(endpoint, caller, timeout_ms=VOTER_TIMEOUT_MS)
        try:
            message = (await connection.ask(_QUESTION, caller.context, timeout_ms=VOTER_TIMEOUT_MS)).message
        finally:
            await connection.close()
    except UnreachableError as error:
        return error
    if isinstance(message, FetchResponse):
        return message.epoch
    return UnreachableError(endpoint, "it belongs to another cluster, or keeps another log")
