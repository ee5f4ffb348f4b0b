"""An object without a required method is rejected as a listener, and the error names the method."""

from __future__ import annotations

import pytest

from pykraft.client import LeaderAndEpoch, Reader
from pykraft.client.listener import check_listener
from pykraft.errors import UsageError
from tests.client.nodes import Recorder


class Whole:
    """Has both."""

    handle_leader_change: object = None

    def handle_commit(self, reader: Reader[str]) -> None: ...


def test_what_has_both_methods_is_a_listener() -> None:
    whole = Whole()

    def hear(leader_and_epoch: LeaderAndEpoch) -> None: ...

    whole.handle_leader_change = hear
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
