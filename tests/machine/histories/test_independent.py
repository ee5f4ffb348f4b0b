"""Without Go the second checker is an error that says what to install, never a history that passes."""

from pathlib import Path

import pytest

from pykraft.errors import UsageError
from tests import go_program
from tests.machine.histories import independent
from tests.machine.histories.cases import LINEARIZABLE, history
from tests.machine.histories.events import written


def test_without_go_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(go_program, "PLACES", ())
    go_program.go_program.cache_clear()
    with pytest.raises(UsageError, match="apt-get install golang-go"):
        independent.checked(written(history(LINEARIZABLE["one after the other"]), tmp_path / "history"))


def test_a_go_that_cannot_build_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "go"
    broken.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    go_program.go_program.cache_clear()
    with pytest.raises(UsageError, match="porcupine cannot be built: no such module"):
        independent.program()
