"""What a client of Kafka's tests starts with: its configuration, and what a test put into its log and files before.

The shim sends all of it when a client is initialized; it becomes the files of a virtual disk, as if a replica had run
there before. Invariant: the disk is formatted, so that an empty one proves itself (ADR 022).
"""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from pykraft.config import METADATA_TOPIC_NAME, LogSettings, NodeConfig, RaftConfig
from pykraft.log.directory import format_directories
from pykraft.log.log import Log
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.protocol import api
from pykraft.protocol.batch import BatchHeader, read_header
from pykraft.protocol.schema import Versions
from pykraft.snapshot.files import checkpoint_path
from pykraft.types import (
    ZERO_UUID,
    Election,
    Endpoint,
    Epoch,
    Listeners,
    NodeId,
    Offset,
    OffsetAndEpoch,
    ReplicaKey,
    Uuid,
    Voter,
    VoterSet,
)
from tests.disks import ScriptedDisk
from tests.kafka.raft_suite.wire import NONE, Reader

HOME: Final = Path("/data")
UNDIALED: Final = Endpoint("localhost", 1)
"""The listener of a node that has none in the test: ours needs one, and nobody dials it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a client of the test is made of."""

    config: NodeConfig
    versions: dict[int, Versions]
    election: tuple[Election, tuple[NodeId, ...], int] | None
    snapshots: list[tuple[OffsetAndEpoch, bytes]]
    start_offset: Offset
    records: bytes
    is_strict: bool
    """Without `tests.kafka.raft_suite.liberties`."""
    is_simulation: bool
    """The test changes nothing behind the client, so a poll before its time may be left out."""


def read_setup(reader: Reader, *, is_strict: bool, is_simulation: bool) -> Setup:
    """The call that opens a client; the shim writes the same fields in the same order."""
    node_id, directory_id, cluster_id = reader.int32(), reader.uuid(), reader.text()
    topic_name, topic_id, listener = reader.text(), reader.uuid(), reader.text().upper()
    listeners = reader.listeners()
    if node_id != NONE and listeners.get(listener) is None:
        listeners = Listeners(((listener, UNDIALED),))
    static = reader.many(lambda: (NodeId(reader.int32()), reader.endpoint()))
    bootstrap = reader.many(reader.endpoint)
    raft = RaftConfig(
        election_timeout_ms=reader.int32(),
        fetch_timeout_ms=reader.int32(),
        election_backoff_max_ms=reader.int32(),
        append_linger_ms=reader.int32(),
        request_timeout_ms=reader.int32(),
        retry_backoff_ms=reader.int32(),
        fetch_size_bytes_max=reader.int32(),
        fetch_snapshot_size_bytes_max=reader.int32(),
        fetch_wait_ms_max=reader.int32(),
        auto_join=reader.flag() & reader.flag(),
    )
    config = NodeConfig(
        node_id=None if node_id == NONE else NodeId(node_id),
        cluster_id=cluster_id,
        directory_id=directory_id,
        listeners=listeners,
        advertised_listeners=listeners,
        controller_listener_names=(listener,),
        voters=VoterSet.of(
            Voter(key=ReplicaKey(voter_id), listeners=Listeners(((listener, endpoint),)))
            for voter_id, endpoint in static
        ),
        bootstrap_servers=tuple(bootstrap),
        log_dir=HOME,
        # With Kafka's own name a node of ours only observes. No wire format tells it to another program here.
        topic_name=f"a-{topic_name.strip('_')}" if topic_name == METADATA_TOPIC_NAME else topic_name,
        topic_id=topic_id,
        log=LogSettings(segment_size_bytes=1_048_576, index_size_bytes_max=1_200, scrub_bytes_per_s_max=0),
        raft=raft,
    )
    versions = dict(reader.many(lambda: (reader.int32(), Versions(reader.int32(), reader.int32()))))
    return Setup(
        config=config,
        versions={key: kept for key, kept in versions.items() if key in api.API_VERSIONS},
        election=_read_election(reader) if reader.flag() else None,
        snapshots=reader.many(lambda: (_read_id(reader), reader.blob())),
        start_offset=Offset(reader.int64()),
        records=reader.blob(),
        is_strict=is_strict,
        is_simulation=is_simulation,
    )


def _read_election(reader: Reader) -> tuple[Election, tuple[NodeId, ...], int]:
    epoch, leader_id, voted_id, voted_directory_id = reader.int32(), reader.int32(), reader.int32(), reader.uuid()
    voted = None if voted_id == NONE else ReplicaKey(NodeId(voted_id), _known(voted_directory_id))
    election = Election(epoch=Epoch(epoch), leader_id=None if leader_id == NONE else NodeId(leader_id), voted=voted)
    return election, tuple(NodeId(voter) for voter in reader.many(reader.int32)), reader.int32()


def _known(directory_id: Uuid) -> Uuid | None:
    return None if directory_id == ZERO_UUID else directory_id


def _read_id(reader: Reader) -> OffsetAndEpoch:
    return OffsetAndEpoch(Offset(reader.int64()), Epoch(reader.int32()))


def batches_in(records: bytes) -> list[tuple[BatchHeader, bytes]]:
    """The batches of these bytes."""
    found: list[tuple[BatchHeader, bytes]] = []
    position = 0
    while position < len(records):
        header = read_header(records, position)
        found.append((header, records[position : position + header.size_bytes]))
        position += header.size_bytes
    return found


def write_disk(setup: Setup, rng: Random) -> ScriptedDisk:
    """A formatted disk with the files of a replica that had all this before."""
    config, disk = setup.config, ScriptedDisk()
    partition = config.partition_directory
    disk.prepare(config.log_dir)
    assert config.directory_id is not None
    if config.node_id is not None:
        format_directories(
            disk,
            [config.log_dir],
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            directory_ids={config.log_dir: config.directory_id},
            ignore_formatted=False,
            random_uuid=lambda: Uuid(rng.randbytes(16)),
        )
    disk.prepare(partition)
    for snapshot_id, content in setup.snapshots:
        disk.write(checkpoint_path(partition, snapshot_id), content)
    log, _ = Log.open(disk, partition, config=config.log, topic_id=config.topic_id)
    with closing(log):
        if setup.start_offset:
            log.begin_anew_at(setup.start_offset)
        if batches := batches_in(setup.records):
            log.append(batches)
            log.flush()
    if setup.election is not None:
        election, voters, level = setup.election
        with closing(ElectionStore(disk, partition)) as store:
            store.write(election, voters=voters, kraft_version=level)
    return disk
