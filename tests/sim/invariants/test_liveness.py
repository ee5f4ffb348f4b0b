"""What the oracles of progress report, and what they accept."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.config import RaftConfig
from pykraft.core.effects import Report
from pykraft.errors import CorruptionError
from pykraft.host.ports import ConnectionId
from pykraft.sim.facts.facts import STRANGER_ID
from pykraft.sim.facts.history import OperationOutcome
from pykraft.sim.invariants import ViolationError, liveness
from pykraft.sim.invariants.invariant import LOOK_US
from pykraft.sim.machine.spoken import LogEnd, Spoken
from pykraft.sim.scenario.scenario import Scenario
from pykraft.snapshot.files import checkpoint_path
from pykraft.types import ReportKind
from tests.core.replicas import follower
from tests.sim.invariants.fakes import node, report, snapshot_id, view, world
from tests.sim.invariants.test_invariant import undisturbed

# blameless: A connection closed because of its messages is found, unless a disk was lost or lied.
PEER = report(ReportKind.PEER_CLOSED, 2)
LEADER = report(ReportKind.LEADER_GIVEN_UP, 2)
CALLER = report(ReportKind.REQUESTER_CLOSED, 7)


def of(*nodes: Any) -> liveness.NobodyIsBlamed:
    made = world()
    made.nodes = {each.node_id: each for each in nodes}
    return liveness.NobodyIsBlamed(made)


@pytest.mark.parametrize("blame", [PEER, CALLER, LEADER])
def test_blame_is_noticed(blame: Report) -> None:
    with pytest.raises(ViolationError, match=f"node 1 says: {blame.text}"):
        of(node(1), node(2)).reported(node(1), blame)


def test_who_lost_its_disk_may_wonder_and_nobody_else() -> None:
    made = of(node(1), node(2), node(3))
    made.wiped(node(1))
    made.lost(node(2))
    made.reported(node(1), PEER)
    made.reported(node(2), PEER)
    with pytest.raises(ViolationError):
        made.reported(node(3), PEER)


def test_who_finds_its_disk_empty_knows_it_and_blames_nobody() -> None:
    made = of(node(1), node(2))
    made.emptied(node(1))
    with pytest.raises(ViolationError):
        made.reported(node(1), PEER)


# calm_quorum: An undisturbed quorum that commits nothing is found.
def check(made: liveness.CalmQuorumCommits, where: Any, now_us: int) -> None:
    where.clock.now_us = now_us
    made.after_event(node(1), view())


@pytest.mark.parametrize("leads", [False, True])
def test_one_that_stands_still_is_found(leads: bool) -> None:
    where = undisturbed()
    process = node(2, epoch=27, log_end_offset=1).process
    where.newest_leader = lambda: process if leads else None
    made = liveness.CalmQuorumCommits(where)
    check(made, where, 0)
    check(made, where, made.bound_us)
    with pytest.raises(ViolationError, match="node 2 leads epoch 27" if leads else "nobody leads"):
        check(made, where, made.bound_us + LOOK_US)


# foreign_rate: A node that asks a stranger without a pause is found.
def test_so_many_requests_in_a_second_are_enough() -> None:
    where = world()
    made = liveness.StrangersAreAskedSeldom(where)
    for _ in range(2 * liveness.REQUESTS_MAX):
        made.before_send(node(1), Spoken(epoch=1, target_id=2))
    for _ in range(2):
        for _ in range(liveness.REQUESTS_MAX):
            made.before_send(node(1), Spoken(epoch=1, target_id=STRANGER_ID))
        where.clock.now_us += liveness.SECOND_US
    for _ in range(liveness.REQUESTS_MAX):
        made.before_send(node(1), Spoken(epoch=1, target_id=STRANGER_ID))
    with pytest.raises(ViolationError, match="node 1 has asked a stranger 121 times"):
        made.before_send(node(1), Spoken(epoch=1, target_id=STRANGER_ID))


# forgers: A quorum that a forger slows down or beheads is found; one with other troubles is not judged.
FORGERS_SECOND_US = 1_000_000


def forgers_of(**others: float) -> liveness.QuorumOutlastsForgers:
    made = world()
    made.scenario = Scenario(faults={"forged frames": 1, **others})
    return liveness.QuorumOutlastsForgers(made)


def acknowledged(count: int, outcome: OperationOutcome = OperationOutcome.COMMITTED) -> Any:
    return SimpleNamespace(answer=outcome, values=(b"",) * count)


def passes(oracle: liveness.QuorumOutlastsForgers, seconds: float, rate: int) -> None:
    """So much time passes, in which so many values a second are acknowledged."""
    clock, end_us = oracle.facts.clock, oracle.facts.clock.now_us + round(seconds * FORGERS_SECOND_US)
    while clock.now_us < end_us:
        oracle.decided(acknowledged(rate // 10))
        oracle.after_event(node(1), view())
        oracle.after_event(node(1), view())
        clock.now_us += 100_000


def forges(oracle: liveness.QuorumOutlastsForgers, *, is_forging: bool = True) -> None:
    oracle.facts.claims.is_forging = is_forging
    oracle.after_event(node(1), view())


def test_less_than_half_of_the_quiet_rate_is_noticed() -> None:
    oracle = forgers_of()
    passes(oracle, 3, 100)
    forges(oracle)
    oracle.decided(acknowledged(1_000, OperationOutcome.UNKNOWN))
    passes(oracle, 3, 40)
    with pytest.raises(ViolationError, match="values were acknowledged"):
        forges(oracle, is_forging=False)


def test_one_leader_may_be_elected_and_no_second_one() -> None:
    oracle = forgers_of()
    passes(oracle, 1, 100)
    oracle.changed(node(1), view(), view("leader"))
    forges(oracle)
    oracle.changed(node(1), view(), view("leader", 2))
    oracle.changed(node(1), view("leader", 2), view("leader", 2))
    with pytest.raises(ViolationError, match="node 2 leads epoch 3, the leader number 2"):
        oracle.changed(node(2), view(), view("leader", 3))


# healing: A cluster that does not heal in time is found and described.
def test_the_bound_is_final() -> None:
    liveness.Healing(world()).ended()
    with pytest.raises(ViolationError, match="Healing: no progress"):
        liveness.Healing(world()).not_healed("no progress")


# one_fetch: A second Fetch to the leader is found while the first one is outstanding.
FETCH = Spoken(epoch=1, fetched=LogEnd(epoch=1, offset=7), target_id=2)


def fetched(made: liveness.OneFetchInFlight, at: Any, spoken: Spoken = FETCH) -> None:
    made.before_send(at, spoken)
    at.process.wiretap.open_fetches[ConnectionId(1)] = made.facts.clock.now_us


def test_a_second_one_is_found() -> None:
    made, follower = liveness.OneFetchInFlight(world()), node(leader_id=2)
    fetched(made, follower)
    made.facts.clock.now_us = 1_000
    with pytest.raises(ViolationError, match="fetches at 7 and waits for another answer still"):
        made.before_send(follower, FETCH)


# prospective: A node that asks for pre-votes in vain for too long, after the faults, is found.
ASKING = view("prospective")


def test_it_is_found_and_a_pause_without_a_leader_does_not_help() -> None:
    made = liveness.NoLastingProspective(world())
    made.faults_ended()
    made.after_event(node(), ASKING)
    made.changed(node(), ASKING, view("unattached"))
    made.facts.clock.now_us = 5_000_000
    made.after_event(node(), ASKING)
    made.facts.clock.now_us = 5_000_001
    facts: Any = made.facts
    facts.doubted_us = 2
    made.after_event(node(), ASKING)
    made.facts.clock.now_us = 5_000_003
    with pytest.raises(ViolationError, match="has asked for pre-votes in vain for 5000003 us"):
        made.after_event(node(), ASKING)
    facts.doubted_us, facts.clock.now_us = 0, 5_000_001
    with pytest.raises(ViolationError, match="has asked for pre-votes in vain for 5000001 us"):
        made.after_event(node(), ASKING)


# questions: A process that asks a voter for its epoch too often is found.
QUESTION = Spoken(epoch=1, target_id=2, is_question=True)


def made() -> liveness.QuestionsArePaced:
    where = world()
    where.nodes = {1: node(1), 2: node(2), 3: node(3)}
    return liveness.QuestionsArePaced(where)


def at(ms: int) -> Any:
    """Node 1 at this time; it has to pause for 50 ms."""
    asker = node(1, ms=ms)
    asker.config.raft = RaftConfig(election_timeout_ms=200)
    return asker


def ask(oracle: liveness.QuestionsArePaced, *times_ms: int, question: Spoken = QUESTION) -> None:
    for ms in times_ms:
        oracle.before_send(at(ms), question)


def test_three_questions_without_a_pause_are_found() -> None:
    with pytest.raises(ViolationError, match="node 1 asks 2 for its epoch three times in 49 ms"):
        ask(made(), 0, 20, 49)


def test_the_same_many_times_within_a_second_is_found() -> None:
    made = liveness.NobodyRepeatsItself(world())
    for _ in range(liveness.TIMES_MAX):
        made.reported(node(), report(text="again"))
    with pytest.raises(ViolationError, match=f"node 1 says {liveness.TIMES_MAX + 1} times within a second: again"):
        made.reported(node(), report(text="again"))


def damaged(offset: int) -> CorruptionError:
    path = checkpoint_path(Path("/disk"), snapshot_id(offset))
    return CorruptionError(path, position=0, expected="a sound batch", found="another")


def running(*offsets: int) -> Any:
    log = SimpleNamespace(snapshots=tuple(map(snapshot_id, offsets)))
    return node(is_rotten=True, raft=SimpleNamespace(log=log))


def test_a_damaged_snapshot_is_a_reason_unless_there_is_a_newer_one() -> None:
    made = liveness.NodesStayUp(world())
    made.stopped(running(5, 9), damaged(9))
    made.stopped(node(is_rotten=True), damaged(5))
    made.stopped(running(5, 9), CorruptionError(Path("a.log"), position=0, expected="a", found="b"))
    with pytest.raises(ViolationError, match="node 1 stopped though a newer snapshot is there"):
        made.stopped(running(5, 9), damaged(5))


def test_anything_else_is_none() -> None:
    with pytest.raises(ViolationError, match="node 1 stopped: no way"):
        liveness.NodesStayUp(world()).stopped(node(), ValueError("no way"))


# trickle: A voter that waits for an answer that hardly moves is found.
CONNECTION = ConnectionId(4)
FLOOR_BYTES = 1_048_576 // 64


class Waiting:
    """Node 1 follows node 2 and waits for the answer to a Fetch."""

    def __init__(self) -> None:
        self.received_bytes = 0
        self.world = world()
        self.world.network = SimpleNamespace(received_size_bytes=lambda _: (self.received_bytes, 10**6))
        self.node: Any = node(1, raft=SimpleNamespace(state=follower()))
        self.wiretap = self.node.process.wiretap
        self.wiretap.open_fetches.update({ConnectionId(3): 1, CONNECTION: 5})
        self.wiretap.fetch_answers[2] = 7
        self.oracle = liveness.NobodyWaitsForATrickle(self.world)
        self.view = view("follower", leader_id=2)

    def check(self, now_us: int) -> None:
        self.world.clock.now_us = now_us
        self.oracle.after_event(self.node, self.view)


def test_a_trickle_is_found() -> None:
    made = Waiting()
    made.check(10)
    made.check(20)
    made.received_bytes = FLOOR_BYTES - 1
    made.check(1_500_000)
    with pytest.raises(ViolationError, match="node 1 follows 2 though 16383 bytes of its answer came in 1550000 us"):
        made.check(1_550_010)


@pytest.mark.parametrize("has_fetched", [True, False])
def test_a_voter_that_never_leads_waits_until_it_gives_its_leader_up(has_fetched: bool) -> None:
    made = Waiting()
    made.node.config.raft = replace(made.node.config.raft, never_leads=True)
    made.view = view("follower", leader_id=2, has_fetched=has_fetched)
    made.check(10)
    if has_fetched:
        with pytest.raises(ViolationError):
            made.check(2_000_000)
    else:
        made.check(2_000_000)


def test_one_that_does_not_stop_is_found_but_a_new_process_begins_anew() -> None:
    made = liveness.NobodyWakesForNothing(world())
    for _ in range(liveness.WAKE_UPS_MAX):
        made.woken(node(ms=7))
    made.started(node(ms=7))
    for _ in range(liveness.WAKE_UPS_MAX):
        made.woken(node(ms=7))
    with pytest.raises(ViolationError, match="the timer of node 1 rang 601 times within 1000 ms"):
        made.woken(node(ms=7))
