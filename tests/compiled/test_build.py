"""What a machine lacks is said in one line; what was built is found again.

The list of compiled modules fits the package.
"""

import sys
import sysconfig
from pathlib import Path

import pytest

from compiled import __main__ as command
from compiled import build as building
from compiled import modules
from compiled.build import CannotCompileError, build, require_compiler
from compiled.modules import PATTERNS, compiled_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with as much of a package as the key of a build is made of."""
    for package in ("pykraft", "pyspark_pykraft"):
        folder = tmp_path / "root" / "src" / package
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
    return tmp_path / "root"


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    with pytest.raises(CannotCompileError, match=r"there is no C compiler \(no-such-compiler\); on Debian: apt-get"):
        require_compiler()


def test_without_the_headers_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", sys.executable)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(CannotCompileError, match=r"has no Python\.h; on Debian: apt-get install python3-dev"):
        require_compiler()


def test_one_version_is_built_once(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Path] = []

    def compile_nothing(root: Path, scratch: Path) -> Path:
        built.append(root)
        (scratch / "built").mkdir()
        return scratch / "built"

    monkeypatch.setattr(building, "require_compiler", lambda: None)
    monkeypatch.setattr(building, "_compile", compile_nothing)
    first = build(root, tmp_path / "cache")
    assert first.is_dir()
    assert build(root, tmp_path / "cache") == first
    assert len(built) == 1
    (root / "src" / "pykraft" / "__init__.py").write_text("changed = True\n")
    assert build(root, tmp_path / "cache") != first
    assert len(built) == 2
    (root / "src" / "pykraft" / "page.css").write_text("body {}\n")
    build(root, tmp_path / "cache")
    assert len(built) == 3, "every file is copied, so every file counts"


def test_a_failed_build_leaves_nothing_behind(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(root: Path, scratch: Path) -> Path:
        (scratch / "half").mkdir()
        raise CannotCompileError("no")

    monkeypatch.setattr(building, "require_compiler", lambda: None)
    monkeypatch.setattr(building, "_compile", fail)
    with pytest.raises(CannotCompileError):
        build(root, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_command_prints_the_folder_or_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["compiled"])
    monkeypatch.setattr(command, "build", lambda: tmp_path)
    assert command.main() == 0
    assert capsys.readouterr().out == f"{tmp_path}\n"

    def refuse() -> Path:
        raise CannotCompileError("there is no C compiler (cc)")

    monkeypatch.setattr(command, "build", refuse)
    assert command.main() == 2
    assert capsys.readouterr().err.endswith("compiled: there is no C compiler (cc)\n")


@pytest.mark.parametrize(("word", "status"), [("--help", 0), ("--all", 2)])
def test_any_word_prints_what_the_command_does(
    word: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["compiled", word])
    assert command.main() == status
    assert "print its folder" in capsys.readouterr().out


PACKAGE = Path(__file__).resolve().parents[2] / "src" / "pykraft"


def test_the_rules_of_every_step_are_compiled() -> None:
    files = {str(file.relative_to(PACKAGE)) for file in compiled_files(PACKAGE)}
    assert {"core/raft.py", "core/on/fetch_request.py", "host/host.py", "log/lane.py", "types.py"} <= files
    assert not any(file.endswith("__init__.py") for file in files)


def test_no_pattern_is_left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "PATTERNS", (*PATTERNS, "core/no_such_module.py"))
    with pytest.raises(AssertionError, match=r"no file is called core/no_such_module\.py"):
        compiled_files(PACKAGE)
