"""Rules of voters and their changes."""

from typing import Final

from pykraft.core.effects import WriteElectionState
from pykraft.core.leader.pending import Addition
from pykraft.core.messages import AddVoterRequest
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.log.lane import AppendBytes
from pykraft.sim.facts.facts import FORGER_ID
from pykraft.sim.invariants import invariant
from pykraft.sim.scenario.settings import node_at, port_of
from pykraft.types import ReplicaKey, ReportKind, VoterSet


class NewVotersAreAsked(invariant.Invariant):
    """After the event that starts an addition, a request to the new voter is under way, or its connection failed.

    Only that answer ends the addition: a leader that does not ask keeps every other change of the voters away until
    the request times out, and so does each later request.

    Source: KIP-853 §AddRaftVoter; Kafka ``AddVoterHandler.handleAddVoterRequest``.
    """

    def _begin(self) -> None:
        self._seen: dict[int, Addition] = {}

    def after_event(self, node: invariant.SimulatedNode, now: invariant.View) -> None:
        raft = node.host.raft if node.host is not None else None
        if raft is None or not now.leads or not isinstance(raft.state, Leader):
            return
        change = raft.state.change
        if not isinstance(change, Addition) or change.offset is not None or self._seen.get(node.node_id) is change:
            return
        self._seen[node.node_id] = change
        if raft.connections.is_ready(change.voter.key.id):
            raise self.violated(f"leader {node.node_id} adds voter {change.voter.key.id}, and asks it nothing")


class NewVoterHasCaughtUp(invariant.Invariant):
    """A new voter has fetched from its leader at an offset beyond the first record of the epoch.

    A voter that is far behind does not help: if the majority needs it, nothing can be committed while it catches
    up.

    Source: KIP-853 §AddRaftVoter; Raft dissertation §4.2.1 (catching up new servers); Kafka
    ``LeaderState.isReplicaCaughtUp``.
    """

    def _begin(self) -> None:
        self._asked: dict[tuple[ReplicaKey, int], int] = {}
        """Highest fetch offset, by replica and epoch."""

    def before_send(self, node: invariant.SimulatedNode, spoken: invariant.Spoken) -> None:
        if spoken.fetched is not None:
            key = (node.key, spoken.epoch)
            self._asked[key] = max(self._asked.get(key, 0), spoken.fetched.offset)

    def voters_written(self, node: invariant.SimulatedNode, record: invariant.VoterRecord, _committed_end: int) -> None:
        epoch, before = record.entry.epoch, self.facts.members.voters_of(node)
        ledger = self.facts.ledger(node)
        begins = (each.base_offset for each in ledger.entries if each.epoch == epoch)
        begin = next(begins, None) if ledger.begin.epoch < epoch else 0  # cleaned: any Fetch of this epoch will do
        for voter in record.voters.voters:
            is_new = before.get(voter.key.id) is None
            if is_new and begin is not None and self._asked.get((voter.key, epoch), 0) <= begin:
                seen = f"leader {node.node_id} of epoch {epoch}, which began at {begin}, adds voter {voter.key.id}"
                raise self.violated(f"{seen}, which has {self._asked.get((voter.key, epoch), 0)}")


class ChangeIsCommittedWhenTold(invariant.Invariant):
    """A change that an operator was told is done is in a voter set that was committed since the request.

    Only a request that asks for an answer before the commit (KIP-1186) gets one earlier, and no operator here sends
    such a request.

    Source: KIP-853 §AddRaftVoter, §RemoveRaftVoter; Kafka ``AddVoterHandler.highWatermarkUpdated``.
    """

    def answered(self, asked: invariant.VoterRequest) -> None:
        if asked.answer != ErrorCode.NONE:
            return
        key, is_addition = asked.message.voter, isinstance(asked.message, AddVoterRequest)
        for record in self.facts.members.electorate.records:
            is_done = any(voter.key == key for voter in record.voters.voters) is is_addition
            if is_done and record.offset >= asked.since and self.facts.members.is_committed(record.entry):
                return
        what = "added" if is_addition else "removed"
        raise self.violated(f"the operator is told that voter {key.id} was {what}, and no committed voter set says so")


class VotersCanBeDialed(invariant.Invariant):
    """No leader writes a voter set with an invalid host name, or with an address at which the voter never was.

    Once the set is committed, every node dials its voters at every start; an endpoint that no resolver accepts would
    end the nodes, and one where nobody listens could cost the quorum its majority for good.

    Source: KIP-853 §UpdateVoter, KAFKA-20661; ours: Kafka commits any string as a host.
    """

    def voters_written(self, node: invariant.SimulatedNode, record: invariant.VoterRecord, _committed_end: int) -> None:
        for voter in record.voters.voters:
            for _, endpoint in voter.listeners:
                # A voter moves to higher ports only, and may have moved on since it was asked.
                owner = self.facts.nodes[voter.key.id]
                was_there = node_at(endpoint.port) == voter.key.id and endpoint.port <= port_of(owner.config)
                # The forger answers there as the voter would: no leader can see a difference.
                was_there |= endpoint.port == FORGER_ID and self.facts.claims.is_moving_voters
                if not endpoint.host.isprintable() or not was_there:
                    seen = f"leader {node.node_id} writes voters at {record.offset} of whom {voter.key.id}"
                    raise self.violated(f"{seen} is at {endpoint.host!r}, port {endpoint.port}")


