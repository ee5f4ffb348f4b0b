"""Replicas are compared: the first difference is told, with its command."""

from __future__ import annotations

import pytest

from pykraft.errors import CommandRejectedError
from pykraft.machine import Applied
from pykraft.machine.testing.reference import Numbered, Reference, WatchedMachine, digest_of
from pykraft.sim.invariants import ViolationError
from pykraft.types import Epoch, Offset
from tests.machine.counters import Add, Counters


def at(offset: int) -> Applied:
    return Applied(Offset(offset), Epoch(1), 5, 0)


def replicas(reference: Reference) -> list[WatchedMachine[Add, int]]:
    return [WatchedMachine(Counters(), reference, node_id) for node_id in (1, 2)]


def test_equal_replicas_are_equal() -> None:
    reference = Reference()
    for replica in replicas(reference):
        assert replica.apply(Numbered(1, Add("x", 2)), at(4)) == 2
        with pytest.raises(CommandRejectedError):
            replica.apply(Numbered(2, Add("x", -3)), at(6))
        assert replica.found() == (2, digest_of(replica.machine))
    assert [call.offset for call in reference.calls] == [4, 6]
    assert reference.digest_at(0) is None
    assert reference.digest_at(2) == reference.calls[1].digest


def test_a_command_that_only_one_replica_applies_is_told() -> None:
    first, second = replicas(Reference())
    first.apply(Numbered(1, Add("x", 1)), at(4))
    first.apply(Numbered(2, Add("y", 1)), at(5))
    with pytest.raises(ViolationError, match=r"node 2 applied call 2, .* at offset 5, others call 1, .* at offset 4"):
        second.apply(Numbered(2, Add("y", 1)), at(5))


def test_another_answer_and_another_state_are_told() -> None:
    first, second = replicas(Reference())
    first.apply(Numbered(1, Add("x", 1)), at(4))
    second.machine.restore([b"x=7"])
    with pytest.raises(ViolationError, match=r"node 2 answered call 1, .* with b'8', others with b'1'"):
        second.apply(Numbered(1, Add("x", 1)), at(4))
    first, second = replicas(Reference())
    first.apply(Numbered(1, Add("x", 1)), at(4))
    second.machine.restore([b"z=7"])
    with pytest.raises(ViolationError, match="the state of node 2 is another one after call 1"):
        second.apply(Numbered(1, Add("x", 1)), at(4))


def test_a_call_that_is_applied_twice_is_told() -> None:
    first, _ = replicas(Reference())
    first.apply(Numbered(1, Add("x", 1)), at(4))
    with pytest.raises(ViolationError, match="applied at offset 4 and again at offset 5"):
        first.apply(Numbered(1, Add("x", 1)), at(5))


def test_a_replica_goes_on_after_a_snapshot() -> None:
    first, second = replicas(Reference())
    for number, offset in ((1, 4), (2, 6), (3, 9)):
        first.apply(Numbered(number, Add("x", 1)), at(offset))
    second.restore([b"x=2"])
    assert second.position is None
    second.apply(Numbered(3, Add("x", 1)), at(9))
    assert second.position == 3


def test_a_command_keeps_its_number_in_the_log() -> None:
    serde = WatchedMachine(Counters(), Reference(), 1).commands
    assert serde.deserialize(serde.serialize(Numbered(77, Add("x", 1)))) == Numbered(77, Add("x", 1))
