"""The process that holds small file systems: its errors, and that it works without root in a user namespace.

What it mounts is used in `tests.lab.chaos.test_disks`.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from lab.chaos import disk_holder


def test_each_step_is_answered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    called: list[tuple[object, ...]] = []

    def call(name: str, *arguments: object) -> None:
        called.append((name, *arguments))
        if arguments[-1] == b"size=1,mode=0700":
            raise OSError(22, "too small")

    monkeypatch.setattr(disk_holder, "call", call)
    monkeypatch.setattr("sys.stdin", io.StringIO("0 8192\n1 1\n"))
    disk_holder.main(["4096", "a", "b"])
    assert capsys.readouterr().out.splitlines() == ["done", "done", "[Errno 22] too small"]
    assert [words[2] for words in called if words[0] == "mount"] == [b"/", b"a", b"b", b"a", b"b"]


def test_a_user_keeps_the_ids_in_a_user_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    written: dict[str, str] = {}

    def call(name: str, flags: int) -> None:
        called.append((name, flags))
        if flags == disk_holder.CLONE_NEWNS:
            raise PermissionError(1, "not root")

    monkeypatch.setattr(disk_holder, "call", call)
    monkeypatch.setattr(Path, "write_text", lambda path, text: written.update({path.name: text}))
    disk_holder._enter_namespaces()
    assert called[-1] == ("unshare", disk_holder.CLONE_NEWUSER | disk_holder.CLONE_NEWNS)
    assert written["uid_map"] == f"{os.getuid()} {os.getuid()} 1"


def test_an_error_of_the_system_has_its_number() -> None:
    with pytest.raises(OSError, match="unshare: Invalid argument"):
        disk_holder.call("unshare", -1)
