"""Parts that are put together are judged as the whole log is, and snapshots are compared with the log.

Source: KIP-630.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.log.offline.verify import verify
from pykraft.log.os_fs import OsFs
from pykraft.snapshot.writer import SnapshotWriter
from tests.audit.planted import plant_all
from tests.audit.replicas import audited, kafkas_replicas, our_replicas
from tests.snapshot.snapshots import id_of


@pytest.mark.parametrize("part_size_bytes", [300, 1_500])
def test_parts_are_judged_as_the_whole_is(part_size_bytes: int, tmp_path: Path) -> None:
    sources = [our_replicas(tmp_path / "ours"), kafkas_replicas("static"), kafkas_replicas("dynamic")]
    for planted in plant_all(sources, tmp_path / "copies", 20, part_size_bytes):
        whole = verify(OsFs(), planted.replica, on_progress=lambda _: None)
        report = audited([planted.replica], part_size_bytes=part_size_bytes)
        wanted = {(one.path, one.position) for one in whole.findings.damage}
        # Only the audit knows what the files of a log that is too short say.
        found = {(one.path, one.position) for one in report.damage if "once reached" not in one.expected}
        assert found == wanted


def test_a_snapshot_with_another_timestamp_than_the_log_is_damage(tmp_path: Path) -> None:
    directories = our_replicas(tmp_path)
    partition = next(directories[2].glob("__*"))
    writer = SnapshotWriter(OsFs(), partition, id_of(20, 1), bytes_serde, last_contained_log_timestamp=1_000_018)
    writer.freeze()
    (found,) = audited(directories).damage
    assert (found.path.name, found.position) == ("00000000000000000020-0000000001.checkpoint", 0)
    assert found.expected == "timestamp 1000019 of offset 19 in the log"


def test_a_snapshot_with_other_voters_than_the_log_is_damage(tmp_path: Path) -> None:
    source = next(path for path in kafkas_replicas("dynamic") if "n2" in path.parts)
    copy = tmp_path / "n2"
    shutil.copytree(source, copy)
    partition = next(copy.glob("__*"))
    writer = SnapshotWriter(
        OsFs(),
        partition,
        id_of(50, 1),
        bytes_serde,
        last_contained_log_timestamp=0,
        kraft_version=1,
    )
    writer.freeze()
    found = [one.expected for one in audited([copy]).damage if one.path.name.startswith("00000000000000000050-")]
    assert any(text.startswith("the KRaftVoters record of the log before offset 50") for text in found)
