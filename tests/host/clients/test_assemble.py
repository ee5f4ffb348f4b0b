"""What a start reads of the log about producers, and that a node without clients does nothing.

Source: Kafka's ``ProducerStateManager``; ours (ADR 065).
"""

from __future__ import annotations

import pytest

from pykraft.core.log_view import LogView
from pykraft.errors import CorruptionError, ErrorCode, ProtocolError
from pykraft.host.clients.client_requests import client_requests, recover
from pykraft.host.clients.producer_states import COUNTER_BITS, ProducerStates
from pykraft.host.recent_batches import HeaderAndBytes
from pykraft.types import Buffer, Epoch, EpochStart, Offset, OffsetAndEpoch
from tests.host.clients.world import LEADS, Leader, batch_of, config

EPOCH = Epoch(4)
ID = (EPOCH << COUNTER_BITS) + 1


class Log:
    """A log of these batches; each read gives one."""

    def __init__(self, *batches: HeaderAndBytes | CorruptionError) -> None:
        self._batches = list(batches)

    def read(self, offset: Offset, size_bytes_max: int) -> Buffer:
        del offset, size_bytes_max
        found = self._batches.pop(0)
        if isinstance(found, CorruptionError):
            raise found
        return found[1]


def view(end: int, start: int = 0) -> LogView:
    snapshots = [OffsetAndEpoch(Offset(start), EPOCH)] if start else []
    epochs = [EpochStart(epoch=EPOCH, start_offset=Offset(start))] if end > start else []
    return LogView(start_offset=Offset(start), end_offset=Offset(end), epochs=epochs, snapshots=snapshots)


def next_sequence(states: ProducerStates) -> int | ErrorCode:
    for sequence in range(4):
        try:
            if states.check(batch_of([b"n"], producer_id=ID, sequence=sequence)[0], EPOCH) is None:
                return sequence
        except ProtocolError as error:
            if error.code == ErrorCode.UNKNOWN_PRODUCER_ID:
                return error.code
    raise AssertionError(states)


def test_a_node_without_clients_builds_nothing() -> None:
    leader = Leader()
    told = client_requests(
        config(client_listeners=()),
        lambda: LEADS,
        ports=leader.ports,
        inbox=leader.inbox,
        producers=leader.producers,
        reads=leader.reads,
        view=leader.view,
        log=Log(),
    )
    assert told is None


def test_a_start_reads_the_whole_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_requests, "PIECE_SIZE_BYTES_MAX", 1)
    states = ProducerStates()
    first = batch_of([b"a", b"b"], producer_id=ID, sequence=0, at=0)
    recover(states, view(3), Log(first, batch_of([b"c"], producer_id=ID, sequence=2, at=2)))
    assert next_sequence(states) == 3


@pytest.mark.parametrize("end", [7, 8])
def test_what_a_snapshot_stands_for_is_unknown(end: int) -> None:
    states = ProducerStates()
    recover(states, view(end, start=7), Log(batch_of([b"a"], at=7)))
    assert next_sequence(states) == ErrorCode.UNKNOWN_PRODUCER_ID


def test_damage_makes_producers_unknown() -> None:
    states = ProducerStates()
    damage = CorruptionError("log", position=1, expected="a", found="b")
    recover(states, view(3), Log(batch_of([b"a"], producer_id=ID, at=0), damage))
    assert next_sequence(states) == ErrorCode.UNKNOWN_PRODUCER_ID
