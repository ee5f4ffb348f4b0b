"""A log directory on a real disk, for planted damage and its reports."""

import struct
from pathlib import Path

from pykraft.config import LogSettings
from pykraft.log.offline.verify import VerifyReport, verify
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.meta import MetaProperties, encode_meta
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.types import Election, Epoch, NodeId, Uuid
from tests.log.logs import batch, fill, open_log

GOLDEN = Path(__file__).parents[1] / "golden"
CONFIG = LogSettings(segment_size_bytes=4_000, index_interval_bytes=300, index_size_bytes_max=480)
NAME = "__raft_performance_test-0"
FIRST = "00000000000000000000"
META = MetaProperties(node_id=NodeId(1), cluster_id="AAAAAAAAAAAAAAAAAAAAAA", directory_id=Uuid(bytes(15) + b"\xff"))


def make_node(log_directory: Path) -> Path:
    """A log directory whose log has three segments and two epochs, closed in order; its partition directory."""
    directory = log_directory / NAME
    log, _ = open_log(OsFs(), CONFIG, directory)
    fill(log, [batch(at, epoch=1 + at // 30, size_bytes=100, time=at) for at in range(60)])
    log.close()
    store = ElectionStore(OsFs(), directory)
    for epoch in (1, 2):
        store.write(Election(epoch=Epoch(epoch), leader_id=NodeId(1)), voters=(NodeId(1),), kraft_version=0)
    store.close()
    (log_directory / "meta.properties").write_bytes(encode_meta(META))
    return directory


def verified(directory: Path) -> VerifyReport:
    """What verify says."""
    return verify(OsFs(), directory, on_progress=lambda count: None)


def damage(directory: Path) -> list[tuple[str, str]]:
    """File, and position, expected and found, of all that is damaged."""
    return [
        (one.path.name, f"{one.position}: {one.expected} / {one.found}") for one in verified(directory).findings.damage
    ]


def segments(node: Path) -> list[Path]:
    """The log files, oldest first."""
    return sorted(node.glob("*.log"))


def flip(path: Path, position: int, bit: int = 1) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= bit
    path.write_bytes(data)


def batch_size(path: Path) -> int:
    """Bytes of the first batch in a file."""
    return 12 + int(struct.unpack(">i", path.read_bytes()[8:12])[0])
