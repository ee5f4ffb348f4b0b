"""Rules of campaigns: who asks for votes, when, and who must not."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pykraft.core.election import EARLY_BACKOFFS
from pykraft.core.never_leads import TIMEOUTS_MAX
from pykraft.core.state import Follower
from pykraft.sim.invariants.invariant import Invariant, KeptLeader, Report, SimulatedNode, View, dialed_id
from pykraft.sim.machine.node import Process
from pykraft.sim.scenario.scenario import KINDS
from pykraft.types import Listeners, ReportKind


class _Heard(NamedTuple):
    """When a process last heard a leader, led, or began, and what it had been asked by then."""

    process: Process
    at_ms: int
    asked: int
    """Votes that candidates with shorter logs had asked for."""
    deadline_ms: int
    """The fetch deadline, which an answer of the leader moves."""


class CampaignsOfLastResort(Invariant):
    """A voter that never leads campaigns only if no other voter seems able to be elected.

    It needs one of two reasons since it last heard a leader: a candidate with a shorter log has asked for its vote,
    or as much time has passed as three election timeouts take at least. Otherwise it would take part in every
    election, win many of them, and the quorum would be without a leader for longer than it has to.

    Source: ours (ADR 077).
    """

    def _begin(self) -> None:
        self._heard: dict[int, _Heard] = {}

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        process = node.process
        if process is None or not node.config.raft.never_leads:
            return
        heard, now_ms = self._heard.get(int(node.node_id)), node.clock.instant.mono_ms
        is_campaign = now.is_prospective and not was.is_prospective and was.role != "candidate"
        if is_campaign and heard is not None and heard.process is process:
            waited_ms, least_ms = now_ms - heard.at_ms, TIMEOUTS_MAX * node.config.raft.election_timeout_ms
            if waited_ms < least_ms and process.wiretap.asked_by_shorter == heard.asked:
                seen = f"node {node.node_id}, which never leads, campaigns in epoch {now.epoch} after {waited_ms} ms"
                raise self.violated(f"{seen}, and no candidate with a shorter log has asked it")

    def after_event(self, node: SimulatedNode, now: View) -> None:
        process = node.process
        if process is None or not node.config.raft.never_leads:
            return
        heard, raft = self._heard.get(int(node.node_id)), process.host.raft
        state = raft.state if raft is not None else None
        # An answer that the node ignores tells nothing, so the deadline counts, not the answers on the wire.
        deadline_ms = state.fetch_deadline_ms if isinstance(state, Follower) and state.has_fetched else 0
        is_new = heard is None or heard.process is not process
        if is_new or now.leads or (heard is not None and deadline_ms > heard.deadline_ms):
            asked = process.wiretap.asked_by_shorter
            self._heard[int(node.node_id)] = _Heard(process, node.clock.instant.mono_ms, asked, deadline_ms)


HOPS: Final = 20
"""Frames one after the other between the end of a leader and a candidate, and slow ones among them."""
US_PER_MS: Final = 1_000


class _Death(NamedTuple):
    """A leader whose process ended."""

    node_id: int
    epoch: int
    at_us: int
    faults: int
    """How many faults had happened by then."""


class DeadLeaderIsMissed(Invariant):
    """Within a fraction of the fetch timeout after a leader's process ended, a voter becomes a candidate.

    The connections of the followers break, and dialing the leader again is refused. Each follower notices within a
    moment, so one of them asks for pre-votes early and gets them. The oracle judges only when nothing else is
    wrong: all other voters follow the leader when it ends, none is paused or damaged, all links and disks work, and
    no other fault happens before the bound.

    Source: ours (ADR 063).
    """

    def _begin(self) -> None:
        self._views: dict[int, View] = {}
        self._death: _Death | None = None
        links, quorum = self.facts.scenario.links, self.facts.scenario.quorum
        self.bound_us = (2 * EARLY_BACKOFFS + 5) * 20 * US_PER_MS + HOPS * max(links.latency_us_max)
        # Otherwise the fetch timeout itself would be about as early, or a dial that is not answered would look like one
        # that is refused.
        self._is_on = (
            2 * self.bound_us <= quorum.fetch_timeout_ms * US_PER_MS
            and not links.unanswered_probability
            and not links.half_open_probability
        )

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        node_id = int(node.node_id)
        self._views[node_id] = now
        death = self._death
        if death is not None and (now.role == "candidate" or node_id == death.node_id) and now.is_up:
            self._death = None
        if self._is_on and was.leads and not now.is_up and self._are_well(node_id, was):
            self._death = _Death(node_id, was.epoch, self.facts.clock.now_us, self._faults())

    def after_event(self, _node: SimulatedNode, _now: View) -> None:
        death = self._death
        if death is None:
            return
        if self._faults() != death.faults or not self.facts.network.is_usual:
            self._death = None
            return
        past_us = self.facts.clock.now_us - death.at_us
        if past_us > self.bound_us:
            seen = f"node {death.node_id}, the leader of epoch {death.epoch}, ended {past_us} us ago"
            raise self.violated(f"{seen}, and no voter is a candidate yet")

    def _faults(self) -> int:
        return sum(self.facts.counts[kind] for kind in KINDS)

    def _are_well(self, leader_id: int, leader: View) -> bool:
        others = [self.facts.nodes[int(each)] for each in leader.voters.ids if int(each) != leader_id]
        return bool(others) and self.facts.network.is_usual and all(self._is_well(each, leader) for each in others)

    def _is_well(self, node: SimulatedNode, leader: View) -> bool:
        view, process = self._views.get(int(node.node_id)), node.process
        return (
            view is not None
            and process is not None
            and not process.is_paused
            and not process.is_leaving
            and not node.is_damaged
            and node.disk.io_errors.stalled_until_us <= self.facts.clock.now_us
            and (view.role, view.epoch, view.has_fetched) == ("follower", leader.epoch, True)
        )


@dataclass(slots=True, kw_only=True)
class _Following:
    """A leader, and what a follower has seen of it."""

    process: Process
    epoch: int
    leader_id: int
    dialed_id: int
    fetch_deadline_ms: int = 0
    answers: int = 0
    """Answers of the leader so far."""
    refusals: int = 0
    """Connections that the leader's machine had refused when the last answer came."""
    used: int = 0
    """Answers of the leader when the follower last campaigned early, or began to follow it."""


