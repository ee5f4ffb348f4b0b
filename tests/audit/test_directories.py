"""Directories of two clusters or kinds are refused; one that names no cluster is compared with the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.errors import ForeignClusterError, UsageError
from tests.audit.replicas import audited, kafkas_replicas, our_replicas
from tests.log.data_directory import META


def test_directories_of_two_clusters_are_refused_since_nothing_in_them_is_equal(tmp_path: Path) -> None:
    ours, kafkas = our_replicas(tmp_path), kafkas_replicas("static")
    with pytest.raises(ForeignClusterError) as error:
        audited([*ours, *kafkas])
    told = str(error.value)
    assert f"2 clusters (of cluster {META.cluster_id}: {', '.join(map(str, ours))}; of cluster " in told
    assert f": {', '.join(map(str, kafkas))}): give those of one cluster" in told
    with pytest.raises(ForeignClusterError):
        audited([next(path.glob("__*")) for path in (ours[0], kafkas[0])])


@pytest.mark.parametrize("content", [None, b"version=1\n", b"nothing"])
def test_a_directory_that_names_no_cluster_is_compared(content: bytes | None, tmp_path: Path) -> None:
    directories = our_replicas(tmp_path)
    file = directories[0] / "meta.properties"
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    assert [one.path for one in audited(directories).damage] == ([] if content is None else [file])


def test_directories_of_two_kinds_are_refused_since_they_would_not_be_compared(tmp_path: Path) -> None:
    directories = our_replicas(tmp_path)
    with pytest.raises(UsageError, match="give all of one kind"):
        audited([directories[0], next(directories[1].glob("__*"))])
    assert audited([next(path.glob("__*")) for path in directories]).is_sound


def test_a_directory_is_given_once(tmp_path: Path) -> None:
    directories = our_replicas(tmp_path)
    with pytest.raises(UsageError, match="given twice"):
        audited([*directories, directories[0] / ".." / directories[0].name])
