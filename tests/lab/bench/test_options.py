"""Options that cannot be measured are rejected in one line that names the option."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.bench.options import RUN_SIZE_BYTES_MAX, BenchOptions, parse_sizes, parse_throughput, run_size_bytes
from pykraft.errors import UsageError


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"nodes": 0}, "--nodes 0: give 1 to 9"),
        ({"runs": -1}, "--runs -1: give 1 to 100"),
        ({"linger_ms": -1}, "--linger-ms -1"),
        ({"seconds": 0.0}, "--seconds 0"),
        ({"seconds": float("nan")}, "--seconds nan"),
        ({"warm_up_s": -1.0}, "--warm-up -1"),
        ({"records_per_s": 0}, "--throughput 0"),
        ({"record_sizes_bytes": ()}, "at least one size"),
        ({"record_sizes_bytes": (100, 0)}, "--record-size 0"),
        ({"record_sizes_bytes": (2**30,)}, f"--record-size {2**30}"),
    ],
)
def test_values_out_of_range_are_refused(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        BenchOptions(folders=(tmp_path,), **changes)  # type: ignore[arg-type]
    assert problem in str(refused.value)


def test_a_folder_must_be_there_and_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="there is no such folder"):
        BenchOptions(folders=(tmp_path / "none",))
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="there is no such folder"):
        BenchOptions(folders=(tmp_path / "file",))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match="may not write there"):
        BenchOptions(folders=(tmp_path,))


@pytest.mark.parametrize(
    ("free_mib", "allowed_mib"), [(1_000, 600), (10_000, 6_000), (100_000, RUN_SIZE_BYTES_MAX >> 20)]
)
def test_a_run_takes_a_part_of_what_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_mib: int, allowed_mib: int
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free_mib * 256, f_frsize=4096))
    assert run_size_bytes(tmp_path) >> 20 == allowed_mib


def test_a_folder_that_is_nearly_full_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=100 * 256, f_frsize=4096))
    with pytest.raises(UsageError, match="only 100 MiB are free, and a run needs 426 MiB"):
        BenchOptions(folders=(tmp_path,))


@pytest.mark.parametrize("text", ["", "a", "100,", "-1", "1e3", "\u0661", "1" * 10])
def test_what_is_no_list_of_sizes_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--record-size"):
        parse_sizes(text)


@pytest.mark.parametrize("text", ["", "-1", "all", "1.5", "1" * 13])
def test_what_is_no_throughput_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--throughput"):
        parse_throughput(text)
