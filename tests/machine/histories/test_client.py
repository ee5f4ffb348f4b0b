"""Clients tell what they call before they call it, and afterwards exactly what they were told.

What does not pass is told as a person reads it.

The order of the faults: from a seed, and each kind before any comes again.
"""

import asyncio
import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykraft.errors import NotAppliedError, OutcomeUnknownError, QuorumUnavailableError, UsageError
from pykraft.recipes import KeyValueStore
from tests.machine.histories.cases import NOT_LINEARIZABLE, history, write
from tests.machine.histories.client import SHARES, StoreClient, Teller
from tests.machine.histories.events import Event, calls_of, merged
from tests.machine.histories.judge import judge
from tests.machine.histories.nemesis import FAULTS, LASTS_S, episodes
from tests.machine.histories.run import Outcome, story
from tests.recipes.stores import stores


async def tried(store: Any, file: Path, *, until: Callable[[], bool], clients: int = 1) -> list[Event]:
    """The events of clients that call this store until it is enough."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    enough = asyncio.Event()
    numbers, processes = itertools.count(), itertools.count()

    def leads() -> bool:
        if until():
            enough.set()
        return True

    teller = Teller(descriptor, 1, leads)
    async with asyncio.TaskGroup() as group:
        for seed in range(clients):
            client = StoreClient(store, teller, Random(seed), numbers.__next__, processes.__next__)
            group.create_task(client.run(enough, pause_s_max=0.0))
    os.close(descriptor)
    return merged([file])


async def test_calls_of_every_kind_are_told_and_linearizable(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        count = itertools.count()
        events = await tried(KeyValueStore(node), tmp_path / "told", until=lambda: next(count) > 500, clients=3)
    assert {event.f for event in events if event.type == "ok"} == {*SHARES}
    assert {event.type for event in events} == {"invoke", "ok"}
    judgement = judge(events)
    assert (judgement.calls, judgement.refused, judgement.undecided) == (len(events) // 2, {}, [])


class FailingStore:
    """Every call raises the next of some errors."""

    def __init__(self, *errors: Exception) -> None:
        self.left = [*errors]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def fail(*_: object) -> None:
            raise self.left.pop(0)

        return fail


async def test_errors_tell_what_is_known(tmp_path: Path) -> None:
    store = FailingStore(NotAppliedError("no"), OutcomeUnknownError("?"), QuorumUnavailableError("nobody"))
    events = await tried(store, tmp_path / "told", until=lambda: not store.left)
    assert [event.type for event in events] == ["invoke", "fail", "invoke", "info", "invoke", "fail"]
    assert [event.process for event in events] == [0, 0, 0, 0, 1, 1]
    assert [call.is_open for call in calls_of(events)] == [True]


async def test_a_mistake_of_the_client_is_no_part_of_a_history(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await tried(FailingStore(UsageError("wrong")), tmp_path / "told", until=lambda: False)
    assert caught.group_contains(UsageError)


PASSED = Outcome(
    seed=1, nodes=3, seconds=60, episodes=9, faults={}, calls=1, open_calls=0, reads=1, follower_reads=1, groups=1
)


@pytest.mark.parametrize(
    "found",
    [
        {"refused": {"ours": ["r1-0"], "porcupine": []}},
        {"refused": {"ours": [], "porcupine": ["r1-0"]}},
        {"undecided": {"ours": [], "porcupine": ["r1-0"]}},
        {"error": "node 1 ended with 1, though nobody had ended it"},
    ],
)
def test_both_checkers_and_the_quorum_must_agree(found: dict[str, object]) -> None:
    assert PASSED.has_passed
    assert not replace(PASSED, **found).has_passed  # type: ignore[arg-type]


def test_a_part_is_told_call_by_call() -> None:
    told = story(history([*NOT_LINEARIZABLE["a lost put"], write(4, 9, 2_000_000, None)])).splitlines()
    assert " ".join(told[0].split()) == '0.000 0.000 node 1 process 1 write ["r1-0/a", 1] -> ["r1-0/a", 1]'
    assert " ".join(told[-1].split()) == '2.000 never node 4 process 4 write ["r1-0/a", 9] -> unknown'


def test_nothing_is_told_of_nothing() -> None:
    assert story([]) == ""


def test_a_seed_gives_the_same_episodes() -> None:
    first, again, other = (list(islice(episodes(Random(seed), FAULTS), 50)) for seed in (1, 1, 2))
    assert first == again != other


def test_each_kind_comes_before_any_comes_again() -> None:
    drawn = list(islice(episodes(Random(3), FAULTS), 10 * len(FAULTS)))
    for at in range(0, len(drawn), len(FAULTS)):
        assert sorted(kinds[0] for kinds in drawn[at : at + len(FAULTS)]) == sorted(FAULTS)
    assert {len(kinds) for kinds in drawn} == {1, 2}
    assert all(len(set(kinds)) == len(kinds) for kinds in drawn)


def test_a_single_kind_never_overlaps() -> None:
    assert set(islice(episodes(Random(4), ["freeze"]), 20)) == {("freeze",)}


def test_every_fault_has_its_time() -> None:
    assert set(LASTS_S) == set(FAULTS)
