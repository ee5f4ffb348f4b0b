"""The list of compiled modules fits the package."""

from pathlib import Path

import pytest

from compiled import modules
from compiled.modules import PATTERNS, compiled_files

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "pykraft"


def test_the_rules_of_every_step_are_compiled() -> None:
    files = {str(file.relative_to(PACKAGE)) for file in compiled_files(PACKAGE)}
    assert {"core/raft.py", "core/on/fetch_request.py", "host/stepping.py", "log/lane.py", "types.py"} <= files
    assert not any(file.endswith("__init__.py") for file in files)


def test_no_pattern_is_left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "PATTERNS", (*PATTERNS, "core/no_such_module.py"))
    with pytest.raises(AssertionError, match=r"no file is called core/no_such_module\.py"):
        compiled_files(PACKAGE)
