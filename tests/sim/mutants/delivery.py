"""Bugs of delivery: listeners get records too early, twice, from the wrong log, or in the wrong order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykraft.core.effects import NotifyLeaderChange
from pykraft.host.delivery import Delivery, Registration
from pykraft.host.snapshots.creation import SnapshotLoading
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def leader_is_told_too_early(patch: Patch) -> None:
    """A listener hears that its node leads before it got everything that was committed before."""

    def tell(self: Registration) -> bool:
        news = self.news
        if news is None:
            return False
        self.news = None
        self.listener.on_leader_change(news.epoch, news.leader_id)
        return True

    patch.setattr(Registration, "_tell", tell)


def listener_is_given_all_that_is_appended(patch: Patch) -> None:
    """A listener gets the log up to its end instead of up to the high watermark."""

    def feed(self: Registration) -> bool:
        recent = self._delivery.recent
        batches: Sequence[Any] = ()
        if recent.start_offset <= self._next_offset < recent.end_offset:
            batches = recent.take(self._next_offset, recent.end_offset, 1_000_000)
        return self._give(batches)

    patch.setattr(Registration, "_feed_from_memory", feed)


def listener_begins_anew_with_each_leader(patch: Patch) -> None:
    """When the leader changes, a listener gets the log from the beginning again."""
    leader_changed = Delivery.leader_changed

    def again(self: Delivery, news: NotifyLeaderChange) -> None:
        for registration in self._registrations:
            if not registration._is_busy:
                registration._next_offset = self.start_offset
        leader_changed(self, news)

    patch.setattr(Delivery, "leader_changed", again)


def plain_listener_waits_below_the_log_start(patch: Patch) -> None:
    """A listener that loads no snapshots waits for records that log cleaning has removed."""
    patch.setattr(Registration, "_skip", lambda self: False)


def plain_listener_goes_on_at_the_high_watermark(patch: Patch) -> None:
    """A listener that fell behind the log start continues at the high watermark instead of at the log start."""

    def skip(self: Registration) -> bool:
        if self._loading.loader is not None or self._next_offset >= self._delivery.start_offset:
            return False
        missed_from, self._next_offset = self._next_offset, self._delivery.high_watermark
        self._has_begun = False
        self._loading.skipped(missed_from, self._next_offset)
        return True

    patch.setattr(Registration, "_skip", skip)


def plain_listener_is_not_told_of_a_gap(patch: Patch) -> None:
    """A listener that fell behind the log start continues there, but is not told which records it missed."""
    patch.setattr(SnapshotLoading, "skipped", lambda self, next_offset, start_offset: None)


def late_listeners_hear_of_no_leader(patch: Patch) -> None:
    """A listener that is registered after an election hears of no leader before the next one."""
    register = Delivery.register

    def in_silence(self: Delivery, *of: Any, **more: Any) -> Registration:
        newest, self._newest = self._newest, None
        made = register(self, *of, **more)
        self._newest = newest
        return made

    patch.setattr(Delivery, "register", in_silence)


MUTANTS = (
    Mutant(
        plant=plain_listener_waits_below_the_log_start,
        source="ours: an outside review cleaned the log under a second listener",
        scenario="bystanders",
    ),
    Mutant(
        plant=plain_listener_goes_on_at_the_high_watermark,
        source="Kafka consumers with auto.offset.reset=latest",
        scenario="bystanders",
    ),
    Mutant(
        plant=plain_listener_is_not_told_of_a_gap,
        source="KIP-630 (what is below the log start is in a snapshot only)",
        scenario="bystanders",
    ),
    Mutant(plant=late_listeners_hear_of_no_leader, source="Kafka KafkaRaftClient.register"),
    Mutant(plant=leader_is_told_too_early, source="Kafka KafkaRaftClient (fireHandleLeaderChange waits)"),
    Mutant(plant=listener_is_given_all_that_is_appended, source="Raft paper §5.3 (apply only what is committed)"),
    Mutant(plant=listener_begins_anew_with_each_leader, source="Kafka ListenerContext (a new registration restarts)"),
)
