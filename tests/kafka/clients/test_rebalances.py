"""A member that begins too early, a committed offset that falls, and a member that ends are reported."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykraft.errors import LocalQuorumError
from tests.kafka.clients.catalog import Order
from tests.kafka.clients.rebalances import Group
from tests.kafka.clients.verdict import Place


class Member:
    """What a member prints, in turns."""

    def __init__(self, name: str, path: Path) -> None:
        self.child = SimpleNamespace(name=name, status=None, log_path=path, kill=lambda: None, pause=lambda: None)
        self.printed: list[Place] = []

    def read(self) -> list[Place]:
        """See `Output`."""
        new, self.printed = self.printed, []
        return new


def a_group(tmp_path: Path) -> tuple[Group, Member, Member]:
    path = tmp_path / "log"
    path.write_text("it says why")
    members = Member("first", path), Member("second", path)
    order = Order(servers="", topic="t", count=1, folder=tmp_path)
    group = Group("franz-go", order, cast(Any, None))
    group.members += cast(Any, members)
    members[0].printed = [(1, "0.0"), (2, "0.1")]
    group.read()
    group.has_committed(3)
    return group, *members


@pytest.mark.parametrize(("first", "problems"), [(3, []), (2, ["second begins at 2, 3 was committed"])])
def test_who_follows_begins_behind_what_was_committed(first: int, problems: list[str], tmp_path: Path) -> None:
    group, before, after = a_group(tmp_path)
    group.stop_active()
    # What it had read before it was stopped it may still print.
    before.printed = [(1, "0.0")]
    group.read()
    assert not group.has_followed
    after.printed = [(first, "0.2")]
    group.read()
    assert group.has_followed
    assert cast(Any, group.active) is after
    assert group.problems == problems


def test_what_a_killed_member_has_printed_is_processed(tmp_path: Path) -> None:
    group, killed, _ = a_group(tmp_path)
    killed.printed = [(3, "0.2")]
    group.kill_active()
    assert group.processed == {1: "0.0", 2: "0.1", 3: "0.2"}
    assert len(group.members) == 1


def test_a_committed_offset_that_falls_is_reported(tmp_path: Path) -> None:
    group, *_ = a_group(tmp_path)
    group.has_committed(2)
    assert group.problems == ["the committed offset of franz-go falls from 3 to 2"]
    assert group.committed == 3


def test_a_member_that_ends_is_reported(tmp_path: Path) -> None:
    group, _, second = a_group(tmp_path)
    second.child.status = 1
    with pytest.raises(LocalQuorumError, match="second ended:\nit says why"):
        group.read()
