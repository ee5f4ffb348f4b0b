"""Which replicas to read: directories, files and globs, and a name for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.spark.data_source.files import find_replicas, replica_names
from tests.spark.logs import write_segment


def found(*patterns: str) -> dict[str, list[Path]]:
    """Segments by replica."""
    return {replica.name: replica.segments() for replica in find_replicas(patterns)}


def test_segments_are_found_by_directory_file_and_glob(tmp_path: Path) -> None:
    files = [write_segment(tmp_path / name / "data" / "p-0", b"") for name in ("n1", "n2")]
    later = write_segment(tmp_path / "n1" / "data" / "p-0", b"", base_offset=10)
    (later.parent / "00000000000000000010.index").touch()
    (later.parent / "quorum-state").touch()
    expected = {"n1": [files[0], later], "n2": [files[1]]}
    assert found(str(files[0].parent), str(files[1])) == expected
    assert found(f"{tmp_path}/n*/data/p-0") == expected
    assert found(f"{tmp_path}/n*/data/p-0/*.log", str(later)) == expected
    assert found(f"{tmp_path}/n*/data/p-0/*10.log") == {"data": [later]}


def test_a_directory_grows_and_named_files_stay_what_they_are(tmp_path: Path) -> None:
    first = write_segment(tmp_path / "p-0", b"")
    (whole,) = find_replicas([str(first.parent), str(first)])
    (named,) = find_replicas([str(first)])
    second = write_segment(tmp_path / "p-0", b"", base_offset=10)
    assert whole.segments() == [first, second]
    assert named.segments() == [first]


def test_one_directory_is_one_replica_by_whatever_name(tmp_path: Path) -> None:
    segment = write_segment(tmp_path / "n[1]" / "p-0", b"")
    (tmp_path / "link").symlink_to(segment.parent)
    assert found(str(segment.parent), str(tmp_path / "link"), str(segment)) == {"n[1]": [segment]}


@pytest.mark.parametrize("pattern", ["absent", "", "*.txt"])
def test_a_pattern_without_segments_is_an_error(pattern: str, tmp_path: Path) -> None:
    write_segment(tmp_path / "p-0", b"")
    with pytest.raises(UsageError, match="no segment files; give partition directories"):
        find_replicas([str(tmp_path / "p-0"), str(tmp_path / pattern)])


def test_a_replica_is_named_by_what_tells_it_from_the_others() -> None:
    alone, one, two = Path("/var/data/n1/p-0"), Path("/var/n1/data/p-0"), Path("/var/n2/data/p-0")
    assert replica_names([alone]) == {alone: "n1"}
    assert replica_names([one, two]) == {one: "n1", two: "n2"}
    assert replica_names([one.parent, one]) == {one.parent: "/var/n1/data", one: "p-0"}
