"""Bugs of voter changes: voter sets that count too early, too late or too long, and new disks that pass for old."""

from dataclasses import replace
from typing import Any

from pykraft.core import enter_state
from pykraft.core.effects import CompletePendingRequest
from pykraft.core.events import RequestReceived, UpgradeRequested
from pykraft.core.leader import appending
from pykraft.core.leader.progress import Progress, ReplicaProgress
from pykraft.core.messages import ChangeVoterResponse, RemoveVoterRequest
from pykraft.core.on import requests, timer
from pykraft.core.on.requests import reply
from pykraft.core.on.voters import add_voter, upgrade, voter_changes
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ErrorCode
from pykraft.log import directory
from pykraft.types import Instant, KRaftVersion, KRaftVoters, Offset, ReplicaKey, Uuid, VoterSet
from tests.sim.mutants.patch import Patch, bug


@bug("Raft dissertation §4.1", "voters")
def two_changes_at_once(patch: Patch) -> None:
    """A leader begins a change of the voters while the one before is not committed."""
    patch.everywhere(voter_changes.why_in_doubt, lambda replica, leader: voter_changes.ACCEPTED)
    why_not_now = voter_changes.why_not_now

    def why(replica: Replica, leader: Leader) -> voter_changes.ChangeRefusal:
        known, leader.change = leader.change, None
        refusal = why_not_now(replica, leader)
        leader.change = known
        return refusal

    patch.everywhere(why_not_now, why)


@bug("KAFKA-20740", "voters")
def a_change_that_timed_out_is_forgotten(patch: Patch) -> None:
    """A leader whose change of the voters timed out begins another, although the record of the first may still commit.

    Each of the two voter sets differs by one voter from the committed one, and by two from each other.
    """
    patch.everywhere(voter_changes.why_in_doubt, lambda replica, leader: voter_changes.ACCEPTED)


@bug("Raft dissertation §4.2.2", "voters")
def removed_leader_counts_itself(patch: Patch) -> None:
    """A leader that has removed itself still counts its own log towards the majority."""
    advance = appending.advance_high_watermark

    def advance_with_itself(replica: Replica, leader: Leader) -> None:
        assert replica.local.key is not None
        known = leader.progress.voters
        leader.progress.voters = {leader.leader_id: ReplicaProgress(key=replica.local.key), **known}
        advance(replica, leader)
        leader.progress.voters = known

    patch.everywhere(advance, advance_with_itself)


@bug("Raft dissertation §4.1; KIP-853", "voters")
def cut_voters_stay_in_force(patch: Patch) -> None:
    """A voter set stays in force after the log was truncated before its record."""

    def truncate_to(self: VoterHistory, end_offset: Offset) -> None:
        voters, level = self.voters, self.kraft_version
        self._sets.truncate_to(end_offset)
        self._levels.truncate_to(end_offset)
        self.voters, self.kraft_version = voters, level

    patch.setattr(VoterHistory, "truncate_to", truncate_to)


@bug("Ongaro, raft-dev, July 2015: the flaw in the dissertation's own rule", "voters")
def voters_change_before_the_own_epoch_is_committed(patch: Patch) -> None:
    """A new leader changes the voters before a record of its own epoch is committed."""

    def with_committed(rule: Any) -> Any:
        def ruled(replica: Replica, leader: Leader) -> Any:
            known = leader.high_watermark
            leader.high_watermark = replica.log.committed_end_offset if known is None else known
            refusal = rule(replica, leader)
            leader.high_watermark = known
            return refusal

        return ruled

    patch.everywhere(voter_changes.why_not_now, with_committed(voter_changes.why_not_now))
    patch.everywhere(voter_changes.why_in_doubt, with_committed(voter_changes.why_in_doubt))


@bug("KAFKA-14077; KIP-853 §Directory id", "voters")
def a_new_disk_keeps_the_directory_id(patch: Patch) -> None:
    """The directory id is the same on every disk of a node, so a node with a new disk passes for the old voter."""
    patch.setattr(directory, "_fresh_id", lambda random_uuid: Uuid(b"the node's own id"[:16]))


