"""Bugs to plant: each takes one rule out of the production code, and has a seed whose world notices.

Nothing of this is in the package. A mutant patches what the host runs; the world, its disk and its invariants stay as
they are. The seeds were found by running worlds one after the other until one failed
(``python -m tests.sim.mutants [NAME…]`` does it again).

One bug is not here, since 500 worlds lived with it: a core that applies any answer, whatever was asked since. The host
closes a connection whose answer nobody waits for any more, and every answer carries its epoch: each of the three
rules covers for the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pykraft.core import appending, raft
from pykraft.core.appending import advance_high_watermark
from pykraft.core.election import Tally
from pykraft.core.log_view import LogView
from pykraft.core.messages import VoteRequest
from pykraft.core.on import fetch_request, fetch_response, vote
from pykraft.core.outbox import Outbox, Relies
from pykraft.core.replica import Replica
from pykraft.core.start import initial_state
from pykraft.core.state import Candidate, Leader, Prospective, Resigned, State, Unattached
from pykraft.log import log_scan, quorum_state, recovery
from pykraft.log.fs import File, Fs
from pykraft.log.lane import OrderedLane
from pykraft.log.log import Log
from pykraft.log.scan import scan_headers
from pykraft.log.segment import Segment
from pykraft.sim.run import Failure, simulate
from pykraft.types import NO_IO, Io, Offset, OffsetAndEpoch

SEEDS_MAX = 500

Patch = pytest.MonkeyPatch


def vote_is_not_awaited(patch: Patch) -> None:
    """Messages do not wait for the election write."""
    after = Outbox._after
    patch.setattr(Outbox, "_after", lambda self, relies: after(self, relies) if relies is Relies.LOG else NO_IO)


def vote_is_not_synced(patch: Patch) -> None:
    """``quorum-state`` is renamed into place without a sync of file or directory."""

    def write(fs: Fs, path: Path, content: bytes) -> None:
        temporary = path.with_name(f"{path.name}.tmp")
        file = fs.open(temporary, create=True)
        file.truncate(0)
        file.pwrite([content], 0)
        file.close()
        fs.rename(temporary, path)

    patch.setattr(quorum_state, "write_atomically", write)


def grant_waits_for_the_epoch_only(patch: Patch) -> None:
    """A granted vote leaves when the epoch is on disk, the vote itself perhaps not."""
    after = Outbox._after
    patch.setattr(
        Outbox, "_after", lambda self, relies: after(self, Relies.EPOCH if relies is Relies.ELECTION else relies)
    )


def leader_counts_what_it_has_not_flushed(patch: Patch) -> None:
    """The leader's own log end enters the high watermark at once."""

    def advance(replica: Replica, leader: Leader) -> None:
        flushed = replica.log.flushed_end_offset
        replica.log.flushed_end_offset = replica.log.end_offset
        advance_high_watermark(replica, leader)
        replica.log.flushed_end_offset = flushed

    _patch_advance(patch, advance)


def fetch_does_not_wait_for_its_append(patch: Patch) -> None:
    """A follower acknowledges what it has not flushed."""
    after = Outbox._after
    patch.setattr(
        Outbox, "_after", lambda self, relies: after(self, Relies.ELECTION if relies is Relies.LOG else relies)
    )


def append_is_not_flushed(patch: Patch) -> None:
    """The lane calls an append durable that is in the page cache."""

    def append(self: OrderedLane, appends: list[Any]) -> None:
        if appends:
            self._log.append(appends)
            appends.clear()

    patch.setattr(OrderedLane, "_append", append)


def truncation_is_not_synced(patch: Patch) -> None:
    """What was cut off may come back after a power loss."""
    truncate_to = Log.truncate_to
    patch.setattr(Log, "truncate_to", _without_sync(truncate_to))


def recovery_does_not_sync(patch: Patch) -> None:
    """After a kill, what was read back from the page cache is taken for durable."""
    patch.setattr(recovery, "_make_durable", _without_sync(recovery._make_durable))


def new_segment_has_no_durable_name(patch: Patch) -> None:
    """The directory is not synced after a new segment was made."""
    flush = Log.flush

    def forgetful(self: Log) -> None:
        self._is_directory_dirty = False
        flush(self)

    patch.setattr(Log, "flush", forgetful)


def recovery_ignores_checksums(patch: Patch) -> None:
    """A torn batch passes for a sound one."""

    def scan_file(path: Path, file: File, position: int, end: int) -> Iterator[tuple[int, Any]]:
        yield from scan_headers(path, file, position, end)

    patch.setattr(log_scan, "scan_file", scan_file)


def recovery_point_rises_too_early(patch: Patch) -> None:
    """The recovery point is durable before the log is: a torn tail looks like corruption."""
    flush = Log.flush

    def early(self: Log) -> None:
        self._point.raise_to(self.end_offset)
        self._point.settle()
        flush(self)

    patch.setattr(Log, "flush", early)


def former_leader_campaigns_in_its_old_epoch(patch: Patch) -> None:
    """A leader that was down asks for votes in the epoch that it led, and may lead it twice."""

    def begin(**given: Any) -> State:
        state = initial_state(**given)
        key = given["local"].key
        if not isinstance(state, Resigned) or key is None:
            return state
        tally = Tally.begin(given["voters"].ids, key.id)
        return Candidate(epoch=state.epoch, voted=key, election_deadline_ms=state.election_deadline_ms, tally=tally)

    patch.setattr(raft, "initial_state", begin)


