"""Bugs of slow links: a node gives up answers that are still arriving, or waits for answers without reason."""

from __future__ import annotations

from typing import Any

from pykraft.core.answer_pace import AnswerPace
from pykraft.core.connections import Connections
from pykraft.core.events import AnswerLeaving
from pykraft.core.leader.accumulation import Accumulation
from pykraft.core.leader.appending import append_planned, drain_if_due, may_drain
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader
from pykraft.host.inbound import Inbound
from pykraft.types import Instant
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def lingering_fills_the_largest_batch(patch: Patch) -> None:
    """Lingering proposals fill a batch up to the largest size allowed, although a Fetch asks for less."""
    begin = Accumulation.__init__

    def begin_large(self: Accumulation, **given: Any) -> None:
        begin(self, **{**given, "fill_size_bytes": None})

    patch.setattr(Accumulation, "__init__", begin_large)


def answers_that_arrive_are_thrown_away(patch: Patch) -> None:
    """A request has a fixed timeout: a node discards an answer that is still arriving then, and asks for it again."""

    def progressed(self: Connections, *_: int) -> bool:
        del self
        return False

    patch.setattr(Connections, "progressed", progressed)


def follower_campaigns_while_it_receives(patch: Patch) -> None:
    """A follower that is receiving an answer campaigns at its fetch timeout all the same."""

    def hears(self: Follower, now: Instant, fetch_timeout_ms: int) -> Follower:
        del now, fetch_timeout_ms
        return self

    patch.setattr(Follower, "hears", hears)


def leader_does_not_see_its_answer_leave(patch: Patch) -> None:
    """A leader resigns while a majority is still receiving its answers, because none of them has fetched again."""

    def leaving(self: Inbound) -> list[AnswerLeaving]:
        del self
        return []

    patch.setattr(Inbound, "leaving", leaving)


def every_byte_is_a_sign_of_life(patch: Patch) -> None:
    """A peer that sends one byte a second is waited for as long as one that uses the whole link."""

    def advance(self: AnswerPace, moved_bytes: int, size_bytes: int, now_ms: int) -> bool:
        del size_bytes, now_ms
        moves, self.moved_bytes = moved_bytes > self.moved_bytes, max(moved_bytes, self.moved_bytes)
        return moves

    patch.setattr(AnswerPace, "advance", advance)


def backlog_is_appended_at_once(patch: Patch) -> None:
    """After a disk stall a leader encodes and appends its whole backlog in one step."""

    def drain_all(replica: Replica, leader: Leader, now: Instant) -> None:
        due_ms = leader.accumulation.due_ms()
        if due_ms is not None and due_ms <= now.mono_ms and may_drain(replica):
            append_planned(replica, leader, leader.accumulation.drain())

    patch.everywhere(drain_if_due, drain_all)


def _bug(plant: Any, source: str) -> Mutant:
    return Mutant(plant=plant, source=source, scenario="bandwidth")


MUTANTS = (
    _bug(
        lingering_fills_the_largest_batch,
        "Kafka's BatchAccumulator fills batches of 8 MiB; ours, until an outside review found it",
    ),
    _bug(answers_that_arrive_are_thrown_away, "Kafka's RequestManager; ours, until an outside review found it"),
    _bug(follower_campaigns_while_it_receives, "Kafka's FollowerState (only a whole answer counts)"),
    _bug(leader_does_not_see_its_answer_leave, "Kafka's LeaderState (only a Fetch counts)"),
    _bug(every_byte_is_a_sign_of_life, "TCP keep-alive taken for progress; the reader of slow HTTP (Slowloris)"),
    Mutant(
        plant=backlog_is_appended_at_once,
        source="Kafka's BatchAccumulator.drain; ours, until an outside review found it",
    ),
)
