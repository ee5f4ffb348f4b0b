"""Nodes compare their states while they work: one that has parted ends with a report, and the others go on."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

import pytest

from pykraft.errors import NotRunningError, ReplicasPartedError, UsageError
from pykraft.machine import Applied, Replicated
from pykraft.machine.state_check_writer import voter_ids
from tests.client.nodes import config_of
from tests.machine.counters import Add, Counters, machines, next_turn

numbers = count(1)


class Own(Counters):
    """The third one that is made counts in another way from the fifth command on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_odd = next(numbers) % 3 == 0

    def apply(self, command: Add, context: Applied) -> int:
        total = super().apply(command, context)
        if self.is_odd and total == 5:
            self.totals[command.key] = total + 1
        return total


def test_a_node_that_has_parted_ends_and_the_others_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with machines(tmp_path, machine=Own, check_every=2) as nodes:
            good, bad = nodes[0], nodes[2]
            for _ in range(8):
                await good.execute(Add("x", 1))
            with pytest.raises(ReplicasPartedError, match="the replicas have parted"):
                await bad.node.wait_closed()
            for _ in range(4):
                await good.execute(Add("y", 1))
            async with good.read() as state:
                assert state.totals == {"x": 8, "y": 4}

    with pytest.raises(ReplicasPartedError):  # whoever closes the node gets its report, too
        asyncio.run(main())


def test_equal_nodes_tell_and_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with machines(tmp_path, check_every=1) as nodes:
            checks = [node._applier.check for node in nodes]
            for _ in range(3):
                known = [check.found for check in checks if check is not None]
                for _ in range(4):
                    await nodes[1].execute(Add("x", 1))
                for check, before in zip(checks, known, strict=True):
                    assert check is not None
                    while check.found is before or not all(map(check.is_told, (1, 2, 3))):
                        await next_turn()

    asyncio.run(main())


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    for wrong in (0, 5_000, "1"):
        with pytest.raises(UsageError, match="check_every"):
            Replicated(config_of(tmp_path, 1), Counters(), check_every=wrong)  # type: ignore[arg-type]


def test_a_node_that_does_not_run_knows_no_voters(tmp_path: Path) -> None:
    async def main() -> None:
        node = Replicated(config_of(tmp_path, 1), Counters()).node
        with pytest.raises(NotRunningError):
            node.latest_voter_set  # noqa: B018 - it raises
        assert voter_ids(node) == []

    asyncio.run(main())