class EarlyCampaignsHaveReason(Invariant):
    """A follower campaigns early again only after its leader has answered and then refused a connection.

    A connection that merely breaks is dialed again. If the leader's machine refuses the dial, its process has
    perhaps ended, and the follower asks for pre-votes early, once. It does so again only after another answer of
    the leader and another refusal: otherwise a leader that cannot be dialed, but serves others, would be troubled
    for ever.

    Source: ours (ADR 063).
    """

    def _begin(self) -> None:
        self._following: dict[int, _Following] = {}

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        seen, process = self._following.get(int(node.node_id)), node.process
        is_campaign = was.role == "follower" and now.is_prospective and was.epoch == now.epoch
        # A voter that never leads stays a follower when it gives its leader up. Then it has reasons of its own to
        # campaign, which `abstention` checks.
        is_campaign = is_campaign and (was.has_fetched or not node.config.raft.never_leads)
        if seen is None or not is_campaign or process is None or seen.process is not process:
            return
        # EndQuorumEpoch ends the wait, perhaps later: when the leader confirms it (`core.departure`).
        is_told = any(
            (told.epoch, told.leader_id) == (seen.epoch, seen.leader_id) for told in process.wiretap.departures
        )
        # Where a stranger poses as the leader, the voter that it names answers, too, and at another address.
        is_posed = seen.epoch in self.facts.claims.led | self.facts.claims.misplaced
        if is_told or is_posed or node.clock.instant.mono_ms >= seen.fetch_deadline_ms:
            return
        who = f"node {node.node_id} campaigns before its fetch timeout, and node {seen.leader_id}, which leads epoch"
        if process.wiretap.refusals[seen.dialed_id] == seen.refusals:
            raise self.violated(f"{who} {seen.epoch}, has refused no connection since it answered")
        if seen.answers == seen.used:
            raise self.violated(f"{who} {seen.epoch}, has not answered since the last time")
        seen.used = seen.answers

    def after_event(self, node: SimulatedNode, now: View) -> None:
        node_id, process = int(node.node_id), node.process
        raft = process.host.raft if process is not None else None
        # An observer may become a voter by the very answer after which the leader refuses connections.
        is_following = now.role in {"follower", "observer"}
        if not is_following or process is None or raft is None or not isinstance(raft.state, Follower):
            return
        state, wiretap, seen = raft.state, process.wiretap, self._following.get(node_id)
        dialed = dialed_id(state)
        answers, refusals = wiretap.answers[dialed], wiretap.refusals[dialed]
        known = (process, state.epoch, state.leader_id, dialed)
        if seen is None or (seen.process, seen.epoch, seen.leader_id, seen.dialed_id) != known:
            seen = _Following(process=process, epoch=state.epoch, leader_id=state.leader_id, dialed_id=dialed)
            seen.answers = seen.used = answers
            seen.refusals = refusals
            self._following[node_id] = seen
        # A leader that came back with an empty disk answers, too, but it leads no more: that takes no reason away.
        if answers > seen.answers and state.has_fetched:
            seen.answers, seen.refusals = answers, refusals
        seen.fetch_deadline_ms = state.fetch_deadline_ms


