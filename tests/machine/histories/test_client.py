"""Clients tell what they call before they call it, and afterwards exactly what they were told."""

import asyncio
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykraft.errors import NotAppliedError, OutcomeUnknownError, QuorumUnavailableError, UsageError
from pykraft.recipes import KeyValueStore
from tests.machine.histories.client import SHARES, StoreClient, Teller
from tests.machine.histories.events import Event, calls_of, merged
from tests.machine.histories.judge import judge
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
