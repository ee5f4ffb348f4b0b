"""Whoever is asked for its epoch answers with it; who cannot be asked, or keeps another log, is an error."""

from __future__ import annotations

from contextlib import AsyncExitStack

from pykraft.client.remote.voter_epochs import epochs_of
from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME
from pykraft.errors import ErrorCode, UnreachableError
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.context import RpcContext
from pykraft.types import Endpoint, NodeId, Uuid
from tests.client.scripted import ScriptedNode, run

CONTEXT = RpcContext(
    cluster_id=None, topic_name=METADATA_TOPIC_NAME, topic_id=Uuid(METADATA_TOPIC_ID), default_listener="CONTROLLER"
)


def fenced(epoch: int) -> Body:
    part = {
        "partition_index": 0,
        "error_code": ErrorCode.FENCED_LEADER_EPOCH,
        "high_watermark": -1,
        "records": None,
        "current_leader": {"leader_id": 2, "leader_epoch": epoch},
    }
    return {"responses": [{"topic_id": METADATA_TOPIC_ID, "partitions": [part]}]}


def test_each_voter_tells_its_epoch_or_why_not() -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            [dead] = free_ports(1)
            old = await stack.enter_async_context(ScriptedNode({ApiKey.FETCH: lambda _: fenced(5)}))
            refused: Body = {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID, "responses": []}
            other = await stack.enter_async_context(ScriptedNode({ApiKey.FETCH: lambda _: refused}))
            voters = {1: old.endpoint, 2: other.endpoint, 3: Endpoint(HOST, dead)}
            told = await epochs_of({NodeId(id_): each for id_, each in voters.items()}, CONTEXT)
            assert told[NodeId(1)] == 5
            assert "another cluster" in str(told[NodeId(2)])
            assert isinstance(told[NodeId(3)], UnreachableError)

    run(main)