class _Heeding(NamedTuple):
    """A leader, and what a follower has got from it."""

    epoch: int
    leader_id: int
    departures: int
    """EndQuorumEpoch requests that its process had received by then."""
    end_offset: int
    downloads: bool
    awaits_slice: bool
    heard_ms: int | None = None
    """When it last got something, by its own clock."""
    dialed_id: int = 0
    """The node that it dials."""
    refusals: int = 0
    """Connections that the leader's machine had refused by then."""


class LivingLeaderIsFollowed(Invariant):
    """No voter campaigns within a fetch timeout after records or a slice from its leader, unless the leader is gone.

    These are the surest signs that the leader is alive. A follower that ignores one campaigns too early: the others
    deny its pre-votes, and it has lost its leader for nothing, perhaps in the middle of a long download. A leader
    that has refused a connection since may be gone (`early_campaign`).

    Source: KIP-595 §Leader progress timeout; KIP-630 §FetchSnapshot (a valid response resets the fetch timer).
    """

    def _begin(self) -> None:
        self._following: dict[int, _Heeding] = {}

    def reported(self, node: SimulatedNode, report: Report) -> None:
        if report.kind is ReportKind.LEADER_GIVEN_UP:
            self._following.pop(int(node.node_id), None)

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        following = self._following.get(int(node.node_id))
        is_campaign = was.role == "follower" and now.is_prospective and was.epoch == now.epoch
        is_campaign &= not self.facts.claims.has_said_goodbye
        if following is None or not is_campaign or node.process is None or following.heard_ms is None:
            return
        silent_ms = node.clock.instant.mono_ms - following.heard_ms
        was_told = len(node.process.wiretap.departures) != following.departures
        was_refused = node.process.wiretap.refusals[following.dialed_id] != following.refusals
        if silent_ms < node.config.raft.fetch_timeout_ms and not (was_told or was_refused):
            seen = f"node {node.node_id} campaigns {silent_ms} ms after it took something from {following.leader_id}"
            raise self.violated(f"{seen}, its leader of epoch {following.epoch}")

    def after_event(self, node: SimulatedNode, now: View) -> None:
        node_id, process = int(node.node_id), node.process
        raft = process.host.raft if process is not None else None
        if now.role != "follower" or process is None or raft is None or not isinstance(raft.state, Follower):
            self._following.pop(node_id, None)
            return
        state, was = raft.state, self._following.get(node_id)
        end_offset, download = raft.log.end_offset, state.download
        awaits_slice = download is not None and download.position is not None
        if was is None or (was.epoch, was.leader_id) != (state.epoch, state.leader_id):
            departures = len(process.wiretap.departures)
            was = _Heeding(state.epoch, state.leader_id, departures, end_offset, download is not None, awaits_slice)
        # A snapshot that replaces the log moves its end, too, although nothing came from the leader.
        has_records = download is None and not was.downloads and end_offset > was.end_offset
        has_slice = was.awaits_slice and download is not None and not awaits_slice
        if has_records or has_slice:
            refusals = process.wiretap.refusals[dialed_id(state)]
            was = was._replace(heard_ms=node.clock.instant.mono_ms, refusals=refusals, dialed_id=dialed_id(state))
        self._following[node_id] = was._replace(
            end_offset=end_offset, downloads=download is not None, awaits_slice=awaits_slice
        )


