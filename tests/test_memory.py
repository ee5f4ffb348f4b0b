"""What is held against a call is its own memory: all of it, and nobody else's."""

import threading

import pytest

from tests.memory import taking_less_than


def test_a_call_that_takes_more_each_time_is_refused() -> None:
    # The interpreter adds a few bytes of its own, by its version.
    peaks = r"\[100\d{3}, 100\d{3}, 100\d{3}\]"
    with pytest.raises(AssertionError, match=f"it takes {peaks} bytes, each time at least 90000"):
        taking_less_than(90_000, lambda: len(bytes(100_000)))


def test_what_is_freed_at_once_counts() -> None:
    with pytest.raises(AssertionError, match="each time at least 90000"):
        taking_less_than(90_000, lambda: sum(len(bytes(30_000)) for _ in "ab") + len(bytes(100_000)))


def test_a_call_that_takes_no_more_has_a_result() -> None:
    assert taking_less_than(110_000, lambda: len(bytes(100_000))) == 100_000


def test_what_another_thread_takes_once_does_not_count() -> None:
    """A worker of pytest-xdist was told to give up a thousand tests while a Fetch request was decoded."""
    held: list[bytes] = []

    def once() -> int:
        if not held:
            other = threading.Thread(target=lambda: held.append(bytes(100_000)))
            other.start()
            other.join()
        return len(held)

    assert taking_less_than(90_000, once) == 1
