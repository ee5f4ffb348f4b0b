"""A flipped frame reads as the bytes that it is made of."""

from pykraft.sim.flipped_frame import FlippedFrame


def test_a_replica_cannot_tell_it_from_another_frame() -> None:
    frame = FlippedFrame(b"\x00\x01")
    assert frame == b"\x00\x01"
    assert isinstance(frame[1:], bytes)
    assert memoryview(frame).readonly
