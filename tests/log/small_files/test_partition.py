"""partition.metadata: Kafka's bytes, another topic's, and unreadable ones.

Source: KIP-516; Kafka's ``PartitionMetadataFile``.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pykraft.errors import CorruptionError, ForeignDirectoryError
from pykraft.log.small_files.partition import encode_partition_metadata, own_partition, parse_partition_metadata
from pykraft.types import Uuid, uuid_parse
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, TOPIC_ID

GOLDEN = Path(__file__).parents[2] / "golden"
PATH = DIRECTORY / "partition.metadata"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/disk/n*/data/*/partition.metadata")), ids=str)
def test_kafkas_files_are_read_and_written(path: Path) -> None:
    topic_id = parse_partition_metadata(path, path.read_bytes())
    assert encode_partition_metadata(topic_id) == path.read_bytes()


def test_a_new_directory_is_owned_durably() -> None:
    fs = ScriptedDisk()
    own_partition(fs, DIRECTORY, TOPIC_ID)
    fs.power_loss(Random(1))
    assert fs.read(PATH) == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg"
    own_partition(fs, DIRECTORY, TOPIC_ID)


def test_another_topics_directory_is_refused() -> None:
    fs = ScriptedDisk()
    own_partition(fs, DIRECTORY, Uuid(bytes(range(16))))
    with pytest.raises(ForeignDirectoryError) as caught:
        own_partition(fs, DIRECTORY, TOPIC_ID)
    assert str(PATH) in str(caught.value)
    assert "topic id AAECAwQFBgcICQoLDA0ODw, expected AAAAAAAAAAAAAAAAAAAAAg; give" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"version: 0", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg", b"version: 0\ntopic_id: AAAA", b"\xff\x00"],
)
def test_what_cannot_be_read_is_refused_with_the_repair(content: bytes) -> None:
    fs = ScriptedDisk()
    fs.write(PATH, content)
    with pytest.raises(CorruptionError, match=r"partition\.metadata: .*remove partition\.metadata"):
        own_partition(fs, DIRECTORY, uuid_parse("AAAAAAAAAAAAAAAAAAAAAg"))