@bug("etcd (the old configuration counts until the new one is applied)", "voters")
def voters_count_when_they_are_committed(patch: Patch) -> None:
    """A voter set takes effect when it is committed, not when it is appended."""

    def voters(self: Replica) -> VoterSet:
        found = self.voter_history.voters_at(Offset(self.log.committed_end_offset - 1))
        return found if found is not None else self.voter_history._static

    patch.setattr(Replica, "voters", property(voters))


@bug("KIP-853 §Directory id; KAFKA-14077", "voters")
def votes_ignore_directory_ids(patch: Patch) -> None:
    """A node answers requests to its node id, whatever directory id they name."""
    patch.everywhere(requests.is_addressed_to, lambda replica, voter: voter is None or voter.id == replica.local.id)


@bug("KIP-853 §AddRaftVoter", "voters")
def new_voters_are_asked_nothing(patch: Patch) -> None:
    """A leader waits for the levels of a new voter without asking for them, so each addition times out."""
    patch.everywhere(voter_changes.ask_levels, lambda replica, node_id, listeners, now: None)


@bug("Raft dissertation §4.2.1", "voters")
def nobody_waits_for_a_new_voter_to_catch_up(patch: Patch) -> None:
    """A leader adds an observer to the voters as soon as it has fetched anything."""
    patch.setattr(add_voter, "_has_caught_up", lambda leader, key, now: leader.progress.observer(key) is not None)


@bug("KAFKA-16538", "voters")
def upgrade_needs_no_directory_ids(patch: Patch) -> None:
    """An upgrade writes the configured voters before all of them have reported their directory ids."""

    def on_upgrade_requested(replica: Replica, event: UpgradeRequested, now: Instant) -> None:
        leader = replica.state
        if isinstance(leader, Leader) and leader.high_watermark is not None and replica.kraft_version == 0:
            records = (KRaftVersion(event.version), KRaftVoters(leader.volatile_voters))
            voter_changes.write_membership(replica, leader, records, now)
        replica.outbox.add(CompletePendingRequest(handle=event.handle, error=None))

    patch.everywhere(upgrade.on_upgrade_requested, on_upgrade_requested)


@bug("Raft dissertation §4.2.2", "voters")
def removed_leader_leads_on(patch: Patch) -> None:
    """A leader stays leader for ever after its own removal is committed."""
    patch.setattr(timer, "is_removed", lambda replica, leader: False)


@bug("KIP-853 §RemoveRaftVoter", "voters")
def a_change_is_told_when_it_is_appended(patch: Patch) -> None:
    """A leader answers RemoveRaftVoter before the removal is committed."""
    known = add_voter.on_remove_voter_request

    def on_remove_voter_request(
        replica: Replica, event: RequestReceived, message: RemoveVoterRequest, now: Instant
    ) -> None:
        known(replica, event, message, now)
        leader = replica.state
        if isinstance(leader, Leader) and leader.change is not None and not leader.change.is_answered:
            leader.change = replace(leader.change, is_answered=True)
            reply(replica, event.request_id, ChangeVoterResponse(error=ErrorCode.NONE))

    patch.everywhere(known, on_remove_voter_request)


@bug("KIP-853 §kraft.version", "voters")
def static_voters_are_changed(patch: Patch) -> None:
    """A leader changes voters at kraft.version 0, where no replica reads voters from the log."""

    def why_not_now(replica: Replica, leader: Leader) -> voter_changes.ChangeRefusal:
        if leader.change is not None or leader.high_watermark is None:
            return ErrorCode.REQUEST_TIMED_OUT, None
        return voter_changes.ACCEPTED if replica.kraft_version == 0 else voter_changes.why_in_doubt(replica, leader)

    patch.everywhere(voter_changes.why_not_now, why_not_now)
    without = VoterSet.without

    def without_id(self: VoterSet, key: Any) -> VoterSet | None:
        voter = self.get(key.id)
        return without(self, voter.key if voter is not None and voter.key.directory_id is None else key)

    patch.setattr(VoterSet, "without", without_id)


