"""A process ends by the signals that it was not started to ignore."""

from __future__ import annotations

import signal

from pykraft.ending_signals import ENDING, ending_signals


def test_an_ignored_signal_is_left_out() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert ending_signals() == (signal.SIGINT, signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ending_signals() == ENDING
