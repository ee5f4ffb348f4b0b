"""``meta.properties``, the owner of a log directory, and ``partition.metadata``, the topic of a partition directory.

``meta.properties`` is Java properties text, in any order; ``#`` begins a comment:

| key | value |
|---|---|
| version | 1 |
| node.id | int32 >= 0 |
| cluster.id | text |
| directory.id | UUID, 22 characters; absent in files of Kafka before 3.7 |

``partition.metadata`` has the lines ``version: 0`` and ``topic_id: <UUID, 22 characters>``, without a newline at the
end. Invariant: after `own_partition` the partition directory exists and durably names this topic.

Source: KIP-858, KIP-516; Kafka's ``MetaProperties``, ``PartitionMetadataFile`` and ``java.util.Properties``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pykraft.errors import CorruptionError, ForeignDirectoryError, UsageError
from pykraft.log.fs import Fs, make_directory, write_atomically
from pykraft.types import NodeId, Uuid, uuid_parse, uuid_text

PARTITION_METADATA = "partition.metadata"
PARTITION_REPAIR = (
    f"if the directory is this partition's, remove {PARTITION_METADATA}; it is written anew at the next start"
)


def own_partition(fs: Fs, directory: Path, topic_id: Uuid) -> None:
    """Create the directory and its ``partition.metadata``, or check them.

    Errors: ForeignDirectoryError when it is another topic's; CorruptionError when the file cannot be read.
    """
    make_directory(fs, directory)
    path = directory / PARTITION_METADATA
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
        path,
        position=0,
        expected="'version: 0' and 'topic_id: <UUID>'",
        found=repr(content[:80]),
        repair=PARTITION_REPAIR,
    )


FILE_NAME = "meta.properties"
VERSION = "1"
_DIGITS_MAX = 10
REPAIR = "restore the file from a copy, or format the directory again: a replica without its id must not vote"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The properties in the file."""

    node_id: NodeId
    cluster_id: str
    directory_id: Uuid | None


def encode_meta(meta: MetaProperties) -> bytes:
    """The file's bytes. Java's date line is left out, so that equal content gives equal bytes."""
    lines = ["#", f"node.id={meta.node_id}"]
    if meta.directory_id is not None:
        lines.append(f"directory.id={uuid_text(meta.directory_id)}")
    lines += [f"version={VERSION}", f"cluster.id={meta.cluster_id}", ""]
    return "\n".join(lines).encode()


def parse_meta(path: Path, content: bytes) -> MetaProperties:
    """The properties in these bytes; unknown keys are skipped.

    Errors: ForeignDirectoryError for a version other than 1; CorruptionError for a key that is missing or unreadable.
    """
    fields = dict(_properties(path, content))
    version = _required(path, fields, "version")
    if version != VERSION:
        whose = "a ZooKeeper broker's directory" if version == "0" else "a directory of a later Kafka"
        raise ForeignDirectoryError(
            path,
            f"has version {version}, expected {VERSION}: {whose}",
            repair="give this node a directory of its own in log.dirs",
        )
    node_id = _required(path, fields, "node.id")
    if not (node_id.isascii() and node_id.isdigit() and len(node_id) <= _DIGITS_MAX and int(node_id) < 2**31):
        raise _corruption(path, "node.id to be a number from 0 to 2147483647", repr(node_id))
    directory_id: Uuid | None = None
    if "directory.id" in fields:
        try:
            directory_id = uuid_parse(fields["directory.id"])
        except UsageError as error:
            raise _corruption(path, "directory.id to be a UUID", repr(fields["directory.id"])) from error
    return MetaProperties(
        node_id=NodeId(int(node_id)), cluster_id=_required(path, fields, "cluster.id"), directory_id=directory_id
    )


def _properties(path: Path, content: bytes) -> Iterator[tuple[str, str]]:
    """Key and value of each line, with the escapes of ``java.util.Properties`` (except Unicode ones) undone."""
    position = 0
    for line in content.decode("utf-8", "replace").split("\n"):
        text = line.strip()
        if text and text[0] not in "#!":
            key, separator, value = text.partition("=")
            if not separator:
                raise _corruption(path, "key=value", repr(text[:80]), position)
            yield key.strip(), value.strip().replace("\\", "")
        position += len(line.encode()) + 1


def _required(path: Path, fields: dict[str, str], key: str) -> str:
    value = fields.get(key)
    if not value:
        raise _corruption(path, f"the key {key}", "keys " + (", ".join(sorted(fields)) or "none"))
    return value


def _corruption(path: Path, expected: str, found: str, position: int = 0) -> CorruptionError:
    return CorruptionError(path, position=position, expected=expected, found=found, repair=REPAIR)
