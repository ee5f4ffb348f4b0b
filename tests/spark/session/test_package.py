"""The package as one file works without its sources, is reproducible, and is not built twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from pykraft.errors import StorageError
from pykraft.spark.session.package import cached_package, write_package


def test_python_imports_from_it(tmp_path: Path) -> None:
    path = tmp_path / "made" / "here.zip"
    write_package(path)
    ask = "import pykraft.protocol.records as m; print(m.__file__)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", ask],
        env=environment | {"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(path / "pykraft" / "protocol" / "records.py")
    assert list(path.parent.iterdir()) == [path]
    with ZipFile(path) as package:
        assert "pyspark_pykraft/__init__.py" in package.namelist()


def test_it_is_made_once(tmp_path: Path) -> None:
    first = cached_package(tmp_path)
    content, made = first.read_bytes(), first.stat().st_mtime_ns
    assert cached_package(tmp_path) == first
    assert first.stat().st_mtime_ns == made
    write_package(first)
    assert first.read_bytes() == content


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        write_package(tmp_path / "file" / "x.zip")
