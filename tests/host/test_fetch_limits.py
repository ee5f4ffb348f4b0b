"""The size of one Fetch answer: what the request allows, at least one batch, and whole batches only.

Source: KIP-74 (the first batch comes whole); KIP-595 §Fetch.
"""

from __future__ import annotations

import pytest

from pykraft.core.messages import FetchRequest, FetchResponse
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import ApiKey
from pykraft.protocol.batch import scan
from pykraft.rpc import codec
from pykraft.types import Epoch, Offset
from tests.host.cluster import Cluster, Machine
from tests.host.fakes import CONTEXT, LISTENER

CLIENT = ConnectionId(500)
FETCH_VERSION = 17
FIRST_OFFSET = 1
"""Of the batches that are asked for; the leader's own is before them."""


def leader_of_three_batches(*, in_files: bool) -> tuple[Cluster, Machine, int]:
    """A lonely leader with three batches of the same size, and that size."""
    cluster = Cluster(voters=1)
    machine = cluster[1]
    for _ in range(3):
        machine.propose(bytes(200))
        machine.flush()
    if in_files:
        machine.leave()
        machine.start()
        machine.flush()
    sizes = [header.size_bytes for _, header in scan(machine.log_bytes())]
    assert sizes[1] == sizes[2] == sizes[3]
    return cluster, machine, sizes[1]


def fetched(cluster: Cluster, machine: Machine, size_bytes_max: int) -> bytes:
    """The records of the answer to an observer's Fetch."""
    request = FetchRequest(
        replica=None,
        epoch=machine.running.status.epoch,
        fetch_offset=Offset(FIRST_OFFSET),
        last_fetched_epoch=Epoch(1),
        wait_ms_max=0,
        size_bytes_max=size_bytes_max,
        high_watermark=None,
    )
    frame = b"".join(codec.encode_request(request, FETCH_VERSION, 7, "a-client", CONTEXT))
    machine.running.on_accepted(CLIENT, LISTENER, cluster.now)
    machine.running.on_frame(CLIENT, frame, cluster.now)
    cluster.settle()
    answer = codec.decode_answer(ApiKey.FETCH, FETCH_VERSION, machine.sent[-1][1], CONTEXT)
    assert isinstance(answer.message, FetchResponse)
    assert answer.message.error == 0
    return bytes(answer.records)


@pytest.mark.conformance(143)
@pytest.mark.parametrize("in_files", [False, True])
@pytest.mark.parametrize(
    ("times", "less", "count"), [(0, -1, 1), (1, 0, 1), (1, 1, 1), (2, 0, 2), (2, 1, 1), (3, 1, 2), (3, 0, 3)]
)
def test_the_requests_limit_holds_but_for_the_first_batch(times: int, less: int, count: int, *, in_files: bool) -> None:
    cluster, machine, size_bytes = leader_of_three_batches(in_files=in_files)
    records = fetched(cluster, machine, times * size_bytes - less)
    assert len(records) == count * size_bytes
    assert [header.base_offset for _, header in scan(records)] == [FIRST_OFFSET + at for at in range(count)]
