"""Names of files: Kafka's spelling and no other."""

import pytest

from pykraft.log.paths import LOG, OFFSET_INDEX, leftover_kind, parse_checkpoint, parse_segment_file, segment_file
from pykraft.types import Epoch, Offset, OffsetAndEpoch


def test_segment_files() -> None:
    assert segment_file(Offset(0), LOG) == "00000000000000000000.log"
    assert segment_file(Offset(2**63 - 1), OFFSET_INDEX) == "09223372036854775807.index"
    assert parse_segment_file("00000000000000000093.timeindex") == (93, ".timeindex")


@pytest.mark.parametrize(
    "name",
    [
        "93.log",
        "00000000000000000093.log.deleted",
        "00000000000000000093.snapshot",
        "x0000000000000000093.log",
        "09223372036854775808.log",
        "0000000000000000009\u0663.log",
        "00000000000000000093.log\n",
    ],
)
def test_other_names_are_no_segment_files(name: str) -> None:
    assert parse_segment_file(name) is None


def test_what_kafka_leaves_behind() -> None:
    assert leftover_kind("00000000000000000093.log.deleted") == "deleted"
    assert leftover_kind("00000000000000000093.snapshot.deleted") == "deleted"
    assert leftover_kind("00000000000000000093.timeindex.cleaned") == "cleaned"
    assert leftover_kind("00000000000000000093.log.swap") == "swap"
    assert leftover_kind("00000000000000000093.log") is None
    assert leftover_kind("00000000000000000093-0000000001.checkpoint.deleted") is None


def test_checkpoints() -> None:
    name = "00000000000000000093-0000000002.checkpoint"
    assert parse_checkpoint(name) == OffsetAndEpoch(Offset(93), Epoch(2))
    assert parse_checkpoint(name + ".part") is None
    assert parse_checkpoint("bootstrap.checkpoint") is None
