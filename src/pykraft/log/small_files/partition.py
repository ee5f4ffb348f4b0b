r"""The partition directory and the topic it belongs to: ``partition.metadata``.

Content, without a newline at the end: ``version: 0\ntopic_id: <UUID, 22 characters>``.

Source: KIP-516; Kafka's ``PartitionMetadataFile``.
"""

from __future__ import annotations

from pathlib import Path

from pykraft.errors import CorruptionError, ForeignDirectoryError, UsageError
from pykraft.log.fs import Fs, make_directory, write_atomically
from pykraft.types import Uuid, uuid_parse, uuid_text

FILE_NAME = "partition.metadata"
REPAIR = f"if the directory is this partition's, remove {FILE_NAME}; it is written anew at the next start"


def own_partition(fs: Fs, directory: Path, topic_id: Uuid) -> None:
    """Create the directory and its ``partition.metadata``, or check them.

    Errors: ForeignDirectoryError when it is another topic's; CorruptionError when the file cannot be read.
    """
    make_directory(fs, directory)
    path = directory / FILE_NAME
    if not fs.exists(path):
        write_atomically(fs, path, encode_partition_metadata(topic_id))
        return
    found = parse_partition_metadata(path, fs.read(path))
    if found != topic_id:
        raise ForeignDirectoryError(
            path,
            f"belongs to topic id {uuid_text(found)}, expected {uuid_text(topic_id)}",
            repair="give this node a log directory of its own, or move this partition away",
        )


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    """The file's bytes for this topic id."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def parse_partition_metadata(path: Path, content: bytes) -> Uuid:
    """The topic id in these bytes. Errors: CorruptionError with the repair."""
    fields = dict(line.split(": ", 1) for line in content.decode("utf-8", "replace").splitlines() if ": " in line)
    try:
        if fields.get("version") == "0":
            return uuid_parse(fields.get("topic_id", ""))
    except UsageError:
        pass
    raise CorruptionError(
        path, position=0, expected="'version: 0' and 'topic_id: <UUID>'", found=repr(content[:80]), repair=REPAIR
    )
