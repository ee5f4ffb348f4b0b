"""Asks the leader how a log begins, without reading it: the log start, and the epoch of the record before it.

A leader answers a fetch beyond the end of any log from its epochs and snapshots alone. The answer has the high
watermark and the last epoch up to the one in the request; or, if that epoch is older than the oldest snapshot, a
snapshot id. So the smallest epoch that does not get a snapshot id is the oldest snapshot's, which is the epoch of the
last record before the log start. Invariant: each result comes from one answer of one leader. If the log is cleaned
meanwhile, the next fetch with the found epoch gets a snapshot id again.

Source: KIP-595 §Fetch, KIP-630; Kafka's ``KafkaRaftLog.validateOffsetAndEpoch``.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from pykraft.client.remote.leader_fetch import LeaderFetch
from pykraft.core.messages import FetchRequest
from pykraft.types import Epoch, Offset

FAR_OFFSET: Final = Offset(2**60)
"""An offset that no log contains."""


def probe(epoch: Epoch, last_fetched_epoch: Epoch | None = None) -> FetchRequest:
    """A fetch beyond any log, to a leader of this epoch: the answer has no records and comes at once."""
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
    """The epoch of the record before the log start, for a log that begins at a snapshot's end.

    Errors: QuorumUnavailableError, ForeignClusterError.
    """
    low, high = Epoch(0), leader.epoch
    while low < high:
        middle = Epoch((low + high) // 2)
        answer, _ = await leader.ask(partial(probe, last_fetched_epoch=middle))
        leader.accept()
        if answer.log_start_offset != log_start_offset:
            break  # the log was cleaned meanwhile: the next fetch gets a snapshot id again
        # Bisection: without a snapshot id the epoch is not older than the oldest snapshot's.
        if answer.snapshot_id is None:
            high = middle
        else:
            low = Epoch(middle + 1)
    return high
