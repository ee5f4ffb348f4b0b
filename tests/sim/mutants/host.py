"""Bugs of what surrounds the core in a node: its deliveries, its linger, its deadlines and its replies."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pykraft.core.effects import NotifyLeaderChange, PlannedBatch
from pykraft.core.on import propose, timer
from pykraft.errors import NotLeaderError
from pykraft.host.delivery import Delivery, Registration
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.producers import Committed, OutcomeUnknown, Producers, Rejected
from pykraft.host.snapshots.creation import SnapshotLoading
from pykraft.protocol.records import encode_batch
from pykraft.types import Offset
from tests.sim.mutants.patch import Patch, bug


@bug("Kafka KafkaRaftClientTest (wakes up when the linger is over)")
def linger_wakes_nobody(patch: Patch) -> None:
    """No timer is set for the end of the linger time: proposals wait until something else happens."""
    patch.setattr(timer, "may_drain", lambda replica: False)


@bug("Jepsen: an indeterminate outcome taken for a failure")
def unknown_is_called_rejected(patch: Patch) -> None:
    """A leader that resigns tells its clients that the records it had appended are not in the log."""

    def lost(self: Producers, leading: Any) -> None:
        while self._appended and self._appended[0].epoch != leading:
            gone = self._appended.popleft()
            gone.on_outcome(Rejected(error=NotLeaderError(None, gone.epoch)))

    patch.setattr(Producers, "lost", lost)


@bug("acks=1; MongoDB's write concern 1")
def append_is_called_committed(patch: Patch) -> None:
    """A leader tells clients that their records are committed when it has appended them."""
    encode = Producers.encode

    def told_at_once(self: Producers, plan: PlannedBatch) -> HeaderAndBytes:
        batch = encode(self, plan)
        self.committed(plan.end_offset)
        return batch

    patch.setattr(Producers, "encode", told_at_once)


@bug("ValuesEventuallyAcked of the KRaft specification", "silence")
def outcome_is_forgotten(patch: Patch) -> None:
    """A leader that resigns forgets the clients that wait for an outcome."""
    patch.setattr(Producers, "lost", lambda self, leading: self._appended.clear() if leading is None else None)


@bug("KIP-98 (why producers are idempotent)")
def unknown_is_proposed_again(patch: Patch) -> None:
    """A leader that resigned appends its uncommitted records again when it is elected again."""
    take_values, lost = Producers._take_values, Producers.lost

    def kept(self: Any, plan: PlannedBatch) -> list[bytes]:
        values = take_values(self, plan)
        self.__dict__.setdefault("appended_values", {})[plan.base_offset] = values[-1]
        return values

    def again(self: Any, leading: Any) -> None:
        if self._appended and self._appended[0].epoch != leading:
            self.__dict__["again"] = list(self.__dict__.get("appended_values", {}).values())[-1:]
        lost(self, leading)

    propose = Producers.propose

    def prepended(self: Any, values: Any, **named: Any) -> Any:
        again = self.__dict__.pop("again", [])
        outcome = named["on_outcome"]
        if again:
            named["on_outcome"] = lambda told: outcome(
                replace(told, base_offset=Offset(told.base_offset + 1))
                if isinstance(told, Committed | OutcomeUnknown)
                else told
            )
            accepted = named.get("on_accepted")
            named["on_accepted"] = (lambda offset: accepted(offset + 1)) if accepted else None
        return propose(self, [*again, *values], **named)

    patch.setattr(Producers, "_take_values", kept)
    patch.setattr(Producers, "lost", again)
    patch.setattr(Producers, "propose", prepended)


@bug("Raft paper §8 (no-op entries), as seen by an application")
def new_leader_appends_a_value(patch: Patch) -> None:
    """A new leader begins its epoch with an empty data record instead of a LeaderChange record."""
    encode = Producers.encode

    def no_op(self: Producers, plan: PlannedBatch) -> HeaderAndBytes:
        if not plan.control:
            return encode(self, plan)
        value = b"%012d" % plan.epoch
        return encode_batch([value], base_offset=plan.base_offset, epoch=plan.epoch, timestamp_ms=plan.timestamp_ms)

    patch.setattr(Producers, "encode", no_op)


@bug("ours: an outside review filled the buffer with prepared appends", "prepared")
def prepared_appends_fill_the_buffer_for_good(patch: Patch) -> None:
    """A leader rejects an append when prepared ones fill the buffer, and never schedules those."""
    patch.setattr(propose, "_make_room", lambda replica, leader, now: None)


@bug("Kafka KafkaRaftClient (fireHandleLeaderChange waits)")
def leader_is_told_too_early(patch: Patch) -> None:
    """A listener hears that its node leads before it got everything that was committed before."""

    def deliver_change(self: Registration) -> bool:
        news = self.news
        if news is None:
            return False
        self.news = None
        self.listener.on_leader_change(news.epoch, news.leader_id)
        return True

    patch.setattr(Registration, "_deliver_change", deliver_change)


@bug("Raft paper §5.3 (apply only what is committed)")
def listener_is_given_all_that_is_appended(patch: Patch) -> None:
    """A listener gets the log up to its end instead of up to the high watermark."""

    def feed(self: Registration) -> bool:
        recent = self._delivery.recent
        batches: Sequence[Any] = ()
        if recent.start_offset <= self._next_offset < recent.end_offset:
            batches = recent.take(self._next_offset, recent.end_offset, 1_000_000)
        return self._give(batches)

    patch.setattr(Registration, "_feed_from_memory", feed)


@bug("Kafka ListenerContext (a new registration restarts)")
def listener_begins_anew_with_each_leader(patch: Patch) -> None:
    """When the leader changes, a listener gets the log from the beginning again."""
    leader_changed = Delivery.leader_changed

    def again(self: Delivery, news: NotifyLeaderChange) -> None:
        for registration in self._registrations:
            if not registration._is_busy:
                registration._next_offset = self.start_offset
        leader_changed(self, news)

    patch.setattr(Delivery, "leader_changed", again)


@bug("ours: an outside review cleaned the log under a second listener", "bystanders")
def plain_listener_waits_below_the_log_start(patch: Patch) -> None:
    """A listener that loads no snapshots waits for records that log cleaning has removed."""
    patch.setattr(Registration, "_skip", lambda self: False)


@bug("Kafka consumers with auto.offset.reset=latest", "bystanders")
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


@bug("KIP-630 (what is below the log start is in a snapshot only)", "bystanders")
def plain_listener_is_not_told_of_a_gap(patch: Patch) -> None:
    """A listener that fell behind the log start continues there, but is not told which records it missed."""
    patch.setattr(SnapshotLoading, "skipped", lambda self, next_offset, start_offset: None)


@bug("Kafka KafkaRaftClient.register")
def late_listeners_hear_of_no_leader(patch: Patch) -> None:
    """A listener that is registered after an election hears of no leader before the next one."""
    register = Delivery.register

    def in_silence(self: Delivery, *of: Any, **more: Any) -> Registration:
        newest, self._newest = self._newest, None
        made = register(self, *of, **more)
        self._newest = newest
        return made

    patch.setattr(Delivery, "register", in_silence)