class LevelBeforeVoters(invariant.Invariant):
    """Each voter set in the log comes after kraft.version 1, which is in the same batch or before it.

    At level 0 some node may be too old to read them, and would count majorities by other voters.

    Source: KIP-853 §kraft.version, KAFKA-16538; Kafka ``KRaftVersion.isReconfigSupported``.
    """

    def voters_written(self, node: invariant.SimulatedNode, record: invariant.VoterRecord, _committed_end: int) -> None:
        is_first = self.facts.members.record_of(node) is None
        if is_first and not record.level:
            seen = f"leader {node.node_id} of epoch {record.entry.epoch} writes a voter set at {record.offset}"
            raise self.violated(f"{seen}, its log knows no kraft.version")


class VotersAreOfTheLog(invariant.Invariant):
    """Each node uses the voters of its own log, or those that it began with when its log has none.

    A change by one voter is safe because a set counts from the moment it is appended, and because a truncated set
    no longer counts.

    Source: KIP-853 §Log and voter sets; Raft dissertation §4.1; Kafka ``KRaftControlRecordStateMachine``.
    """

    def _begin(self) -> None:
        self._unsure: set[int] = set()

    def started(self, node: invariant.SimulatedNode) -> None:
        self._unsure.add(int(node.node_id))

    def submitted(self, node: invariant.SimulatedNode, job: invariant.Job) -> None:
        is_data = isinstance(job, AppendBytes) and not any(header.is_control for header, _ in job.batches)
        if not is_data and not isinstance(job, WriteElectionState):
            self._unsure.add(int(node.node_id))

    def changed(self, node: invariant.SimulatedNode, was: invariant.View, now: invariant.View) -> None:
        if was.voters is not now.voters:
            self._unsure.add(int(node.node_id))

    def after_event(self, node: invariant.SimulatedNode, now: invariant.View) -> None:
        if int(node.node_id) not in self._unsure:
            return
        if node.is_damaged and any(each.offset > node.ledger.end_offset for each in now.snapshots):
            return  # The voters of a snapshot count in place of the lost records until those are fetched again.
        self._unsure.discard(int(node.node_id))
        found = self.facts.members.voters_of(node)
        if now.is_up and now.voters != found:
            seen = f"node {node.node_id}, {now.role} in epoch {now.epoch}, takes {[*now.voters.ids]} for the voters"
            raise self.violated(f"{seen}, its log says {[*found.ids]}")


class OneChangeInDoubt(invariant.Invariant):
    """A leader that writes a voter set knows that the newest one in its log is committed.

    With two uncommitted changes, a majority of the first set and a majority of the third may have no member in
    common, and both could elect a leader.

    Source: KIP-853 (one change at a time); Raft dissertation §4.1; Kafka ``AddVoterHandler`` and its siblings.
    """

    def voters_written(self, node: invariant.SimulatedNode, record: invariant.VoterRecord, committed_end: int) -> None:
        before = self.facts.members.record_of(node)
        if before is not None and before.offset >= committed_end and not record.is_opening:
            seen = f"leader {node.node_id} of epoch {record.entry.epoch} writes a voter set at {record.offset}"
            raise self.violated(f"{seen}, the one at {before.offset} is in doubt: {committed_end} is committed")


class VotersChangeByOne(invariant.Invariant):
    """A new voter set adds one voter, removes one, or changes the entries of the same voters.

    Then any majority of one and any majority of the other have a member in common. An upgrade of kraft.version
    changes no voters: it adds the directory ids of all configured voters. The first batch of a leader repeats the
    checkpoint of a formatted quorum, or updates the leader's endpoints.

    Source: KIP-853; Raft dissertation §4.1; Kafka ``VoterSet.hasOverlappingMajority``.
    """

    def voters_written(self, node: invariant.SimulatedNode, record: invariant.VoterRecord, _committed_end: int) -> None:
        before, after = self.facts.members.voters_of(node), record.voters
        keys_before, keys_after = ({voter.key for voter in voters.voters} for voters in (before, after))
        is_upgrade = record.level is not None and not record.is_opening
        is_right = before.ids == after.ids if is_upgrade else len(keys_before ^ keys_after) <= (not record.is_opening)
        if not is_right or any(key.directory_id is None for key in keys_after):
            seen = f"leader {node.node_id} of epoch {record.entry.epoch} writes the voters {_shown(after)}"
            raise self.violated(f"{seen} after {_shown(before)}")


