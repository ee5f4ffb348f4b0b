"""Quorums of one that tests of the data source read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykraft.local.voters import PARTITION
from pykraft.log.os_fs import OsFs
from tests.snapshot.snapshots import id_of, write
from tests.spark.quorum_of_one import OneNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OneNode]:
    """Offset 0 is the leader's own; a batch of two and one of three follow."""
    made = OneNode(tmp_path)
    made.append(b"a", b"b")
    made.append(b"c", b"d", b"e")
    yield made
    made.stop()


@pytest.fixture
def late_node(tmp_path: Path) -> Iterator[OneNode]:
    """A quorum of one whose log begins behind a snapshot, at offset 100: LeaderChange, a, b."""
    partition = tmp_path / "n1" / PARTITION
    partition.mkdir(parents=True)
    write(OsFs(), [b"state"], partition, id_of(100, 3))
    made = OneNode(tmp_path)
    made.append(b"a")
    made.append(b"b")
    yield made
    made.stop()
