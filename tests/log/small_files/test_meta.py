"""meta.properties: Java's text in any order, and every way in which it can be wrong.

partition.metadata: Kafka's bytes, another topic's, and unreadable ones.
"""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import CorruptionError, ForeignDirectoryError
from pykraft.log.small_files.meta import (
    MetaProperties,
    encode_meta,
    encode_partition_metadata,
    own_partition,
    parse_meta,
    parse_partition_metadata,
)
from pykraft.types import NodeId, Uuid, uuid_parse
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, TOPIC_ID

GOLDEN = Path(__file__).parents[2] / "golden"
PATH = Path("/data/meta.properties")
WHOLE = "version=1\nnode.id=3\ncluster.id=abc\n"

metas = st.builds(
    MetaProperties,
    node_id=st.integers(0, 2**31 - 1).map(NodeId),
    cluster_id=st.text("abcXYZ019-_", min_size=1, max_size=22),
    directory_id=st.none() | st.binary(min_size=16, max_size=16).map(Uuid),
)


@given(metas)
def test_what_is_written_is_read_back(meta: MetaProperties) -> None:
    assert parse_meta(PATH, encode_meta(meta)) == meta


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/disk/n*/data/meta.properties")), ids=str)
def test_kafkas_files_are_read_and_written_but_for_the_date(path: Path) -> None:
    meta = parse_meta(path, path.read_bytes())
    assert meta.node_id == int(path.parts[-3].removeprefix("n"))
    assert meta.directory_id is not None
    ours = encode_meta(meta).splitlines()
    theirs = [line for line in path.read_bytes().splitlines() if not line.startswith(b"#")]
    assert sorted(ours[1:]) == sorted(theirs)


def test_comments_spaces_escapes_and_other_keys_are_taken_as_java_does() -> None:
    text = "! a\n  # b\r\n\n version = 1 \nnode.id=7\ncluster.id=a\\:b\\=c\nbroker.rack=x\n"
    meta = parse_meta(PATH, f"{text}directory.id=TmUTJ7RjRAuw7JObKkYa_g".encode())
    assert meta == MetaProperties(
        node_id=NodeId(7), cluster_id="a:b=c", directory_id=uuid_parse("TmUTJ7RjRAuw7JObKkYa_g")
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "the key version, found keys none"),
        ("version=1\nnode.id=3\n", "the key cluster.id, found keys node.id, version"),
        ("version=1\ncluster.id=abc\n", "the key node.id"),
        (WHOLE + "node.id=-1\n", "node.id to be a number from 0 to 2147483647, found '-1'"),
        (WHOLE + "node.id=2147483648\n", "node.id to be a number"),
        (WHOLE + "node.id=\u0663\n", "node.id to be a number"),
        (WHOLE + "directory.id=short\n", "directory.id to be a UUID, found 'short'"),
        (WHOLE + "\x00\x00\n", "at position 35: expected key=value"),
    ],
)
def test_what_is_missing_or_wrong_is_named(content: str, expected: str) -> None:
    with pytest.raises(CorruptionError) as caught:
        parse_meta(PATH, content.encode())
    assert expected in str(caught.value)
    assert str(PATH) in str(caught.value)
    assert "restore the file" in str(caught.value)


@pytest.mark.parametrize(("version", "whose"), [("0", "a ZooKeeper broker's"), ("2", "a directory of a later Kafka")])
def test_other_versions_are_refused(version: str, whose: str) -> None:
    with pytest.raises(ForeignDirectoryError, match=f"has version {version}, expected 1: {whose}"):
        parse_meta(PATH, WHOLE.replace("version=1", f"version={version}").encode())


PARTITION_PATH = DIRECTORY / "partition.metadata"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/disk/n*/data/*/partition.metadata")), ids=str)
def test_kafkas_partition_metadata_is_read_and_written(path: Path) -> None:
    topic_id = parse_partition_metadata(path, path.read_bytes())
    assert encode_partition_metadata(topic_id) == path.read_bytes()


def test_a_new_directory_is_owned_durably() -> None:
    fs = ScriptedDisk()
    own_partition(fs, DIRECTORY, TOPIC_ID)
    fs.power_loss(Random(1))
    assert fs.read(PARTITION_PATH) == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg"
    own_partition(fs, DIRECTORY, TOPIC_ID)


def test_another_topics_directory_is_refused() -> None:
    fs = ScriptedDisk()
    own_partition(fs, DIRECTORY, Uuid(bytes(range(16))))
    with pytest.raises(ForeignDirectoryError) as caught:
        own_partition(fs, DIRECTORY, TOPIC_ID)
    assert str(PARTITION_PATH) in str(caught.value)
    assert "topic id AAECAwQFBgcICQoLDA0ODw, expected AAAAAAAAAAAAAAAAAAAAAg; give" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"version: 0", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg", b"version: 0\ntopic_id: AAAA", b"\xff\x00"],
)
def test_what_cannot_be_read_is_refused_with_the_repair(content: bytes) -> None:
    fs = ScriptedDisk()
    fs.write(PARTITION_PATH, content)
    with pytest.raises(CorruptionError, match=r"partition\.metadata: .*remove partition\.metadata"):
        own_partition(fs, DIRECTORY, uuid_parse("AAAAAAAAAAAAAAAAAAAAAg"))
