"""Bugs of elections: a vote is forgotten, granted twice, or granted to a shorter log; half of the voters are enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pykraft.core import raft
from pykraft.core.connections import Connections
from pykraft.core.election import Tally
from pykraft.core.messages import VoteRequest
from pykraft.core.on import following, requests, vote
from pykraft.core.outbox import Outbox, Relies
from pykraft.core.replica import Replica
from pykraft.core.start import initial_state
from pykraft.core.state import Candidate, Prospective, Resigned, State, Unattached
from pykraft.host.peers import Peers
from pykraft.log.fs import Fs
from pykraft.log.small_files import quorum_state
from pykraft.types import NO_IO, Instant, OffsetAndEpoch
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def vote_is_not_awaited(patch: Patch) -> None:
    """A node does not wait for its election state to be durable: it grants a vote before the vote is on disk."""
    after = Outbox._after
    patch.setattr(Outbox, "_after", lambda self, relies: after(self, relies) if relies is Relies.LOG else NO_IO)


def vote_is_not_synced(patch: Patch) -> None:
    """``quorum-state`` is renamed into place, but neither the file nor the directory is synced."""

    def write(fs: Fs, path: Path, content: bytes) -> None:
        temporary = path.with_name(f"{path.name}.tmp")
        file = fs.open(temporary, create=True)
        file.truncate(0)
        file.pwrite([content], 0)
        file.close()
        fs.rename(temporary, path)

    patch.setattr(quorum_state, "write_atomically", write)


def grant_waits_for_the_epoch_only(patch: Patch) -> None:
    """A voter sends a granted vote when the epoch is on disk, perhaps before the vote is."""
    after = Outbox._after
    patch.setattr(
        Outbox, "_after", lambda self, relies: after(self, Relies.EPOCH if relies is Relies.ELECTION else relies)
    )


def votes_ignore_the_log(patch: Patch) -> None:
    """A voter grants its vote to the first candidate, however short the candidate's log is."""
    patch.setattr(OffsetAndEpoch, "is_at_least", lambda self, other: True)


def the_longer_log_wins(patch: Patch) -> None:
    """Voters compare logs by length only and ignore the last epoch."""
    patch.setattr(OffsetAndEpoch, "is_at_least", lambda self, other: self.offset >= other.offset)


def votes_are_given_twice(patch: Patch) -> None:
    """A voter that has voted grants its vote to a second candidate of the same epoch."""

    def would_grant(replica: Replica, message: VoteRequest) -> bool:
        state = replica.state
        is_free = isinstance(state, Unattached | Prospective) and state.leader_id is None
        return is_free and message.last.is_at_least(replica.log.end)

    patch.setattr(vote, "would_grant_vote", would_grant)


def vote_is_forgotten_at_start(patch: Patch) -> None:
    """A restarted node reads its epoch from disk, but not the vote that it granted in it."""
    _patch_start(patch, lambda **given: initial_state(**{**given, "election": replace(given["election"], voted=None)}))


def leader_is_named_before_it_is_durable(patch: Patch) -> None:
    """A new leader names itself in answers as soon as its epoch is durable, perhaps before its election is."""
    reply = requests.reply

    def too_early(replica: Replica, request_id: int, response: Any, relies: Relies) -> None:
        reply(replica, request_id, response, relies if response.vote_granted else Relies.EPOCH)

    patch.setattr(vote, "reply", too_early)


def half_is_a_majority(patch: Patch) -> None:
    """Two of four voters elect a leader."""
    patch.setattr(Tally, "is_won", property(lambda self: 2 * len(self.granted) >= len(self.voters)))


def former_leader_campaigns_in_its_old_epoch(patch: Patch) -> None:
    """A restarted leader asks for votes in the epoch that it led, so it may lead this epoch twice."""

    def begin(**given: Any) -> State:
        state = initial_state(**given)
        key = given["local"].key
        if not isinstance(state, Resigned) or key is None:
            return state
        tally = Tally.begin(given["voters"], key)
        return Candidate(epoch=state.epoch, voted=key, election_deadline_ms=state.election_deadline_ms, tally=tally)

    _patch_start(patch, begin)


def candidate_restarts_behind_a_leader(patch: Patch) -> None:
    """A restarted node that had voted for itself campaigns again, even if it followed a leader of that epoch since."""

    def begin(**given: Any) -> State:
        key, election = given["local"].key, given["election"]
        is_own = key is not None and election.voted is not None and election.voted.matches(key)
        is_own = is_own and election.leader_id != key.id and given["voters"].is_voter(key)
        return initial_state(**{**given, "election": replace(election, leader_id=None)} if is_own else given)

    _patch_start(patch, begin)


def answers_of_an_older_epoch_count(patch: Patch) -> None:
    """A node takes any answer for the answer to its newest request.

    Three rules prevent this (correlation id, connection, epoch), and each covers for the others. Without all three, a
    vote granted in the last election counts in this one.
    """
    patch.setattr(Connections, "received", _received)
    patch.setattr(Peers, "_is_spent", lambda self, link, effect, now: link.endpoint != effect.peer.endpoint)
    settle = following.settle_answer

    def settle_answer(replica: Replica, peer_id: int, answer: Any, now: Instant) -> bool:
        return settle(replica, peer_id, replace(answer, epoch=max(answer.epoch, replica.epoch)), now)

    patch.everywhere(settle, settle_answer)


def _received(self: Connections, peer_id: int, correlation_id: int) -> bool:
    self._in_flight.pop(peer_id, None)
    return True


def _patch_start(patch: Patch, begin: Callable[..., State]) -> None:
    patch.setattr(raft, "initial_state", begin)


MUTANTS = (
    Mutant(plant=vote_is_not_awaited, source="Raft paper §5.1; etcd raft/doc.go"),
    Mutant(plant=vote_is_not_synced, source="ALICE (OSDI 2014): rename without fsync, in LevelDB and others"),
    Mutant(plant=grant_waits_for_the_epoch_only, source="ours, almost: epochs and votes are separate writes"),
    Mutant(plant=votes_ignore_the_log, source="Raft paper §5.4.1"),
    Mutant(plant=the_longer_log_wins, source="Raft paper §5.4.1; a common mistake in the labs of MIT 6.824"),
    Mutant(plant=votes_are_given_twice, source="Raft paper §5.2"),
    Mutant(
        plant=leader_is_named_before_it_is_durable,
        source="ours: a denial waited for the epoch only",
        scenario="elections",
    ),
    Mutant(
        plant=candidate_restarts_behind_a_leader,
        source="Kafka's QuorumState.initialize (the vote before the leader); ADR 020",
        scenario="rivals",
    ),
    Mutant(
        plant=vote_is_forgotten_at_start,
        source="KAFKA-14077 (a voter that lost its disk votes twice)",
        scenario="elections",
    ),
    Mutant(plant=half_is_a_majority, source="majorities of an even number of voters: KAFKA-12712"),
    Mutant(plant=former_leader_campaigns_in_its_old_epoch, source="KIP-595 (a leader resigns when it restarts)"),
    Mutant(
        plant=answers_of_an_older_epoch_count,
        source="MIT 6.824 students' guide to Raft: term confusion",
        scenario="elections",
    ),
)
