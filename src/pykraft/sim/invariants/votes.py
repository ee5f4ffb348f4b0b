"""Rules of votes and epochs: what is granted to whom, and what is on disk before anybody learns of it."""

from collections import defaultdict

from pykraft.core.epoch_budget import EPOCHS_PER_DAY
from pykraft.core.quorum import majority_of
from pykraft.sim.invariants.invariant import DOWN, Invariant, SimulatedNode, Spoken, View
from pykraft.sim.machine.spoken import LogEnd
from pykraft.types import ReplicaKey


class LeaderHasItsVotes(Invariant):
    """A new leader has the votes of a majority of its voter set.

    Its own vote counts if it is one of them.

    Source: Raft paper §5.2; KIP-853 (voter keys, the set in force); Kafka ``CandidateState.isVoteGranted``.
    """

    def _begin(self) -> None:
        self._votes: defaultdict[tuple[int, int], set[ReplicaKey]] = defaultdict(set)
        """By epoch and candidate."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        if spoken.candidate_id is not None:
            self._votes[spoken.epoch, spoken.candidate_id].add(node.key)

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        if not now.leads or (was.leads and was.epoch == now.epoch):
            return
        votes = self._votes[now.epoch, int(node.node_id)] | {node.key}
        granted = [int(voter.key.id) for voter in now.voters.voters if any(voter.key.matches(key) for key in votes)]
        if len(granted) < majority_of(len(now.voters)):
            seen = f"node {node.node_id} leads epoch {now.epoch} with the votes of {granted}"
            raise self.violated(f"{seen}, the voters are {[*map(int, now.voters.ids)]}")


ELECTIONS_MAX = 2**16
"""Far more elections than a world has, including what a budget gains in that time."""


class EpochsGrowWithinBudget(Invariant):
    """No epoch is above the elections of a world plus a day's budget of each process that ever started.

    An epoch has 31 bits and never falls: a quorum that reaches the last one can elect nobody. Each process starts
    with the budget of a day; elections need very little of it.

    Source: ADR 029; Raft dissertation §6.2 (disruptive servers).
    """

    def _begin(self) -> None:
        self._starts = 0

    def started(self, _node: SimulatedNode) -> None:
        self._starts += 1

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        bound = ELECTIONS_MAX + self._starts * EPOCHS_PER_DAY
        if now.epoch > bound:
            seen = f"node {node.node_id} is in epoch {now.epoch}, it was in {was.epoch}"
            raise self.violated(f"{seen}; {self._starts} processes may have brought it to {bound}")


OBSERVER_ROLES = frozenset({"unattached", "unattached-voted", "observer"})
LEAVING_ROLES = frozenset({"leader", "resigned"})
FIRST_ROLES = frozenset({"unattached", "unattached-voted", "follower", "observer", "candidate", "resigned"})
"""States in which a process may begin, depending on what its disk holds."""
MAY_RESIGN = frozenset({"leader", "candidate"})
"""A node that is asked to leave while it campaigns resigns in the same event in which it wins."""


class LegalMoves(Invariant):
    """No node is a candidate without pre-votes, a leader without a candidacy, or resigned without having led.

    The oracle has rules of its own for what is visible from outside between two events. A candidate asked for
    pre-votes before, a leader was a candidate of the same epoch, and a node that resigned has led. An observer only
    observes; but a leader continues after it has removed itself, and may resign then. A voter of the set before the
    newest one in its log may still act as a voter, because the newest set need not be committed.

    Source: Kafka ``QuorumState`` (transitions); KIP-996; Raft dissertation §4.2.2; NoIllegalState and
    ValidRolesAndStates of Vanlightly's specification of KRaft.
    """

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        if not now.is_up:
            return
        who = f"node {node.node_id}, which was {was.role} in epoch {was.epoch}, is {now.role} in epoch {now.epoch}"
        if (
            now.role not in OBSERVER_ROLES
            and not now.voters.is_voter(node.key)
            and not self._is_leaving(node, was, now)
        ):
            raise self.violated(f"{who}, and it is no voter")
        if now.leads is not (now.leader_id == node.node_id) and now.role != "resigned":
            raise self.violated(f"{who}, and takes {now.leader_id} for the leader")
        if len(now.voters) > 1 and not self._may_follow(was, now):
            raise self.violated(who)

    def _is_leaving(self, node: SimulatedNode, was: View, now: View) -> bool:
        begins = now.leads and (was.role, was.epoch) != (now.role, now.epoch)
        has_led = now.role in LEAVING_ROLES and not begins
        return has_led or self.facts.members.former_voters_of(node).is_voter(node.key)

    def _may_follow(self, was: View, now: View) -> bool:
        if was.role == DOWN:
            return now.role in FIRST_ROLES
        if (now.role, now.epoch) == (was.role, was.epoch):
            return True
        if now.epoch < was.epoch:
            return False
        match now.role:
            case "candidate":
                has_asked = was.is_prospective or not self.facts.members.has_pre_votes
                return has_asked and now.epoch == was.epoch + 1
            case "leader":
                return was.role == "candidate" and now.epoch == was.epoch
            case "resigned":
                return was.role in MAY_RESIGN and now.epoch == was.epoch
            case _:
                return True


class MonotonicEpoch(Invariant):
    """The durable epoch of a node never falls, and the one in memory never falls below it.

    The durable epoch never decreases, and the epoch in memory is never below it; they are equal when no write is
    under way.

    Source: Kafka ``RaftEventSimulationTest.MonotonicEpoch``, made stricter for writes that are under way; Raft
    paper §5.1.
    """

    def _begin(self) -> None:
        self._durable: dict[int, int] = {}

    def wiped(self, node: SimulatedNode) -> None:
        self._durable.pop(node.node_id, None)

    def forgot_votes(self, node: SimulatedNode) -> None:
        self.wiped(node)

    def changed(self, node: SimulatedNode, _was: View, now: View) -> None:
        durable, known = now.disk.epoch, self._durable.get(node.node_id, 0)
        if durable < known:
            raise self.violated(f"quorum-state of node {node.node_id} fell from epoch {known} to {durable}")
        self._durable[node.node_id] = durable
        if now.is_up and (now.epoch < durable or (now.is_settled and now.epoch != durable)):
            raise self.violated(f"node {node.node_id} is in epoch {now.epoch}, its disk in {durable}")


class EpochBeginsWithCandidate(Invariant):
    """The first node in an epoch is a candidate in it or led the epoch before, unless a stranger named the epoch.

    A node that asks for pre-votes stays in its epoch, in memory and on disk, however often it asks. Otherwise a
    node that was cut off would return with an epoch that unseats a healthy leader.

    Source: KIP-996 (a prospective replica raises no epoch and persists nothing); Raft dissertation §9.6.
    """

    def _begin(self) -> None:
        self._highest = 0

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        if not now.is_up or now.epoch <= self._highest:
            return
        self._highest = now.epoch
        has_resigned = was.role == "resigned" and now.epoch == was.epoch + 1
        is_claimed = now.epoch in self.facts.claims.epochs
        if now.role not in {"candidate", "leader"} and not has_resigned and not is_claimed:
            raise self.violated(f"node {node.node_id} opened epoch {now.epoch} as {now.role}, it was {was.role} before")


class OldEpochsAreFenced(Invariant):
    """No request of an epoch below the one in its answer is answered without an error.

    A Vote, BeginQuorumEpoch or EndQuorumEpoch of an older epoch gets FENCED_LEADER_EPOCH, and its sender learns the
    newer epoch from the answer. A replica that acted on such a request would campaign, or follow a leader, without
    a reason.

    Source: KIP-595 §Vote, §BeginQuorumEpoch, §EndQuorumEpoch (FENCED_LEADER_EPOCH); Raft paper §5.1.
    """

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        served = spoken.served_epoch
        if served is not None and served < spoken.epoch:
            raise self.violated(f"node {node.node_id}, in epoch {spoken.epoch}, serves a request of epoch {served}")


class PreVotesAreGranted(Invariant):
    """A node denies a pre-vote to a log at least as long as its own only if it leads, or hears a leader that stays.

    Otherwise an election waits for a timeout that nobody needs: with five voters, those whose leader has left would
    still deny the successor that it named.

    A damaged or unproven voter cannot compare logs. A candidate with another directory than the voter knew as a
    leader counts for nobody (ADR 130), also if only a flipped bit makes it another.

    Source: KIP-996; ADR 129 (a follower whose leader has left grants, which Kafka's does not).
    """

    def _begin(self) -> None:
        self._wiped: set[int] = set()

    def wiped(self, node: SimulatedNode) -> None:
        self._wiped.add(int(node.node_id))

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        asked = spoken.denied
        if asked is None or asked.may_be_denied or asked.is_voter_damaged or asked.voter_log is None:
            return
        candidate = self.facts.nodes.get(asked.candidate_id)
        is_itself = candidate is not None and asked.candidate_directory_id in {None, candidate.key.directory_id}
        is_other_directory = asked.candidate_id in self._wiped | self.facts.claims.twin_ids or not is_itself
        if asked.candidate_log.is_at_least(asked.voter_log) and not is_other_directory:
            seen = f"node {node.node_id} denies {asked.candidate_id} its pre-vote in epoch {asked.epoch}"
            raise self.violated(f"{seen}, without a leader and with a log that is no longer")


class EpochIsDurableFirst(Invariant):
    """No frame leaves with an epoch above the one that a power loss now would leave.

    If it lost the epoch with the power, it could later do in that epoch what it had promised not to do.

    Source: Raft paper §5.1 (currentTerm is updated on stable storage before responding to RPCs); etcd
    ``raft/doc.go``.
    """

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        durable = self.facts.platters.election(node).epoch
        if spoken.epoch > durable:
            raise self.violated(f"node {node.node_id} speaks of epoch {spoken.epoch}, its disk knows {durable}")


class CandidateIsUpToDate(Invariant):
    """No node grants a vote or a pre-vote to a candidate whose log is shorter than its own.

    Every committed record is in the log of some voter of each majority, so the winner holds all of them.

    A voter repeats its vote when the same candidate asks again in that epoch. By then the voter may have followed
    the elected leader and have records of the epoch, so its log may be longer than at its first vote; that is still
    the same vote.

    Source: Raft paper §5.4.1 (the later last term wins, then the longer log); KIP-996 for pre-votes.
    """

    def _begin(self) -> None:
        self._votes: dict[int, tuple[int, int]] = {}
        """By node: epoch and candidate of its newest vote, if it had no record of that epoch then."""

    def wiped(self, node: SimulatedNode) -> None:
        self._votes.pop(int(node.node_id), None)

    def forgot_votes(self, node: SimulatedNode) -> None:
        self.wiped(node)

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        epoch, voted_id = now.disk.epoch, now.disk.voted_id
        if was.disk == now.disk or voted_id is None:
            return
        if self.facts.platters.end(node).epoch < epoch:
            self._votes[int(node.node_id)] = (epoch, voted_id)

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        asked = spoken.granted
        if asked is None or asked.voter_log is None or asked.candidate_log.is_at_least(asked.voter_log):
            return
        is_repeated = asked.voter_log.epoch == asked.epoch and not asked.is_pre_vote
        if is_repeated and self._votes.get(int(node.node_id)) == (asked.epoch, asked.candidate_id):
            return
        what = "pre-vote" if asked.is_pre_vote else "vote"
        seen = f"node {node.node_id} gives {asked.candidate_id} its {what} in epoch {asked.epoch}"
        ends = f"whose log ends at {_shown(asked.candidate_log)}, its own at {_shown(asked.voter_log)}"
        raise self.violated(f"{seen}, {ends}")


def _shown(log: LogEnd) -> str:
    return f"offset {log.offset} of epoch {log.epoch}"


class OneVote(Invariant):
    """Each node votes for one candidate in an epoch, and the vote is durable before anybody else learns of it.

    A candidate's vote for itself counts: its Vote requests are a promise, too.

    Source: Raft paper §5.2 (each server votes for at most one candidate in a term) and §5.1 (votedFor is
    persistent).
    """

    def _begin(self) -> None:
        self._votes: dict[tuple[int, int], int] = {}

    def wiped(self, node: SimulatedNode) -> None:
        self._votes = {key: candidate_id for key, candidate_id in self._votes.items() if key[0] != node.node_id}

    def forgot_votes(self, node: SimulatedNode) -> None:
        self.wiped(node)

    def emptied(self, node: SimulatedNode) -> None:
        """Its votes may still count, so it must not vote otherwise in any of those epochs."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        if spoken.candidate_id is None:
            return
        election = self.facts.platters.election(node)
        seen = f"node {node.node_id} votes for {spoken.candidate_id} in epoch {spoken.epoch}"
        if election.epoch == spoken.epoch and election.voted_id != spoken.candidate_id:
            raise self.violated(f"{seen}, its disk knows a vote for {election.voted_id}")
        before = self._votes.setdefault((int(node.node_id), spoken.epoch), spoken.candidate_id)
        if before != spoken.candidate_id:
            raise self.violated(f"{seen}, and voted for {before} before")


class VotesAreForCandidates(Invariant):
    """A node with a vote on some disk was seen as a candidate of that epoch before.

    A pre-vote is not a vote. A node that stored it as one could not vote for another candidate in that epoch.

    Source: KIP-996 (nothing of a pre-vote is persisted); Raft dissertation §9.6.
    """

    def _begin(self) -> None:
        self._candidates: set[tuple[int, int]] = set()

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        if now.role in {"candidate", "leader"}:
            self._candidates.add((now.epoch, int(node.node_id)))
        voted_id = now.disk.voted_id
        if voted_id is None or was.disk == now.disk:
            return
        # A stranger may ask for votes under any id, and a voter cannot tell.
        if (now.disk.epoch, voted_id) in self._candidates | self.facts.claims.candidates:
            return
        seen = f"node {node.node_id} keeps a vote for {voted_id} in epoch {now.disk.epoch}"
        raise self.violated(f"{seen}, which was not a candidate then")


class VotesAreOfTheDisk(Invariant):
    """A node that grants a vote has the directory id that the request names.

    A voter with a new disk has forgotten its votes and its log: it is another replica, and not a voter until the
    leader adds it.

    Source: KIP-853 §Directory id; KAFKA-14077; Kafka ``KafkaRaftClient.handleVoteRequest`` (INVALID_VOTER_KEY).
    """

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        asked = spoken.granted
        if asked is not None and asked.voter_directory_id not in (None, node.key.directory_id):
            what = "pre-vote" if asked.is_pre_vote else "vote"
            seen = f"node {node.node_id} gives {asked.candidate_id} its {what} in epoch {asked.epoch}"
            raise self.violated(f"{seen}, and another disk was asked for it")
