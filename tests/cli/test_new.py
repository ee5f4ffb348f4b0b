"""`pykraft new`: the project passes its own tests and ours of style, and nothing that exists is changed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.new import PLACES, new
from pykraft.errors import UsageError
from tests.tidy.repository import ROOT


def run(*words: str) -> Result:
    return CliRunner().invoke(new, words, catch_exceptions=False)


@pytest.mark.long
@pytest.mark.interpreted
def test_project_passes_its_own_tests(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "shop"
    assert (
        run("shop", "--folder", str(folder)).output
        == f"Wrote {folder}: its README.md has the two commands that run it\n"
    )
    assert len([path for path in folder.rglob("*") if path.is_file()]) == len(PLACES)
    assert not any("myapp" in path.read_text() for path in folder.rglob("*") if path.is_file())
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{folder}"}
    for words in (
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"],
        ["-m", "ruff", "check", "--isolated", "--line-length", "120", "."],
        ["-m", "mypy", "--strict", "--no-incremental", "shop", "tests"],
    ):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("name", ["", "Shop", "my-app", "../shop", "class", "tests", "pykraft", "1st"])
def test_what_is_no_name_of_a_package_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be a package"):
        run(name, "--folder", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_exists_is_changed(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        run("shop", "--folder", str(tmp_path))
    with pytest.raises(UsageError, match=r"README\.md: Not a directory"):
        run("shop", "--folder", str(tmp_path / "README.md"))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
