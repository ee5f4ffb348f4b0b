"""systemd is told when the node serves; a node without it runs just the same."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

import pytest

from pykraft.server.service_manager import notify_ready


@pytest.mark.parametrize("is_abstract", [False, True])
def test_the_service_manager_is_told(is_abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"pykraft-{os.urandom(8).hex()}" if is_abstract else str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}" if is_abstract else name)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}" if is_abstract else name)
        notify_ready()
        assert manager.recv(100, socket.MSG_DONTWAIT) == b"READY=1"


def test_without_a_service_manager_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify_ready()
    assert caplog.messages == []


def test_one_that_is_gone_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    with caplog.at_level(logging.WARNING, logger="pykraft"):
        notify_ready()
    assert caplog.messages == [
        f"NOTIFY_SOCKET {tmp_path}/gone: the service manager cannot be told: No such file or directory"
    ]
