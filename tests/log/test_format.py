"""Formatting writes all directories or none, and a start accepts what it wrote.

Source: KIP-858, KIP-631 §Formatting; Kafka's ``Formatter``, ``StorageTool`` and ``MetaPropertiesEnsemble``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.errors import CorruptionError, ForeignDirectoryError, UsageError
from pykraft.log.directory import LogDirectory
from pykraft.log.format import Formatted, format_directories, inspect_directories, meta_in
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.meta import MetaProperties, encode_meta
from pykraft.types import NodeId, Uuid

IDS = [Uuid(bytes([at]) * 16) for at in (1, 2, 3)]


def format_all(
    *paths: Path, cluster_id: str = "c", node_id: int = 1, given: dict[Path, Uuid] | None = None, ignore: bool = False
) -> list[Formatted]:
    ids = iter(IDS)
    return format_directories(
        OsFs(),
        paths,
        node_id=NodeId(node_id),
        cluster_id=cluster_id,
        directory_ids=given or {},
        ignore_formatted=ignore,
        random_uuid=lambda: next(ids),
    )


def problems(*paths: Path, node_id: int = 1) -> list[str]:
    return inspect_directories(OsFs(), paths, node_id=NodeId(node_id)).problems


def test_each_directory_has_an_id_of_its_own_and_a_start_takes_it(tmp_path: Path) -> None:
    one, two = tmp_path / "deep/one", tmp_path / "two"
    done = format_all(one, two, given={two: IDS[2]})
    assert [(each.path, each.directory_id, each.is_new) for each in done] == [(one, IDS[0], True), (two, IDS[2], True)]
    opened = LogDirectory.open(
        OsFs(), two, node_id=NodeId(1), cluster_id="c", directory_id=None, random_uuid=lambda: IDS[1]
    )
    assert opened.directory_id == IDS[2]
    opened.release()
    inspected = inspect_directories(OsFs(), [one, two], node_id=NodeId(1))
    assert inspected.problems == []
    assert inspected.meta == MetaProperties(node_id=NodeId(1), cluster_id="c", directory_id=IDS[0])


def test_what_is_formatted_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    format_all(two)
    with pytest.raises(UsageError, match="is already formatted: --ignore-formatted"):
        format_all(one, two)
    assert not one.exists()
    done = format_all(one, two, ignore=True)
    assert [each.is_new for each in done] == [True, False]


def test_what_is_ignored_must_be_the_same_nodes(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    format_all(two)
    for changed in ({"cluster_id": "d"}, {"node_id": 2}, {"given": {two: IDS[2]}}):
        with pytest.raises(ForeignDirectoryError, match=r"expected .*, but read "):
            format_all(one, two, ignore=True, **changed)
        assert not one.exists()
    (two / "meta.properties").write_text("garbage")
    with pytest.raises(CorruptionError):
        format_all(one, two, ignore=True)


def test_every_problem_is_told_in_kafkas_words(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("absent", "file", "bare", "first", "other", "node", "bad", "old")]
    _, file, bare, first, other, node, bad, old = paths
    file.write_text("")
    bare.mkdir()
    format_all(first)
    format_all(other, cluster_id="d")
    format_all(node, node_id=2)
    bad.mkdir()
    (bad / "meta.properties").write_text("version=1\nnode.id=x\n")
    old.mkdir()
    meta = MetaProperties(node_id=NodeId(1), cluster_id="c", directory_id=None)
    (old / "meta.properties").write_bytes(encode_meta(meta))
    told = problems(*paths)
    assert told[:5] == [
        f"{tmp_path}/absent does not exist",
        f"{file} is not a directory",
        f"{bare} is not formatted.",
        "Mismatched cluster IDs between storage directories.",
        "Mismatched node IDs between storage directories.",
    ]
    assert told[5].startswith(f"Error loading {bad}/meta.properties: at position 0: expected ")
    assert "has no directory.id" in told[6]
    assert len(told) == 7
    assert "those of node 1, and the configuration is node 3's" in problems(first, node_id=3)[0]


def test_what_a_directory_was_formatted_for(tmp_path: Path) -> None:
    fs, path = OsFs(), tmp_path / "data"
    assert meta_in(fs, path) is None
    [done] = format_all(path)
    assert meta_in(fs, path) == MetaProperties(node_id=NodeId(1), cluster_id="c", directory_id=done.directory_id)
