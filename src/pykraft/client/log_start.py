"""How a log begins, asked of its leader without reading it: where, and of which epoch the record before was.

Fetches beyond the end of any log are answered from the leader's epochs and snapshots alone: with the high watermark,
and with the last epoch up to the one that was named; or, when that is older than the oldest snapshot, with a snapshot.
So the smallest epoch that is not sent to a snapshot is the oldest snapshot's, which is the epoch of the last record
before the log start. Invariant: what is found is of one answer of one leader each time; a log that is cleaned meanwhile
gives an epoch with which the next fetch is sent to a snapshot again.

Source: KIP-595 §Fetch, KIP-630; Kafka's ``KafkaRaftLog.validateOffsetAndEpoch``.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from pykraft.client.leader_fetch import LeaderFetch
from pykraft.core.messages import FetchRequest
from pykraft.types import Epoch, Offset

FAR_OFFSET: Final = Offset(2**60)
"""No log holds it."""


def probe(epoch: Epoch, last_fetched_epoch: Epoch | None = None) -> FetchRequest:
    """A fetch beyond any log, to a leader of this epoch: the answer holds no records, and does not wait for any."""
    return FetchRequest(
        replica=None,
        epoch=epoch,
        fetch_offset=FAR_OFFSET,
        last_fetched_epoch=epoch if last_fetched_epoch is None else last_fetched_epoch,
        wait_ms_max=0,
        size_bytes_max=0,
        high_watermark=-1,
    )


async def epoch_before(leader: LeaderFetch, log_start_offset: Offset) -> Epoch:
    """Epoch of the record before the log start, in a log that begins behind a snapshot.

    Errors: QuorumUnavailableError, ForeignClusterError.
    """
    low, high = Epoch(0), leader.epoch
    while low < high:
        middle = Epoch((low + high) // 2)
        answer, _ = await leader.ask(partial(probe, last_fetched_epoch=middle))
        leader.accept()
        if answer.log_start_offset != log_start_offset:
            break  # it is another log start now: the next fetch tells
        if answer.snapshot_id is None:
            high = middle
        else:
            low = Epoch(middle + 1)
    return high
