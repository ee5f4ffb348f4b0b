"""A node's reads of a snapshot run where its host reads, and their errors are raised by the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pykraft.client.node_reads import read_by
from pykraft.errors import DeserializeError
from tests.client.states import opened_snapshot, records
from tests.snapshot.snapshots import ID


class Node:
    """It is its own host, which reads at once."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, read: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.reads += 1
        then(read())

    async def ask(self, act: Callable[[Any, Callable[[Any], None]], object], *, doubt: str | None = None) -> Any:
        assert doubt is None, "a read has no effect"
        answers: list[Any] = []
        act(self, answers.append)
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]


def test_the_host_reads() -> None:
    node = Node()
    reader = read_by(node, opened_snapshot(b"one", b"two"))
    assert reader.snapshot_id == ID
    assert asyncio.run(records(reader)) == ["one", "two"]
    assert node.reads == 2, "the second one finds the end"


def test_its_errors_are_raised() -> None:
    with pytest.raises(DeserializeError):
        asyncio.run(records(read_by(Node(), opened_snapshot(b"\xff"))))