@bug("two voters at a time: Raft dissertation §4.1", "voters")
def silent_voters_go_with_the_removed_one(patch: Patch) -> None:
    """A removal also removes all voters that have never fetched from this leader."""
    write = voter_changes.write_voters

    def write_voters(replica: Replica, leader: Leader, voters: VoterSet, now: Instant) -> Offset:
        if len(voters) >= len(replica.voters):
            return write(replica, leader, voters, now)
        heard = {key for key, each in leader.progress.voters.items() if each.end_offset is not None}
        heard.add(leader.leader_id)
        kept = VoterSet(tuple(each for each in voters.voters if each.key.id in heard))
        return write(replica, leader, kept if len(kept) else voters, now)

    patch.setattr(add_voter, "write_voters", write_voters)


@bug("Raft dissertation §4.2.2; ours, until the simulator found it", "pairs")
def removed_voters_never_campaign(patch: Patch) -> None:
    """A node that is not in the newest voter set of its log never campaigns, although no other node can be elected."""
    patch.setattr(Replica, "may_lead", property(lambda self: self.is_voter))


@bug("KIP-853 §Snapshots; Kafka KRaftControlRecordStateMachine", "voters,snapshots")
def voters_of_an_installed_snapshot_are_forgotten(patch: Patch) -> None:
    """A node that installs a snapshot keeps its former voter set and ignores the snapshot's."""
    replace_by = VoterHistory.replace_by
    patch.setattr(VoterHistory, "replace_by", lambda self, snapshot_end, records: replace_by(self, snapshot_end, ()))


@bug("Kafka KRaftControlRecordStateMachine.voterSetAtOffset", "voters,snapshots")
def snapshot_names_the_voters_behind_its_end(patch: Patch) -> None:
    """A snapshot contains the voter set of the record at its end offset, which may still be truncated."""
    voters_at = VoterHistory.voters_at
    patch.setattr(VoterHistory, "voters_at", lambda self, offset: voters_at(self, Offset(offset + 1)))


@bug("ours, planted by an outside review; Kafka VoterSetHistory.truncateOldEntries", "voters,snapshots")
def snapshot_forgets_the_voters_before_its_end(patch: Patch) -> None:
    """A snapshot discards the voter sets before its end, although the one at its end may be uncommitted."""
    forget_before = VoterHistory.forget_before
    patch.setattr(VoterHistory, "forget_before", lambda self, offset: forget_before(self, Offset(offset + 1)))


@bug("KIP-853 §Directory id; KAFKA-14077", "voters")
def fetches_ignore_directory_ids(patch: Patch) -> None:
    """A leader counts an observer's Fetch for the voter with the same id but another directory id."""

    def is_voter(self: Progress, key: ReplicaKey) -> bool:
        return key.id in self.voters

    def of(self: Progress, key: ReplicaKey) -> ReplicaProgress:
        return self.voters[key.id] if key.id in self.voters else known(self, key)

    known = Progress.of
    patch.setattr(Progress, "is_voter", is_voter)
    patch.setattr(Progress, "of", of)


@bug("ours, almost; Raft dissertation §4.2.2", "voters")
def leaders_that_remove_themselves_are_strangers(patch: Patch) -> None:
    """A follower rejects a leader that is not in the newest voter set, although that set is not committed yet."""
    patch.setattr(VoterHistory, "was_voter", lambda self, node_id, committed_end: False)


@bug("KIP-853 §Bootstrapping", "voters")
def bootstrap_voters_are_not_copied(patch: Patch) -> None:
    """The first leader of a formatted quorum does not write the voters of its checkpoint into the log."""
    patch.setattr(enter_state, "_opening_records", lambda replica: ())
