"""SIGTERM ends the block once."""

from __future__ import annotations

import os
import signal

import pytest

from pykraft.cli.interrupt import EXIT_SIGNAL, ended_by_sigterm


def test_sigterm_unwinds_and_the_handler_before_is_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, ended_by_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
    assert ended.value.code == EXIT_SIGNAL + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before
