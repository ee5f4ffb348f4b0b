"""Healthy replicas pass, and each planted damage is named with replica, file and byte.

Source: ours.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pykraft.log.small_files.meta import encode_meta
from tests.audit.planted import Planted, plant_all
from tests.audit.replicas import audited, kafkas_replicas, our_replicas
from tests.log.data_directory import META

DAMAGES, SHARES = 300, 5
RECORDINGS = ("static", "dynamic", "raft")
SEED = 20261123


def is_named(planted: Planted) -> bool:
    report = audited(planted.directories)
    others = {one.replica for one in report.damage} - {str(planted.replica)}
    named = [one.position for one in report.damage if one.path == planted.path]
    return not others and any(planted.first <= position <= planted.last for position in named)


@pytest.mark.parametrize("share", range(SHARES))
def test_all_planted_damages_are_named(share: int, tmp_path: Path) -> None:
    sources = [our_replicas(tmp_path / "ours"), *map(kafkas_replicas, RECORDINGS)]
    planted = list(plant_all(sources, tmp_path / "copies", DAMAGES // SHARES, SEED + share))
    assert [str(one) for one in planted if not is_named(one)] == []


@pytest.mark.parametrize("part_size_bytes", [700, 64 * 1024 * 1024])
@pytest.mark.parametrize("recording", RECORDINGS)
def test_what_kafka_wrote_is_sound(recording: str, part_size_bytes: int) -> None:
    report = audited(kafkas_replicas(recording), part_size_bytes=part_size_bytes)
    assert report.damage == []
    assert len(report.logs) >= 3


@pytest.mark.parametrize("part_size_bytes", [700, 64 * 1024 * 1024])
def test_what_pykraft_wrote_is_sound(part_size_bytes: int, tmp_path: Path) -> None:
    report = audited(our_replicas(tmp_path), part_size_bytes=part_size_bytes)
    assert (report.damage, report.notes) == ([], [])
    assert {(log.start_offset, log.end_offset, log.batches_count) for log in report.logs} == {(0, 60, 60)}


def test_a_partition_of_one_replica_only_is_told(tmp_path: Path) -> None:
    ours = our_replicas(tmp_path)[0]
    kafkas = tmp_path / "kafkas"
    shutil.copytree(kafkas_replicas("static")[0], kafkas)
    shutil.copy(ours / "meta.properties", kafkas)
    report = audited([ours, kafkas])
    assert [note.text for note in report.notes] == ["is in no other directory: nothing to compare with"] * 2


def test_a_directory_that_is_just_formatted_has_no_log(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(encode_meta(META))
    report = audited([tmp_path])
    assert (report.logs, report.damage) == ([], [])