@dataclass(frozen=True, slots=True)
class _Reach:
    """A follower that reaches its leader, and what it had seen of it when the last answer came."""

    process: Process
    epoch: int
    leader_id: int
    listeners: Listeners
    answers: int
    refusals: int
    departures: int
    since: int
    """Since which event."""
    heard_ms: int
    """When the last answer came, by the follower's clock; 0 before the first one."""
    has_heard: bool


class ReachedLeaderStays(KeptLeader):
    """No node becomes a candidate if a majority has reached the leader since the node began to ask for pre-votes.

    A voter reaches its leader from one answer on, until a fetch timeout later, unless the leader's machine refuses
    it a connection or the leader says that it resigns. The answer is one to a Fetch of the leader's epoch: a Fetch
    that was under way since an older one gets an error, whatever the voter has heard meanwhile. Such voters deny
    pre-votes (`KeptLeader`). `stable_leadership` asks the voters themselves whether they hear the leader; this
    oracle looks at what arrived, so it also notices a voter that gives up too early.

    Source: KIP-996; ours (ADR 063).
    """

    _verb = "reached"

    def _begin(self) -> None:
        super()._begin()
        self._reaches: dict[int, _Reach] = {}

    def reported(self, node: SimulatedNode, report: Report) -> None:
        if report.kind is ReportKind.LEADER_GIVEN_UP:
            self._reaches.pop(int(node.node_id), None)

    def after_event(self, node: SimulatedNode, now: View) -> None:
        self._events += 1
        node_id, process = int(node.node_id), node.process
        raft = process.host.raft if process is not None else None
        if now.role != "follower" or process is None or raft is None or not isinstance(raft.state, Follower):
            self._reaches.pop(node_id, None)
            return
        state, tap, reach = raft.state, process.wiretap, self._reaches.get(node_id)
        answers, refusals, departures = (
            tap.fetch_answers_in[dialed_id(state), state.epoch],
            tap.refusals[dialed_id(state)],
            len(tap.departures),
        )
        if node.config.raft.never_leads and not state.has_fetched and self._is_silent(node, reach):
            # It gives its leader up as any other voter does, which then asks for pre-votes. This one stays a follower.
            self._reaches.pop(node_id, None)
            return
        known = (process, state.epoch, state.leader_id, state.leader_listeners)
        if reach is None or (reach.process, reach.epoch, reach.leader_id, reach.listeners) != known:
            self._reaches[node_id] = _Reach(*known, answers, refusals, departures, self._events, 0, has_heard=False)
        elif departures != reach.departures or refusals != reach.refusals:
            # Gone, as far as it knows: begin anew with the next answer.
            self._reaches[node_id] = _Reach(*known, answers, refusals, departures, self._events, 0, has_heard=False)
        elif answers != reach.answers and self._holding.get(state.leader_id, (-1, 0))[0] == state.epoch:
            since = reach.since if reach.has_heard else self._events
            heard_ms = node.clock.instant.mono_ms
            self._reaches[node_id] = _Reach(*known, answers, refusals, departures, since, heard_ms, has_heard=True)

    def _holds(self, now: View) -> bool:
        # What a follower believes does not count here.
        return now.leads

    def _deniers(self, holding: Sequence[int], epoch: int, began: int) -> Iterable[int]:
        reaching = [
            node_id
            for node_id, reach in self._reaches.items()
            if reach.leader_id in holding and reach.since < began and self._still_reaches(node_id, reach, epoch)
        ]
        return (*holding, *reaching)

    def _still_reaches(self, node_id: int, reach: _Reach, epoch: int) -> bool:
        node = self.facts.nodes[node_id]
        return reach.epoch == epoch and node.process is reach.process and not self._is_silent(node, reach)

    @staticmethod
    def _is_silent(node: SimulatedNode, reach: _Reach | None) -> bool:
        """True if no answer came for a fetch timeout, or none at all."""
        if reach is None or not reach.has_heard:
            return True
        return node.clock.instant.mono_ms - reach.heard_ms >= node.config.raft.fetch_timeout_ms
