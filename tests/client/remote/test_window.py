"""An observer's window has no gap, its epochs never decrease, and it returns only committed batches."""

from __future__ import annotations

import pytest

from pykraft.client.remote.window import Window
from pykraft.protocol.records import encode_batch
from pykraft.types import Epoch, Offset


def add(window: Window, base_offset: int, *values: bytes, epoch: int = 1, leader_epoch: int = 9) -> str | None:
    batch = encode_batch(values or (b"v",), base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=7)
    return window.add(*batch, leader_epoch=Epoch(leader_epoch))


def test_only_what_is_committed_is_given_out() -> None:
    window = Window(Offset(0))
    assert add(window, 0, b"a", b"b") is None
    assert add(window, 2, b"c") is None
    assert window.take() is None
    window.commit_to(Offset(1))
    assert window.take() is None
    window.commit_to(Offset(2))
    batch = window.take()
    assert batch is not None
    assert (batch.base_offset, batch.end_offset, batch.epoch, batch.timestamp_ms) == (0, 2, 1, 7)
    assert (batch.is_control, batch.values()) == (False, [b"a", b"b"])
    assert window.take() is None
    assert (window.next_offset, window.end_offset, window.end_epoch) == (2, 3, 1)


def test_the_high_watermark_never_goes_back() -> None:
    window = Window(Offset(0))
    window.commit_to(Offset(5))
    window.commit_to(Offset(3))
    assert window.high_watermark == 5


def test_a_hole_and_an_overlap_are_refused() -> None:
    window = Window(Offset(0))
    assert "offsets 1 to 1 where 0 comes next" in str(add(window, 1))
    assert add(window, 0) is None
    assert "offsets 0 to 0 where 1 comes next" in str(add(window, 0))
    assert window.end_offset == 1


def test_the_first_batch_may_begin_before_the_offset_that_was_asked_for() -> None:
    window = Window(Offset(5))
    assert add(window, 3, b"a", b"b") is not None
    assert add(window, 3, b"a", b"b", b"c", b"d") is None
    assert window.end_offset == 7
    assert add(window, 6, b"a", b"b") is not None


@pytest.mark.conformance("H73")
def test_epochs_never_go_back_and_are_not_above_the_leaders() -> None:
    window = Window(Offset(0))
    assert "of epoch 4, after 0, from the leader of epoch 3" in str(add(window, 0, epoch=4, leader_epoch=3))
    assert add(window, 0, epoch=3, leader_epoch=3) is None
    assert "of epoch 2, after 3" in str(add(window, 1, epoch=2))
    window.commit_to(Offset(1))
    assert window.take() is not None
    assert "of epoch 2, after 3" in str(add(window, 1, epoch=2))


def test_what_is_dropped_is_fetched_again() -> None:
    window = Window(Offset(0))
    assert not window.drop_held()
    add(window, 0, epoch=1)
    window.commit_to(Offset(1))
    window.take()
    add(window, 1, epoch=2)
    assert window.held_size_bytes > 0
    assert window.drop_held()
    assert (window.held_size_bytes, window.end_offset, window.end_epoch) == (0, 1, 1)