def old_epochs_commit_by_counting(patch: Patch) -> None:
    """The high watermark does not need a record of the leader's own epoch (Raft paper, figure 8)."""

    def advance(replica: Replica, leader: Leader) -> None:
        start = leader.epoch_start_offset
        leader.epoch_start_offset = Offset(-1)
        advance_high_watermark(replica, leader)
        leader.epoch_start_offset = start

    _patch_advance(patch, advance)


def divergence_is_off_by_one(patch: Patch) -> None:
    """A follower with one record too many of an old epoch passes for a prefix."""

    def diverging_from(self: LogView, offset: Offset, last_epoch: Any) -> OffsetAndEpoch | None:
        end = self.end_of_epoch(last_epoch)
        return None if not offset or (end.epoch == last_epoch and end.offset + 1 >= offset) else end

    patch.setattr(LogView, "diverging_from", diverging_from)


def votes_ignore_the_log(patch: Patch) -> None:
    """Whoever asks first gets the vote, however short its log."""
    patch.setattr(OffsetAndEpoch, "is_at_least", lambda self, other: True)


def votes_are_given_twice(patch: Patch) -> None:
    """A voter that has voted grants the vote of that epoch to the next one, too."""

    def would_grant(replica: Replica, message: VoteRequest) -> bool:
        state = replica.state
        is_free = isinstance(state, Unattached | Prospective) and state.leader_id is None
        return is_free and message.last.is_at_least(replica.log.end)

    patch.setattr(vote, "would_grant_vote", would_grant)


def half_is_a_majority(patch: Patch) -> None:
    """Two of four voters elect a leader."""
    patch.setattr("pykraft.core.election.majority_of", lambda voter_count: (voter_count + 1) // 2)


def completion_counts_for_everything(patch: Patch) -> None:
    """The end of any write makes the whole log count as flushed (etcd's append ABA story)."""

    def persist(self: LogView, io: Io) -> None:
        while self._unflushed and self._unflushed[0].io <= io:
            self._unflushed.popleft()
            self.flushed_end_offset = self.end_offset

    patch.setattr(LogView, "persist", persist)


def follower_commits_all_that_it_has(patch: Patch) -> None:
    """A follower takes its own log end for the high watermark."""
    original = fetch_response._raise_high_watermark
    patch.setattr(
        fetch_response, "_raise_high_watermark", lambda replica, told: original(replica, replica.log.end_offset)
    )


def _patch_advance(patch: Patch, advance: Callable[[Replica, Leader], None]) -> None:
    patch.setattr(appending, "advance_high_watermark", advance)
    patch.setattr(fetch_request, "advance_high_watermark", advance)


def _without_sync(act: Callable[..., Any]) -> Callable[..., Any]:
    def acting(*given: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Segment, "sync", lambda self: None)
            return act(*given)

    return acting


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """What is planted, the seed that notices, and which invariant or error says so."""

    plant: Callable[[Patch], None]
    seed: int
    noticed_by: str


MUTANTS: Mapping[str, Mutant] = {
    plant.__name__: Mutant(plant=plant, seed=seed, noticed_by=noticed_by)
    for plant, seed, noticed_by in (
        (vote_is_not_awaited, 1, "MonotonicEpoch"),
        (vote_is_not_synced, 0, "MonotonicEpoch"),
        (grant_waits_for_the_epoch_only, 1, "OneVote"),
        (leader_counts_what_it_has_not_flushed, 0, "MajorityHoldsHighWatermark"),
        (fetch_does_not_wait_for_its_append, 1, "MajorityHoldsHighWatermark"),
        (append_is_not_flushed, 0, "PersistedIsDurable"),
        (truncation_is_not_synced, 0, "PersistedIsDurable"),
        (recovery_does_not_sync, 3, "PersistedIsDurable"),
        (new_segment_has_no_durable_name, 0, "PersistedIsDurable"),
        (recovery_ignores_checksums, 74, "PersistedIsDurable"),
        (recovery_point_rises_too_early, 0, "CorruptionError"),
        (former_leader_campaigns_in_its_old_epoch, 174, "PersistedIsDurable"),
        (old_epochs_commit_by_counting, 1, "MonotonicHighWatermark"),
        (divergence_is_off_by_one, 47, "CommittedOnce"),
        (votes_ignore_the_log, 1, "CommittedOnce"),
        (votes_are_given_twice, 1, "OneVote"),
        (half_is_a_majority, 75, "SingleLeader"),
        (completion_counts_for_everything, 1, "MajorityHoldsHighWatermark"),
        (follower_commits_all_that_it_has, 1, "CommittedOnce"),
    )
}


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The bug is there while this lasts."""
    with pytest.MonkeyPatch.context() as patch:
        mutant.plant(patch)
        yield


def first_failure(mutant: Mutant, seeds: range = range(SEEDS_MAX)) -> Failure | None:
    """The first of these worlds that notices."""
    with planted(mutant):
        failures = (result for result in map(simulate, seeds) if isinstance(result, Failure))
        return next(failures, None)


if __name__ == "__main__":
    for name in sys.argv[1:] or MUTANTS:
        found = first_failure(MUTANTS[name])
        print(f"{name}: " + (f"seed {found.seed}, {found.reason}" if found else f"not within {SEEDS_MAX}"), flush=True)
