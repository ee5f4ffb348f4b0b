"""What the oracles of campaigns report, and what they accept."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.state import SnapshotDownload
from pykraft.sim.invariants import ViolationError, campaigns
from pykraft.sim.invariants.invariant import DOWN
from pykraft.sim.machine.spoken import Departure
from pykraft.sim.scenario.scenario import DEFAULT, LinkSettings, QuorumSettings
from pykraft.types import ReportKind
from tests.sim.invariants.fakes import BEFORE, following, node, report, snapshot_id, view, world

FOLLOWS, CAMPAIGNS = view("follower", leader_id=2), view("prospective")
LEADER, ASKING, CANDIDATE = view("leader", 1), view("prospective", 1), view("candidate", 2)

# abstention: A voter that never leads and campaigns without a reason is found.
HAS_FETCHED = view("follower", leader_id=2, has_fetched=True)


class Story:
    """One process of node 1."""

    def __init__(self, *, never_leads: bool = True) -> None:
        self.oracle = campaigns.CampaignsOfLastResort(world())
        self._never_leads = never_leads
        self._process: Any = None

    def at(self, ms: int, *, asked: int = 0, deadline_ms: int = 500, is_new: bool = False) -> Any:
        found = following(ms=ms, deadline_ms=deadline_ms, has_fetched=True)
        state = found.host.raft.state
        if self._process is None or is_new:
            self._process = found.process
        found.process = self._process
        found.process.host.raft.state = state
        found.process.wiretap = SimpleNamespace(asked_by_shorter=asked)
        raft = replace(found.config.raft, never_leads=self._never_leads, election_timeout_ms=200)
        found.config = SimpleNamespace(raft=raft)
        return found

    def follows(self, ms: int, **seen: Any) -> None:
        self.oracle.after_event(self.at(ms, **seen), HAS_FETCHED)

    def campaigns(self, ms: int, **seen: Any) -> None:
        self.oracle.changed(self.at(ms, **seen), HAS_FETCHED, CAMPAIGNS)


def test_a_campaign_without_a_reason_is_found() -> None:
    story = Story()
    story.campaigns(0)
    story.follows(0)
    story.follows(50, asked=1)
    with pytest.raises(ViolationError, match="campaigns in epoch 1 after 599 ms, and no candidate"):
        story.campaigns(599)


def test_three_timeouts_or_a_shorter_log_are_reasons() -> None:
    story = Story()
    story.follows(0)
    story.campaigns(600)
    story.campaigns(10, asked=1)
    story.follows(20, asked=1, deadline_ms=520)
    with pytest.raises(ViolationError, match="after 30 ms"):
        story.campaigns(50, asked=1, deadline_ms=520)
    story.campaigns(60, asked=1, is_new=True)


def test_other_voters_are_not_judged() -> None:
    story = Story(never_leads=False)
    story.follows(0)
    story.campaigns(1)


# dead_leader: A leader whose process ended, and that nobody misses in time, is found; only when nothing else is wrong.
LEADS, ENDED = view("leader"), view(DOWN)
DEAD_LEADER_FOLLOWS = view("follower", leader_id=1, has_fetched=True)
SLOW = replace(DEFAULT, quorum=QuorumSettings(fetch_timeout_ms=4_000))
MISSED = "node 1, the leader of epoch 1, ended .* us ago, and no voter is a candidate yet"


class DeadLeaderStory:
    """Node 1 leads, nodes 2 and 3 follow it."""

    def __init__(self, scenario: Any = SLOW) -> None:
        self.facts = world(now_us=0)
        self.facts.scenario = scenario
        self.facts.network.is_usual = True
        self.facts.nodes = {each: running(each) for each in (1, 2, 3)}
        self.oracle = campaigns.DeadLeaderIsMissed(self.facts)
        self.see(1, BEFORE, LEADS)
        for each in (2, 3):
            self.see(each, BEFORE, DEAD_LEADER_FOLLOWS)

    def see(self, node_id: int, was: Any, now: Any) -> None:
        self.oracle.changed(self.facts.nodes[node_id], was, now)

    def end(self) -> None:
        self.see(1, LEADS, ENDED)

    def wait(self) -> None:
        for _ in range(2):
            self.facts.clock.now_us += self.oracle.bound_us // 2 + 1
            self.oracle.after_event(self.facts.nodes[2], DEAD_LEADER_FOLLOWS)


def running(node_id: int) -> Any:
    made = node(node_id, epoch=1)
    made.process.is_paused = made.process.is_leaving = False
    made.disk.io_errors = SimpleNamespace(stalled_until_us=0)
    return made


def test_a_leader_that_nobody_misses_is_found() -> None:
    story = DeadLeaderStory()
    story.wait()
    story.end()
    with pytest.raises(ViolationError, match=MISSED):
        story.wait()


def test_a_candidate_or_the_leaders_return_is_in_time() -> None:
    for node_id, now in ((2, view("candidate", 2)), (1, view("resigned"))):
        story = DeadLeaderStory()
        story.end()
        story.see(3, DEAD_LEADER_FOLLOWS, view("prospective"))
        story.see(node_id, DEAD_LEADER_FOLLOWS, now)
        story.wait()


def test_another_fault_meanwhile_is_an_excuse() -> None:
    story = DeadLeaderStory()
    story.end()
    story.facts.counts["pause"] += 1
    story.wait()
    story = DeadLeaderStory()
    story.end()
    story.facts.network.is_usual = False
    story.wait()


@pytest.mark.parametrize("field", ["is_paused", "is_leaving"])
def test_all_others_have_to_run(field: str) -> None:
    story = DeadLeaderStory()
    setattr(story.facts.nodes[3].process, field, True)
    story.end()
    story.wait()


def test_all_others_have_to_follow_and_to_be_whole() -> None:
    story = DeadLeaderStory()
    story.facts.nodes[3].process = None
    story.end()
    story.wait()
    story = DeadLeaderStory()
    story.facts.nodes[3].is_damaged = True
    story.end()
    story.wait()
    story = DeadLeaderStory()
    story.facts.nodes[3].disk.io_errors.stalled_until_us = 9
    story.end()
    story.wait()
    story = DeadLeaderStory()
    story.see(3, DEAD_LEADER_FOLLOWS, view("follower", leader_id=1))
    story.end()
    story.wait()
    story = DeadLeaderStory()
    story.facts.network.is_usual = False
    story.end()
    story.facts.network.is_usual = True
    story.wait()


def test_it_judges_only_where_a_dial_is_answered_and_the_timeout_is_long() -> None:
    for scenario in (
        DEFAULT,
        replace(SLOW, links=LinkSettings(unanswered_probability=0.1)),
        replace(SLOW, links=LinkSettings(half_open_probability=0.1)),
    ):
        story = DeadLeaderStory(scenario)
        story.end()
        story.wait()


# early_campaign: A campaign before the fetch timeout without a refusal, or without an answer since the last one, is
# found.
OBSERVES = view("observer", leader_id=2)
NO_REFUSAL = "has refused no connection since it answered"
NO_ANSWER = "has not answered since the last time"


def made(
    answers: int,
    refusals: int,
    *,
    ms: int = 0,
    departures: int = 0,
    epoch: int = 1,
    has_fetched: bool = True,
    process: Any = None,
) -> Any:
    """A follower of node 2 with a fetch deadline at 500 ms, and what its process has seen of node 2."""
    found = following(ms=ms, epoch=epoch, has_fetched=has_fetched)
    if process is not None:
        process.host = found.process.host
        found.process = process
    found.process.wiretap = SimpleNamespace(
        answers={2: answers},
        refusals={2: refusals},
        departures=[Departure(epoch=epoch, leader_id=2, has_successors=True)] * departures,
    )
    return found


class EarlyCampaignStory:
    """One process of node 1."""

    def __init__(self) -> None:
        self.oracle = campaigns.EarlyCampaignsHaveReason(world())
        self.process = made(0, 0).process

    def follows(self, answers: int, refusals: int, **seen: Any) -> None:
        self.oracle.after_event(made(answers, refusals, process=self.process, **seen), FOLLOWS)

    def observes(self, answers: int, refusals: int, **seen: Any) -> None:
        self.oracle.after_event(made(answers, refusals, process=self.process, **seen), OBSERVES)

    def campaigns(self, answers: int, refusals: int, **seen: Any) -> None:
        self.oracle.changed(made(answers, refusals, process=self.process, **seen), FOLLOWS, CAMPAIGNS)


def test_a_campaign_after_an_answer_and_a_refusal_is_right_once() -> None:
    story = EarlyCampaignStory()
    story.follows(0, 0)
    story.follows(3, 0)
    story.campaigns(3, 1, ms=100)
    story.follows(3, 1)
    with pytest.raises(ViolationError, match=NO_ANSWER):
        story.campaigns(3, 2, ms=200)
    story.campaigns(3, 2, ms=500)
    story.follows(4, 2)
    story.campaigns(4, 3, ms=300)


def test_an_answer_to_the_observer_that_it_was_counts_for_a_voter() -> None:
    story = EarlyCampaignStory()
    story.observes(0, 0)
    story.follows(1, 0)  # the answer brought the record that makes it a voter
    story.campaigns(1, 1, ms=100)
    story.follows(1, 1)
    with pytest.raises(ViolationError, match=NO_ANSWER):
        story.campaigns(1, 2, ms=200)


def test_a_campaign_without_a_refusal_is_found() -> None:
    story = EarlyCampaignStory()
    story.follows(0, 1)
    story.follows(3, 1)
    with pytest.raises(ViolationError, match=NO_REFUSAL):
        story.campaigns(3, 1, ms=100)


def test_not_where_a_stranger_poses_as_the_leader() -> None:
    story = EarlyCampaignStory()
    story.oracle.facts.claims.leads(1)
    story.follows(0, 1)
    story.follows(3, 1)
    story.campaigns(3, 1, ms=100)


def test_a_leader_that_never_answered_has_no_early_campaign_against_it() -> None:
    story = EarlyCampaignStory()
    story.follows(7, 0)
    with pytest.raises(ViolationError, match=NO_ANSWER):
        story.campaigns(7, 1, ms=100)


def test_an_answer_of_who_leads_no_more_does_not_take_the_reason_away() -> None:
    story = EarlyCampaignStory()
    story.follows(0, 0)
    story.follows(3, 0)
    story.follows(3, 1, has_fetched=False)
    story.follows(4, 1, has_fetched=False)
    story.campaigns(4, 1, ms=100)


def test_end_quorum_epoch_is_a_reason() -> None:
    story = EarlyCampaignStory()
    story.follows(0, 0)
    story.campaigns(0, 0, ms=100, departures=1)


@pytest.mark.parametrize("has_fetched", [True, False])
def test_a_voter_that_never_leads_has_reasons_of_its_own_only_after_it_gave_its_leader_up(has_fetched: bool) -> None:
    story = EarlyCampaignStory()
    story.follows(3, 0)
    one = made(3, 0, ms=100, process=story.process)
    one.config.raft = replace(one.config.raft, never_leads=True)
    follows = view("follower", leader_id=2, has_fetched=has_fetched)
    if has_fetched:
        with pytest.raises(ViolationError, match=NO_REFUSAL):
            story.oracle.changed(one, follows, CAMPAIGNS)
    else:
        story.oracle.changed(one, follows, CAMPAIGNS)


def test_another_role_epoch_or_process_is_no_campaign_of_this_follower() -> None:
    story = EarlyCampaignStory()
    story.campaigns(0, 0)
    story.follows(0, 0)
    story.oracle.changed(made(0, 0, process=story.process), FOLLOWS, view("prospective", 2))
    story.oracle.changed(made(0, 0, process=story.process), FOLLOWS, view("unattached"))
    story.oracle.changed(made(0, 0), FOLLOWS, CAMPAIGNS)
    story.oracle.changed(node(1), FOLLOWS, CAMPAIGNS)


def test_only_a_follower_is_remembered() -> None:
    oracle = campaigns.EarlyCampaignsHaveReason(world())
    for seen, now in ((node(1), BEFORE), (made(0, 0), view("leader"))):
        oracle.after_event(seen, now)
    oracle.changed(made(0, 0), FOLLOWS, CAMPAIGNS)


# living_leader: A voter that campaigns right after it got an answer from its leader is found.
ASKS = SnapshotDownload(snapshot_id=snapshot_id(9), position=5)
STORES = SnapshotDownload(snapshot_id=snapshot_id(9))


def follower(
    ms: int,
    end_offset: int,
    download: SnapshotDownload | None = None,
    *,
    departures: int = 0,
    refusals: int = 0,
    epoch: int = 1,
) -> Any:
    """A follower of node 2, at that time of its clock."""
    made = following(ms=ms, epoch=epoch, deadline_ms=0, download=download)
    made.host.raft.log = SimpleNamespace(end_offset=end_offset)
    made.process.wiretap.departures = [None] * departures
    made.process.wiretap.refusals[2] = refusals
    return made


def watched(*seen: Any) -> campaigns.LivingLeaderIsFollowed:
    made = campaigns.LivingLeaderIsFollowed(world())
    for each in seen:
        made.after_event(each, FOLLOWS)
    return made


TOOK_RECORDS = (follower(0, 4), follower(10, 5))
TOOK_A_SLICE = (follower(0, 4, ASKS), follower(10, 4, STORES))


@pytest.mark.parametrize("seen", [TOOK_RECORDS, TOOK_A_SLICE])
def test_it_is_found_within_the_timeout_and_no_later(seen: tuple[Any, ...]) -> None:
    with pytest.raises(ViolationError, match="node 1 campaigns 499 ms after it took something from 2, its leader of"):
        watched(*seen).changed(follower(509, 5), FOLLOWS, CAMPAIGNS)
    watched(*seen).changed(follower(510, 5), FOLLOWS, CAMPAIGNS)


@pytest.mark.parametrize(
    "seen",
    [
        (),
        (follower(0, 4), follower(10, 4)),
        (follower(0, 4, ASKS), follower(10, 9, STORES), follower(20, 9, epoch=2)),
        (follower(0, 4, STORES), follower(10, 4, ASKS)),
        (follower(0, 4, STORES), follower(10, 9, STORES)),
        (follower(0, 4, STORES), follower(10, 9)),
    ],
)
def test_who_took_nothing_of_this_leader_may_campaign(seen: tuple[Any, ...]) -> None:
    watched(*seen).changed(follower(20, 9), FOLLOWS, CAMPAIGNS)


def test_who_was_told_that_it_leaves_or_gave_it_up_may_campaign() -> None:
    watched(*TOOK_RECORDS).changed(follower(20, 5, departures=1), FOLLOWS, CAMPAIGNS)
    made = watched(*TOOK_RECORDS)
    made.reported(follower(15, 5), report())
    made.reported(follower(15, 5), report(ReportKind.LEADER_GIVEN_UP, 2))
    made.changed(follower(20, 5), FOLLOWS, CAMPAIGNS)


def test_who_was_refused_since_may_campaign() -> None:
    watched(*TOOK_RECORDS).changed(follower(20, 5, refusals=1), FOLLOWS, CAMPAIGNS)
    was_refused = (follower(0, 4), follower(5, 4, refusals=1), follower(10, 5, refusals=1))
    with pytest.raises(ViolationError, match="node 1 campaigns 10 ms after it took something from 2"):
        watched(*was_refused).changed(follower(20, 5, refusals=1), FOLLOWS, CAMPAIGNS)


def test_another_epoch_and_another_role_are_no_campaign_against_it() -> None:
    watched(*TOOK_RECORDS).changed(follower(20, 5), FOLLOWS, view("prospective", 2))
    watched(*TOOK_RECORDS).changed(follower(20, 5), FOLLOWS, view("unattached"))
    made = watched(*TOOK_RECORDS)
    made.after_event(follower(15, 5), view("observer", leader_id=2))
    made.changed(follower(20, 5), FOLLOWS, CAMPAIGNS)


# reached_leader: A candidacy while a majority reaches its leader is found, whatever these voters believe.
FOLLOWS_FIRST = view("follower", 1, leader_id=1)


class ReachedLeaderStory:
    """Node 1 leads, node 2 follows, node 3 wants to lead."""

    def __init__(self, *, has_pre_votes: bool = True, never_leads: bool = False) -> None:
        self.never_leads = never_leads
        self.facts = world()
        self.facts.members.has_pre_votes = has_pre_votes
        self.oracle = campaigns.ReachedLeaderStays(self.facts)
        self.process: Any = None
        self.facts.nodes = {}
        self.oracle.changed(node(1), BEFORE, LEADER)

    def follower(
        self,
        answers: int,
        *,
        older: int = 0,
        refusals: int = 0,
        departures: int = 0,
        ms: int = 0,
        has_fetched: bool = True,
    ) -> Any:
        made = following(1, node_id=2, ms=ms, has_fetched=has_fetched)
        made.config.raft = replace(made.config.raft, never_leads=self.never_leads)
        self.process = made.process = self.process or made.process
        made.process.host = made.host
        made.process.wiretap = SimpleNamespace(
            fetch_answers_in={(1, 1): answers, (1, 0): older}, refusals={1: refusals}, departures=[None] * departures
        )
        self.facts.nodes[2] = made
        return made

    def follows(self, answers: int, **seen: Any) -> None:
        self.oracle.after_event(self.follower(answers, **seen), FOLLOWS_FIRST)

    def campaign(self) -> None:
        self.oracle.changed(node(3), BEFORE, ASKING)
        self.oracle.changed(node(3), ASKING, CANDIDATE)


def reached() -> ReachedLeaderStory:
    story = ReachedLeaderStory()
    story.follows(0)
    story.follows(1)
    story.follows(2, ms=10)
    return story


def test_a_candidate_is_found_while_a_majority_reaches_the_leader() -> None:
    with pytest.raises(ViolationError, match=r"while the majority \[1, 2\] reached the leader of epoch 1"):
        reached().campaign()


def test_not_after_the_fetch_timeout() -> None:
    story = reached()
    story.follower(2, ms=510)
    story.campaign()


def test_a_voter_that_never_leads_follows_on_but_may_give_its_leader_up_after_the_timeout() -> None:
    story = ReachedLeaderStory(never_leads=True)
    for answers in range(3):
        story.follows(answers, ms=10)
    story.follows(2, ms=510, has_fetched=False)
    story.oracle.changed(node(3), BEFORE, ASKING)
    # An answer that comes too late is ignored, and one that counts makes the reach a new one.
    story.follows(3, ms=520, has_fetched=False)
    story.follows(4, ms=530)
    story.oracle.changed(node(3), ASKING, CANDIDATE)
    story.follows(5, ms=540)
    with pytest.raises(ViolationError):
        story.campaign()


def test_a_voter_that_never_leads_and_gives_its_leader_up_too_early_is_found() -> None:
    story = ReachedLeaderStory(never_leads=True)
    for answers in range(3):
        story.follows(answers, ms=10)
    story.follows(2, ms=509, has_fetched=False)
    with pytest.raises(ViolationError):
        story.campaign()


@pytest.mark.parametrize("seen", [{"refusals": 1}, {"departures": 1}])
def test_not_after_a_refusal_or_end_quorum_epoch(seen: dict[str, int]) -> None:
    story = reached()
    story.follows(2, **seen)
    story.campaign()


def test_not_when_the_reach_is_newer_than_the_question() -> None:
    story = ReachedLeaderStory()
    story.oracle.changed(node(3), BEFORE, ASKING)
    story.follows(0)
    story.follows(1)
    story.oracle.changed(node(3), ASKING, CANDIDATE)


def test_not_after_answers_to_what_was_asked_in_an_older_epoch() -> None:
    story = ReachedLeaderStory()
    for older in range(3):
        story.follows(0, older=older)
    story.campaign()


def test_not_without_an_answer_or_a_leader() -> None:
    story = ReachedLeaderStory()
    story.follows(0)
    story.campaign()
    story = ReachedLeaderStory()
    story.oracle.changed(node(1), LEADER, view("resigned"))
    story.follows(0)
    story.follows(1)
    story.campaign()
    story = reached()
    story.oracle.changed(node(1), LEADER, view("resigned"))
    story.campaign()


def test_not_when_the_follower_has_left_it() -> None:
    story = reached()
    story.oracle.after_event(story.follower(2), view("observer"))
    story.campaign()
    story = reached()
    story.oracle.reported(story.follower(2), report())
    story.oracle.reported(story.follower(2), report(ReportKind.LEADER_GIVEN_UP, 1))
    story.campaign()
    story = reached()
    story.process = None
    story.follower(2)
    story.campaign()


def test_not_where_nodes_know_no_pre_votes() -> None:
    story = ReachedLeaderStory(has_pre_votes=False)
    story.follows(0)
    story.follows(1)
    story.campaign()
    story.oracle.changed(node(1), LEADER, LEADER)
