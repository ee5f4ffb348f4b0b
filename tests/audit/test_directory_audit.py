"""Healthy replicas pass, and each planted damage is named with replica, file and byte.

Source: ours.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.planted import Planted, plant_all
from tests.audit.replicas import audited, kafkas_replicas, our_replicas

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
