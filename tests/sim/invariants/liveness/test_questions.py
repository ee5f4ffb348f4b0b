"""A process that asks a voter for its epoch too often is found."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.config import RaftConfig
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.questions import QuestionsArePaced
from pykraft.sim.machine.spoken import Spoken
from tests.sim.invariants.fakes import node, world

QUESTION = Spoken(epoch=1, target_id=2, is_question=True)


def made() -> QuestionsArePaced:
    where = world()
    where.nodes = {1: node(1), 2: node(2), 3: node(3)}
    return QuestionsArePaced(where)


def at(ms: int) -> Any:
    """Node 1 at this time; it has to pause for 50 ms."""
    asker = node(1, ms=ms)
    asker.config.raft = RaftConfig(election_timeout_ms=200)
    return asker


def ask(oracle: QuestionsArePaced, *times_ms: int, question: Spoken = QUESTION) -> None:
    for ms in times_ms:
        oracle.before_send(at(ms), question)


def test_three_questions_without_a_pause_are_found() -> None:
    with pytest.raises(ViolationError, match="node 1 asks 2 for its epoch three times in 49 ms"):
        ask(made(), 0, 20, 49)


def test_questions_with_pauses_pass_and_one_may_have_waited_for_its_connection() -> None:
    ask(made(), 0, 50, 100, 150)
    ask(made(), 49, 50, 100)


def test_other_requests_other_voters_and_strangers_do_not_count() -> None:
    oracle = made()
    ask(oracle, 0, 1)
    ask(oracle, 2, question=Spoken(epoch=1, target_id=2))
    ask(oracle, 3, question=Spoken(epoch=1, target_id=3, is_question=True))
    ask(made(), 0, 1, 2, question=Spoken(epoch=1, target_id=9, is_question=True))


def test_a_new_process_has_asked_nobody() -> None:
    oracle = made()
    ask(oracle, 0, 1)
    oracle.started(at(2))
    ask(oracle, 3)
