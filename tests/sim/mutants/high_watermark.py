"""Bugs of the high watermark: a leader counts records as committed that are not."""

from __future__ import annotations

from collections.abc import Callable

from pykraft.core.effects import NotifyHighWatermark
from pykraft.core.leader import appending
from pykraft.core.leader.appending import advance_high_watermark
from pykraft.core.leader.serving import answer_parked
from pykraft.core.on import fetch_response
from pykraft.core.quorum import majority_end_offset
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.types import Offset
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def leader_counts_what_it_has_not_flushed(patch: Patch) -> None:
    """The leader counts its own log end for the high watermark before it is flushed."""

    def advance(replica: Replica, leader: Leader) -> None:
        flushed = replica.log.flushed_end_offset
        replica.log.flushed_end_offset = replica.log.end_offset
        advance_high_watermark(replica, leader)
        replica.log.flushed_end_offset = flushed

    _patch_advance(patch, advance)


def old_epochs_commit_by_counting(patch: Patch) -> None:
    """The high watermark advances without a record of the leader's own epoch."""

    def advance(replica: Replica, leader: Leader) -> None:
        start = leader.epoch_start_offset
        leader.epoch_start_offset = Offset(-1)
        advance_high_watermark(replica, leader)
        leader.epoch_start_offset = start

    _patch_advance(patch, advance)


def observers_commit(patch: Patch) -> None:
    """The leader counts the fetch offsets of observers like those of voters."""

    def advance(replica: Replica, leader: Leader) -> None:
        voters = dict(leader.progress.voters)
        observers = leader.progress._observers.values()
        leader.progress.voters.update({observer.key.id: observer for observer in observers})
        advance_high_watermark(replica, leader)
        leader.progress.voters = voters

    _patch_advance(patch, advance)


def high_watermark_follows_every_fetch(patch: Patch) -> None:
    """The high watermark decreases when a replica fetches below it, for example with a Fetch that arrives late."""

    def advance(replica: Replica, leader: Leader) -> None:
        ends = [
            replica.log.flushed_end_offset if node_id == leader.leader_id else voter.end_offset
            for node_id, voter in leader.progress.voters.items()
        ]
        offset = majority_end_offset(ends)
        if offset is None or offset <= leader.epoch_start_offset or offset == leader.high_watermark:
            return
        leader.high_watermark = offset
        replica.log.commit_to(offset)
        replica.outbox.add(NotifyHighWatermark(high_watermark=offset))
        answer_parked(replica, leader)

    _patch_advance(patch, advance)


def follower_commits_all_that_it_has(patch: Patch) -> None:
    """A follower takes its own log end for the high watermark."""
    original = fetch_response._raise_high_watermark
    patch.setattr(
        fetch_response, "_raise_high_watermark", lambda replica, told: original(replica, replica.log.end_offset)
    )


def one_acknowledgment_is_enough(patch: Patch) -> None:
    """The leader takes the highest fetch offset of its voters, not a majority's: one voter commits a record."""

    def best(end_offsets: list[Offset | None]) -> Offset | None:
        return max((offset for offset in end_offsets if offset is not None), default=None)

    patch.setattr(appending, "majority_end_offset", best)


def _patch_advance(patch: Patch, advance: Callable[[Replica, Leader], None]) -> None:
    patch.everywhere(advance_high_watermark, advance)


MUTANTS = (
    Mutant(plant=leader_counts_what_it_has_not_flushed, source="KAFKA-10526; Raft dissertation §10.2.1, done wrong"),
    Mutant(plant=old_epochs_commit_by_counting, source="Raft paper §5.4.2, figure 8"),
    Mutant(plant=observers_commit, source="Raft dissertation §4.2.1 (new servers do not count); KIP-853"),
    Mutant(
        plant=high_watermark_follows_every_fetch,
        source="Kafka LeaderState (a lower offset lowers no high watermark)",
        scenario="network",
    ),
    Mutant(plant=follower_commits_all_that_it_has, source="Raft paper §5.3 (min of leaderCommit and last new entry)"),
    Mutant(plant=one_acknowledgment_is_enough, source="acks=1"),
)
