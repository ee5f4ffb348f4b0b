"""Signals do after a block what they did before it, and a delayed signal comes when the block ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from pykraft.signal_handlers import handlers_restored, signals_later


@pytest.fixture
def came() -> Iterator[list[int]]:
    """Has the number of each SIGTERM; SIGHUP is ignored."""
    numbers: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: numbers.append(number))
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield numbers
    signal.signal(signal.SIGTERM, before)
    signal.signal(signal.SIGHUP, ignored)


def test_signals_are_delayed_and_those_that_are_ignored_stay_so(came: list[int]) -> None:
    with signals_later():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
        assert came == []
    assert came == [signal.SIGTERM]


def test_a_signal_comes_also_after_an_error(came: list[int]) -> None:
    def fail() -> None:
        with signals_later():
            signal.raise_signal(signal.SIGTERM)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert came == [signal.SIGTERM]


def test_handlers_are_put_back_also_after_an_error(came: list[int]) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def fail() -> None:
        with handlers_restored([signal.SIGTERM]):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert signal.getsignal(signal.SIGTERM) is before
    assert came == []


def test_a_handler_that_python_did_not_set_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: list[object] = []
    monkeypatch.setattr(signal, "getsignal", lambda _: None)
    monkeypatch.setattr(signal, "signal", lambda _, handler: handlers.append(handler))
    with signals_later(), handlers_restored([signal.SIGTERM]):
        pass
    assert handlers == []


def test_in_another_thread_nothing_is_changed(came: list[int]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    found: list[object] = []

    def look() -> None:
        with signals_later(), handlers_restored([signal.SIGTERM]):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [before]
    assert came == []