def _shown(voters: VoterSet) -> str:
    return ", ".join(f"{voter.key.id}:{(voter.key.directory_id or b'?').hex()[:4]}" for voter in voters.voters)


REQUEST_TIMEOUTS: Final = 5
"""A leader allows a change one of them; the rest is for slow clocks and disks."""
US_PER_MS: Final = 1_000


class OperatorsAreAnswered(invariant.Invariant):
    """A request to a leader to change the voters is answered within some request timeouts.

    A change that is not committed in time is rejected, and one that is committed is confirmed. An operator without
    an answer would ask again, or wait.

    Source: KIP-853 §AddRaftVoter (``TimeoutMs``); Kafka ``AddVoterHandler.highWatermarkUpdated``.
    """

    def _begin(self) -> None:
        self._asked: dict[invariant.VoterRequest, int] = {}

    def asked(self, asked: invariant.VoterRequest) -> None:
        self._asked[asked] = self.facts.clock.now_us

    def answered(self, asked: invariant.VoterRequest) -> None:
        self._asked.pop(asked, None)

    def after_event(self, node: invariant.SimulatedNode, _now: invariant.View) -> None:
        if not self._asked:
            return
        bound_us = REQUEST_TIMEOUTS * node.config.raft.request_timeout_ms * US_PER_MS
        for asked, since_us in list(self._asked.items()):
            if not asked.process.is_running:
                del self._asked[asked]
                continue
            waited_us = self.facts.clock.now_us - max(since_us, node.disk.io_errors.stalled_until_us)
            is_its = asked.process is node.process
            if is_its and waited_us > bound_us and not node.was_paused_since(since_us):
                raise self.violated(f"node {node.node_id} has not answered {asked.message} in {waited_us} us")


class OwnEpochBeforeVoters(invariant.Invariant):
    """When a leader writes a voter set, the last committed record is of its own epoch.

    A former leader may have written another set that is on less than a majority and may still be committed. Then
    two sets would follow the same one, and differ by two voters (the flaw that was found in the dissertation's
    rule).

    Source: Diego Ongaro, "bug in single-server membership changes" (raft-dev, July 2015); KIP-853; Kafka
    ``AddVoterHandler`` (the high watermark must be known).
    """

    def voters_written(self, node: invariant.SimulatedNode, record: invariant.VoterRecord, committed_end: int) -> None:
        ledger = self.facts.ledger(node)
        last = ledger.at(committed_end - 1)
        last_epoch = last.epoch if last is not None else ledger.begin.epoch
        epoch = record.entry.epoch
        if not record.is_opening and last_epoch != epoch:
            seen = f"leader {node.node_id} of epoch {epoch} writes a voter set at {record.offset}"
            raise self.violated(f"{seen}, nothing of its epoch is committed: {committed_end} is")


class RemovedLeaderResigns(invariant.Invariant):
    """No node stays leader when a voter set without it is committed.

    Until then it has to lead, because somebody must commit the change. After that the others would have a leader
    that is not a voter and cannot count its own log.

    Source: Raft dissertation §4.2.2; KIP-853 §RemoveRaftVoter; Kafka
    ``KafkaRaftClient.maybeResignLeadershipAfterRemoval``.
    """

    def changed(self, node: invariant.SimulatedNode, _was: invariant.View, now: invariant.View) -> None:
        if not now.leads or now.high_watermark is None:
            return
        newest = self.facts.members.record_of(node)
        is_voter = newest is None or newest.voters.is_voter(node.key)
        if newest is not None and not is_voter and newest.offset < now.high_watermark:
            seen = f"leader {node.node_id} of epoch {now.epoch} leads on at {now.high_watermark}"
            raise self.violated(f"{seen}, it is no voter since {newest.offset}")


class TwinsAreTold(invariant.Invariant):
    """A node that sends records to a twin of a voter has raised an alarm in this epoch, which names the voter.

    Otherwise nobody learns that the two processes exist: each of them works, and `describe` shows healthy voters.

    Source: ours (ADR 130).
    """

    def _begin(self) -> None:
        self._told: set[tuple[int, int, int]] = set()

    def reported(self, node: invariant.SimulatedNode, report: invariant.Report) -> None:
        if report.kind is ReportKind.TWIN and node.host is not None and node.host.raft is not None:
            self._told.add((int(node.node_id), int(node.host.raft.state.epoch), report.values[0]))

    def after_event(self, _node: invariant.SimulatedNode, _now: invariant.View) -> None:
        fed = self.facts.claims.fed_twins
        if fed and not fed <= self._told:
            leader_id, epoch, voter_id = min(fed - self._told)
            raise self.violated(
                f"node {leader_id}, the leader of epoch {epoch}, has sent records to a second process with the id "
                f"{voter_id}, and raises no alarm"
            )
