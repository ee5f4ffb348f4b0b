"""An object without a required method is rejected as a listener, and the error names the method."""

import asyncio

import pytest

from pykraft.client import LeaderAndEpoch, Reader
from pykraft.client.life import NodeLoops
from pykraft.client.listener import LeaderWatch, check_listener
from pykraft.errors import UsageError
from pykraft.types import Epoch, NodeId
from tests.client.nodes import TIMEOUT_S, Recorder


class Whole:
    """Has both."""

    handle_leader_change: object = None

    def handle_commit(self, reader: Reader[str]) -> None: ...


def test_what_has_both_methods_is_a_listener() -> None:
    whole = Whole()

    def on_change(leader_and_epoch: LeaderAndEpoch) -> None: ...

    whole.handle_leader_change = on_change
    check_listener(whole)


def test_the_method_that_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match="has no method handle_leader_change"):
        check_listener(Whole())
    with pytest.raises(UsageError, match="is a class"):
        check_listener(Whole)
    with pytest.raises(UsageError, match="has no method handle_commit"):
        check_listener(print)


@pytest.mark.parametrize("name", ["handle_save_snapshot", "handle_load_bootstrap"])
def test_who_saves_or_is_formatted_must_load(name: str) -> None:
    listener = Recorder()
    setattr(listener, name, print)
    with pytest.raises(UsageError, match=f"has a method {name}, so it also needs handle_load_snapshot"):
        check_listener(listener)
    vars(listener)["handle_load_snapshot"] = print
    check_listener(listener)


async def test_all_who_wait_are_woken_and_wait_again_for_the_next_news() -> None:
    watch = LeaderWatch(NodeLoops())
    for _ in range(2):
        waiting = [asyncio.create_task(watch.wait()) for _ in range(3)]
        done, _ = await asyncio.wait(waiting, timeout=0)
        assert not done
        watch.on_commit([])
        watch.on_leader_change(Epoch(1), NodeId(2))
        await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)
