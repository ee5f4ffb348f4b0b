"""Acknowledgments before the commit, ids that are issued twice, and errors without a reason are found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.errors import ErrorCode
from pykraft.sim.facts.history import IssuedId, ProducerAnswer
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.producer_answers import NEVER, ProducersAreToldTheTruth
from tests.sim.invariants.fakes import entry, operation, world


def answer(error: ErrorCode = ErrorCode.NONE, *, offset: int = 0, is_next: bool = True) -> ProducerAnswer:
    return ProducerAnswer(
        node_id=1,
        operation=operation(1, b"a", b"b"),
        producer_id=5,
        producer_epoch=0,
        base_sequence=3,
        error=error,
        base_offset=offset,
        is_next=is_next,
    )


def oracle(*, records_between: int = 0, remembered_max: int = 10) -> ProducersAreToldTheTruth:
    where: Any = world()
    where.committed.entries = [entry(0, count=4)]
    where.records_between = records_between
    where.nodes = {1: SimpleNamespace(config=SimpleNamespace(client_producers_max=remembered_max))}
    return ProducersAreToldTheTruth(where)


def test_a_committed_batch_may_be_acknowledged_and_no_other() -> None:
    made = oracle()
    made.produced(answer(offset=2))
    with pytest.raises(ViolationError, match=r"NONE .* at offset 3; all below 4 is committed"):
        made.produced(answer(offset=3))


def test_an_id_is_issued_once() -> None:
    made = oracle()
    made.id_issued(IssuedId(node_id=1, producer_id=5))
    made.id_issued(IssuedId(node_id=1, producer_id=6))
    with pytest.raises(ViolationError, match="node 2 issues producer id 5 once more"):
        made.id_issued(IssuedId(node_id=2, producer_id=5))


@pytest.mark.parametrize("error", NEVER)
def test_a_correct_batch_gets_none_of_these_errors(error: ErrorCode) -> None:
    with pytest.raises(ViolationError, match=error.name):
        oracle().produced(answer(error))


def test_the_next_batch_is_in_order() -> None:
    made = oracle()
    made.produced(answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, is_next=False))
    made.produced(answer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(ViolationError, match="the next one after what was acknowledged"):
        made.produced(answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))


def test_a_producer_is_unknown_only_where_somebody_may_have_forgotten_it() -> None:
    unknown = answer(ErrorCode.UNKNOWN_PRODUCER_ID)
    oracle(records_between=30).produced(unknown)
    small = oracle(remembered_max=1)
    for producer_id in (1, 2):
        with pytest.raises(ViolationError, match="no node has forgotten any"):
            small.produced(unknown)
        small.id_issued(IssuedId(node_id=1, producer_id=producer_id))
    small.produced(unknown)
