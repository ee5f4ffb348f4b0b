"""Names the signals that end a process of ours. A signal that the process was started to ignore stays ignored.

``nohup`` starts a process with SIGHUP ignored, and a shell script starts a background job with SIGINT ignored.

Invariant: this module imports only what Python has loaded, so that `pykraft.early_signals` may use it.

Source: the JVM (``JVM_RegisterSignal``), whose shutdown signals are SIGHUP, SIGINT and SIGTERM.
"""

from __future__ import annotations

import signal

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C; `kill`, systemd and container runtimes; the terminal was closed."""


def ending_signals() -> tuple[signal.Signals, ...]:
    """Those of `ENDING` that this process does not ignore."""
    return tuple(number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN)
