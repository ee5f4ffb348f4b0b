"""Replicas that differ or are damaged are reported; the longest intact one is the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.demo.replicas import compare
from pykraft.protocol.records import HEADER_SIZE_BYTES
from tests.spark.logs import EPOCH, batch, payload, said, write_segment

COUNT = 6
SAID = said(COUNT)
BATCHES = [batch([payload(at), payload(at + 1)], base_offset=at) for at in range(0, COUNT, 2)]


@pytest.fixture
def replicas(tmp_path: Path) -> dict[str, Path]:
    """Three alike."""
    return {name: write_segment(tmp_path / name, b"".join(BATCHES)).parent for name in ("node 1", "node 2", "node 3")}


def flip(partition: Path, position: int) -> None:
    (segment,) = partition.glob("*.log")
    data = bytearray(segment.read_bytes())
    data[position] ^= 1
    segment.write_bytes(data)


def test_replicas_that_are_alike_have_no_problem(replicas: dict[str, Path]) -> None:
    write_segment(replicas["node 3"], b"".join(BATCHES) + batch([payload(COUNT)], base_offset=COUNT))
    found = compare(replicas, [SAID], end_offset=COUNT)
    assert (found.are_identical, found.problems, found.furthest) == (True, (), replicas["node 3"])


def test_a_flipped_byte_of_a_record_is_damage_with_its_replica(replicas: dict[str, Path]) -> None:
    flip(replicas["node 1"], len(BATCHES[0]) + HEADER_SIZE_BYTES + 30)
    found = compare(replicas, [SAID], end_offset=COUNT)
    assert not found.are_identical
    (problem,) = found.problems
    assert problem.startswith("the log of node 1 is damaged: ")
    assert problem.endswith(f"({replicas['node 1']})")
    assert found.furthest in {replicas["node 2"], replicas["node 3"]}


def test_a_flipped_byte_that_no_crc_covers_is_a_difference(replicas: dict[str, Path]) -> None:
    epoch_position = 15
    flip(replicas["node 2"], len(BATCHES[0]) + len(BATCHES[1]) + epoch_position)
    found = compare(replicas, [SAID], end_offset=COUNT)
    assert not found.are_identical
    assert found.problems
    assert not any("\n" in problem for problem in found.problems)


def test_a_replica_that_ends_early_is_a_difference(replicas: dict[str, Path]) -> None:
    write_segment(replicas["node 2"], BATCHES[0])
    found = compare(replicas, [SAID], end_offset=COUNT)
    assert (found.are_identical, found.problems) == (False, ("node 2 ends at 2, before 6",))


def test_what_the_log_lacks_is_a_problem_of_identical_replicas(replicas: dict[str, Path]) -> None:
    for partition in replicas.values():
        write_segment(partition, BATCHES[0])
    found = compare(replicas, [SAID], end_offset=2)
    assert found.are_identical
    assert found.problems


def test_a_record_of_another_epoch_than_its_batch_is_a_problem(tmp_path: Path) -> None:
    partition = write_segment(tmp_path / "n1", batch([payload(0, epoch=EPOCH + 1)], base_offset=0)).parent
    found = compare({"node 1": partition}, [], end_offset=1)
    assert found.are_identical
    (problem,) = found.problems
    assert problem.startswith("the log of node 1: offset 0 holds a record of epoch")


def test_no_sound_replica_is_no_log(replicas: dict[str, Path]) -> None:
    for partition in replicas.values():
        flip(partition, HEADER_SIZE_BYTES + 30)
    found = compare(replicas, [SAID], end_offset=COUNT)
    assert (found.are_identical, len(found.problems), found.furthest) == (False, 3, None)
