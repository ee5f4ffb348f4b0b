"""Logs of replicas are read as streams and compared."""

import shutil
from pathlib import Path

import pytest

from lab.nodes.logs import Stream, read_stream, require_identical
from pykraft.errors import LocalQuorumError, ProtocolError
from pykraft.protocol.records import encode_batch
from pykraft.types import Epoch, Offset

RECORDED = Path(__file__).resolve().parents[2] / "golden"


def batch(base_offset: int, count: int = 1, *, epoch: int = 1, value: bytes = b"value") -> bytes:
    return encode_batch([value] * count, base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=1).data


def segment(folder: Path, base_offset: int, *batches: bytes) -> None:
    (folder / f"{base_offset:020}.log").write_bytes(b"".join(batches))


def test_segments_are_one_stream_however_they_are_cut(tmp_path: Path) -> None:
    segment(tmp_path, 5, batch(5, 2), batch(7))
    segment(tmp_path, 8, batch(8, epoch=2)[:-1])
    stream = read_stream(tmp_path)
    assert stream == Stream(start_offset=5, end_offset=8, last_epoch=1, data=batch(5, 2) + batch(7))
    assert read_stream(tmp_path / "nothing yet") == Stream(start_offset=0, end_offset=0, last_epoch=0, data=b"")


def test_holes_lost_ends_steps_back_and_damage_are_found(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0), batch(2))
    with pytest.raises(LocalQuorumError, match=r"offset 2 at byte .* follows 1"):
        read_stream(tmp_path)
    segment(tmp_path, 0, batch(0, epoch=2), batch(1))
    with pytest.raises(LocalQuorumError, match=r"epoch 1 at byte .* follows 2"):
        read_stream(tmp_path)
    segment(tmp_path, 0, batch(0), batch(1)[:-1])
    segment(tmp_path, 1, batch(1))
    with pytest.raises(LocalQuorumError, match="after the last whole batch"):
        read_stream(tmp_path)
    segment(tmp_path, 0, batch(0)[:-2] + b"\1\1")
    with pytest.raises(ProtocolError):
        read_stream(tmp_path)


def test_recorded_replicas_of_kafka_are_identical(tmp_path: Path) -> None:
    nodes = [RECORDED / "dynamic" / "disk" / f"n{i}" / "data" / "__cluster_metadata-0" for i in (1, 2, 3)]
    full = [node for node in nodes if (node / f"{0:020}.log").exists()]
    assert len(full) > 1
    streams = {str(node): read_stream(node) for node in full}
    require_identical(streams, end_offset=min(stream.end_offset for stream in streams.values()))


def test_a_difference_below_the_offset_is_found_and_one_above_is_not(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0), batch(1), batch(2))
    shutil.copytree(tmp_path, tmp_path / "other")
    segment(tmp_path / "other", 0, batch(0), batch(1), batch(2, value=b"VALUE"))
    streams = {"one": read_stream(tmp_path), "other": read_stream(tmp_path / "other")}
    require_identical(streams, end_offset=2)
    with pytest.raises(LocalQuorumError, match="one and other differ at bytes"):
        require_identical(streams, end_offset=3)
    with pytest.raises(LocalQuorumError, match="ends at 3, before 4"):
        require_identical(streams, end_offset=4)
