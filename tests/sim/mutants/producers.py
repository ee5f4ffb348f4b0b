"""Bugs in what a node knows of idempotent producers, and in what it tells them."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.clients import client_requests
from pykraft.host.clients.client_requests import ClientRequests
from pykraft.host.clients.produce_requests import AppendOrder, ProduceRequests
from pykraft.host.clients.producer_states import COUNTER_BITS, ProducerStates
from pykraft.protocol.batch import BatchHeader
from tests.sim.mutants.patch import Patch, bug


@bug("KIP-98: followers build the state from the log, too", "producers")
def followers_forget_producers(patch: Patch) -> None:
    """Only a leader notes the batches of producers, so the next leader knows none of them."""
    appended = ClientRequests.appended

    def of_leader(self: Any, batches: Any) -> None:
        with suppress(AttributeError):  # at the start, which reads the log, there is no status
            if not self._topics.status().leads:
                return
        appended(self, batches)

    patch.setattr(ClientRequests, "appended", of_leader)


@bug("Kafka's ProducerStateManager, which takes snapshots of the state", "producers")
def restart_forgets_producers(patch: Patch) -> None:
    """A start does not read the log for the producers that wrote it, and takes them for new ones."""
    patch.setattr(client_requests, "recover", lambda states, view, log: None)


@bug("Kafka's ProducerStateManager.truncateAndReload", "producers,brief_leaders")
def cut_batches_stay_known(patch: Patch) -> None:
    """A truncation leaves the batches of producers that it removes from the log."""
    patch.setattr(ProducerStates, "truncate_to", lambda self, end_offset: None)


@bug("ours: a repeat of a batch in flight waits for its commit", "producers,brief_leaders")
def repeat_is_answered_before_the_commit(patch: Patch) -> None:
    """A repeat of a batch that is in the log and not committed yet is acknowledged at once."""
    append = ProduceRequests._append

    def at_once(self: Any, found: Any, status: Any, decided: Any) -> None:
        append(self, found, status._replace(high_watermark=status.log_end_offset), decided)

    patch.setattr(ProduceRequests, "_append", at_once)


@bug("KAFKA-6003 (the state after a repeat); Kafka keeps five batches since KAFKA-5494", "producers,brief_leaders")
def repeat_is_told_the_newest_offset(patch: Patch) -> None:
    """A repeat gets the offset of the newest batch of its producer, as if that were the only one to be repeated."""
    check = ProducerStates.check

    def newest(self: Any, header: Any, epoch: Any) -> Any:
        known = check(self, header, epoch)
        return known if known is None else self._producers[header.producer_id][-1]

    patch.setattr(ProducerStates, "check", newest)


@bug("KIP-98 (OUT_OF_ORDER_SEQUENCE_NUMBER)", "producers,full_leaders")
def gaps_are_accepted(patch: Patch) -> None:
    """A batch is accepted although batches before it are missing."""
    check = ProducerStates.check

    def any_later(self: Any, header: Any, epoch: Any) -> Any:
        try:
            return check(self, header, epoch)
        except ProtocolError as error:
            batches = self._producers.get(header.producer_id)
            is_later = batches and header.base_sequence > batches[-1].last_sequence
            if error.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or not is_later:
                raise
            return None

    patch.setattr(ProducerStates, "check", any_later)


@bug("KIP-360, KIP-98 (fencing)", "producers,brief_leaders")
def old_producer_epochs_are_accepted(patch: Patch) -> None:
    """A batch of an epoch that its producer has given up is appended once it arrives."""
    check = ProducerStates.check

    def any_epoch(self: Any, header: Any, epoch: Any) -> Any:
        try:
            return check(self, header, epoch)
        except ProtocolError as error:
            if error.code != ErrorCode.INVALID_PRODUCER_EPOCH:
                raise
            return None

    patch.setattr(ProducerStates, "check", any_epoch)


@bug("KIP-360 (a new epoch begins at 0)", "producers")
def new_producer_epochs_go_on_counting(patch: Patch) -> None:
    """A higher epoch of a producer has to go on with the sequence of the former one."""
    check = ProducerStates.check

    def as_before(self: Any, header: BatchHeader, epoch: Any) -> Any:
        batches = self._producers.get(header.producer_id)
        known = (
            header
            if not batches
            else replace(header, producer_epoch=min(header.producer_epoch, batches[-1].producer_epoch))
        )
        return check(self, known, epoch)

    patch.setattr(ProducerStates, "check", as_before)


@bug("Kafka since KAFKA-7190: an unknown producer may begin anywhere", "producers")
def unknown_producers_may_begin_anywhere(patch: Patch) -> None:
    """A producer that is unknown, perhaps since it was evicted, may go on with any sequence."""
    check = ProducerStates.check

    def anywhere(self: Any, header: Any, epoch: Any) -> Any:
        return None if header.producer_id not in self._producers else check(self, header, epoch)

    patch.setattr(ProducerStates, "check", anywhere)


@bug("KIP-360; Kafka's expiry of producers", "producers")
def evicted_producers_count_as_new(patch: Patch) -> None:
    """An eviction forgets a producer, and that there was one: its first batch may be written again."""

    def check_unknown(self: Any, header: Any, epoch: Any) -> None:
        return None

    patch.setattr(ProducerStates, "_check_unknown", check_unknown)


@bug("Kafka before KAFKA-5494", "producers")
def one_batch_is_remembered(patch: Patch) -> None:
    """Only the newest batch of a producer is remembered, although five may be repeated."""
    note = ProducerStates._note

    def newest(self: Any, header: Any, base_offset: Any, *, is_in_log: bool) -> Any:
        batch = note(self, header, base_offset, is_in_log=is_in_log)
        batches = self._producers.get(header.producer_id)
        while batches and len(batches) > 1 and self._is_committed(batches[0]):
            batches.popleft()
        return batch

    patch.setattr(ProducerStates, "_note", newest)


@bug("ours", "producers")
def proposals_are_not_noted(patch: Patch) -> None:
    """A leader notes a batch when it is in the log, so a repeat that comes before that is appended as well."""
    note = ProducerStates._note

    def unnoted(self: Any, header: Any) -> Any:
        batch = note(self, header, None, is_in_log=False)
        self.withdraw(header.producer_id, batch)
        return batch

    patch.setattr(ProducerStates, "propose", unnoted)


@bug("ours: the simulator found it", "producers")
def small_batches_overtake_large_ones(patch: Patch) -> None:
    """A batch that is checked at once goes on before an earlier one of its connection that is checked elsewhere."""
    patch.setattr(AppendOrder, "passes", lambda self, connection, found: True)


@bug("Kafka's ProducerIdManager, which allocates blocks of ids", "producers")
def producer_ids_begin_anew_with_each_leader(patch: Patch) -> None:
    """A leader counts its producer ids from 1 on, and two leaders issue the same ones."""
    issue = ProducerStates.issue
    patch.setattr(ProducerStates, "issue", lambda self, epoch: issue(self, epoch) % 2**COUNTER_BITS)


"""Where the shipped scenario alone would need many worlds."""
