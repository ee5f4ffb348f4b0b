"""Opening a node's directory: what is created, what is checked, and errors that name the file and the repair.

The proof note is durable before the node's first message, and the election before the note.

Voters that a node knows at its start: from the checkpoint of formatting, then from its log.
"""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pykraft.config import LogSettings, NodeConfig
from pykraft.core.effects import InstallSnapshot, WriteElectionState
from pykraft.core.proof import PROVEN, Proof
from pykraft.errors import ConfigError, CorruptionError, ForeignDirectoryError, ProtocolError, StorageError
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.host import Host
from pykraft.host.open import Opened, control_records_of, open_node, voter_records_at_start
from pykraft.log.lane import AppendBytes
from pykraft.log.log import Log
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.proof_file import FILE_NAME, ProofFile
from pykraft.log.small_files.quorum_state import encode_quorum_state
from pykraft.protocol.batch import IMAGE_BEGIN_BIT, IMAGE_BIT, IMAGE_END_BIT, crc_of, place_batch, read_header
from pykraft.protocol.records import encode_batch, encode_control_batch, encode_group_batch, membership_records
from pykraft.snapshot.writer import write_bootstrap
from pykraft.types import (
    Election,
    Epoch,
    Io,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    Listeners,
    NodeId,
    Offset,
    ReplicaKey,
    Uuid,
    Voter,
    VoterSet,
    uuid_parse,
)
from tests.core.replicas import voter_set
from tests.disks import ScriptedDisk
from tests.host.cluster import Cluster, Machine
from tests.host.fakes import DIRECTORY, FakePorts, at, batch, config, listeners
from tests.snapshot.snapshots import id_of, write

GOLDEN = Path(__file__).parents[1] / "golden" / "raft" / "disk" / "n1"
PARTITION = DIRECTORY / "a-topic-0"
LOG = PARTITION / f"{0:020d}.log"


def opened(fs: ScriptedDisk, node_config: NodeConfig | None = None) -> Opened:
    return open_node(fs, node_config or config(1), Random(1))


def used() -> ScriptedDisk:
    """A disk on which a node has written two batches and a vote, and was closed."""
    fs = ScriptedDisk()
    use(fs, config(1), batch(0), batch(1))
    return fs


def use(fs: ScriptedDisk, node_config: NodeConfig, *batches: HeaderAndBytes) -> None:
    """A node writes a vote and these batches, and is closed."""
    node = opened(fs, node_config)
    election = Election(epoch=Epoch(1), leader_id=NodeId(2))
    write = WriteElectionState(io=Io(1), election=election, voters=node.config.voters.ids, kraft_version=0)
    node.lane.perform([write, AppendBytes(io=Io(2), batches=batches)])
    node.close()


def test_a_static_list_that_is_not_the_one_that_led_the_log_is_an_alarm() -> None:
    fs, node_config = ScriptedDisk(), config(1)
    change = LeaderChange(leader_id=NodeId(2), voters=(NodeId(1), NodeId(2)), granting_voters=(NodeId(2),))
    led = encode_control_batch([change], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1)
    use(fs, node_config, (read_header(led.data), led.data))
    [alarm] = opened(fs, node_config).alarms
    assert "controller.quorum.voters has the voters 1, 2, 3, but the log was last led, by node 2, with" in alarm
    assert "with the voters 1, 2:" in alarm


@pytest.mark.conformance(1)
def test_a_new_directory_gets_its_identity() -> None:
    fs = ScriptedDisk()
    node = opened(fs)
    meta = fs.read(DIRECTORY / "meta.properties").decode()
    assert "node.id=1" in meta
    assert "cluster.id=a-cluster" in meta
    assert node.directory.directory_id == config(1).directory_id
    assert (node.view.start_offset, node.view.end_offset, node.election) == (0, 0, None)
    assert node.notes == ()


@pytest.mark.conformance("H66", "H78")
def test_a_directory_id_that_is_not_configured_is_made_up_once() -> None:
    fs = ScriptedDisk()
    first = opened(fs, replace(config(1), directory_id=None))
    first.close()
    again = open_node(fs, replace(config(1), directory_id=None), Random(2))
    assert again.directory.directory_id == first.directory.directory_id
    another = open_node(ScriptedDisk(), replace(config(2), directory_id=None), Random(2))
    assert another.directory.directory_id != first.directory.directory_id


def test_what_was_written_is_there_again() -> None:
    node = opened(used())
    assert node.view.end_offset == node.log.end_offset == 2
    assert [(entry.epoch, entry.start_offset) for entry in node.view.epochs] == [(1, 0)]
    assert node.election == Election(epoch=Epoch(1), leader_id=NodeId(2))
    raft = node.raft(Random(1), at(0))
    assert (raft.status.epoch, raft.status.leader_id, raft.status.role) == (1, 2, "follower")


def test_a_directory_of_kafka_is_opened(tmp_path: Path) -> None:
    for path in (GOLDEN / "data").rglob("*"):
        copy = tmp_path / path.relative_to(GOLDEN / "data")
        if path.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
        else:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    kafkas = replace(
        config(1),
        log_dir=tmp_path,
        cluster_id="AAAAAAAAAAAAAAAAAAAAAA",
        directory_id=None,
        topic_name="__raft_performance_test",
        topic_id=uuid_parse("AAAAAAAAAAAAAAAAAAAAAg"),
    )
    node = open_node(OsFs(), kafkas, Random(1))
    assert node.election is not None
    assert node.election.epoch >= node.view.last_epoch > 0
    assert node.view.end_offset > 100
    assert any("recovery-point" in note for note in node.notes)
    node.close()


def test_a_voter_that_never_leads_is_not_opened_as_the_only_one() -> None:
    fs, never = ScriptedDisk(), replace(config(1), raft=replace(config(1).raft, never_leads=True))
    node = opened(fs, never)
    own = Voter(key=ReplicaKey(NodeId(1), node.directory.directory_id), listeners=listeners(1))
    voters = KRaftVoters(VoterSet.of([own]))
    data = encode_control_batch([KRaftVersion(1), voters], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1).data
    election = Election(epoch=Epoch(1), leader_id=NodeId(2))
    write = WriteElectionState(io=Io(1), election=election, voters=node.config.voters.ids, kraft_version=0)
    node.lane.perform([write, AppendBytes(io=Io(2), batches=[(read_header(data), data)])])
    node.close()
    with pytest.raises(ConfigError, match=r"pykraft.voter.never.leads.*the only voter"):
        opened(fs, never)
    assert opened(fs).voter_history.voters.ids == (1,)


def test_a_torn_tail_is_cut_and_told() -> None:
    fs = used()
    fs.write(LOG, fs.read(LOG) + bytes(batch(2)[1])[:-5])
    node = opened(fs)
    assert node.view.end_offset == 2
    assert any("torn tail" in note for note in node.notes)


def cleaned(fs: ScriptedDisk, *snapshots: int) -> NodeConfig:
    """Batches at 2, 3 and 4, each in a segment, and snapshots that end there: the node died while it removed more."""
    node_config = config(1)
    node_config = replace(node_config, log=replace(node_config.log, segment_size_bytes=1_024))
    use(fs, node_config, *(batch(offset, bytes(700)) for offset in range(5)))
    for offset in snapshots:
        write(fs, [b"state"], PARTITION, id_of(offset, 1))
    for gone in [name for name in fs.listdir(PARTITION) if name.startswith((f"{0:020d}.", f"{1:020d}."))]:
        fs.remove(PARTITION / gone)
    return node_config


def test_a_log_starts_where_its_oldest_snapshot_ends_though_its_first_segment_begins_before() -> None:
    fs = ScriptedDisk()
    node = opened(fs, cleaned(fs, 3, 4))
    assert (node.log.start_offset, node.view.start_offset, node.view.end_offset) == (2, 3, 5)
    assert node.view.snapshots == (id_of(3, 1), id_of(4, 1))


def test_a_damaged_log_of_which_nothing_is_left_goes_on_at_the_newest_snapshot() -> None:
    """Nobody knows the epoch before the first segment, so no leader could be asked for what follows there."""
    fs = ScriptedDisk()
    node_config = cleaned(fs, 3, 4)
    path = PARTITION / f"{2:020d}.log"
    fs.write(path, fs.read(path)[:-1] + b"?")
    before = {name: fs.read(PARTITION / name) for name in fs.listdir(PARTITION) if name.endswith(".log")}
    node = opened(fs, node_config)
    assert node.log.end_offset == 2
    assert (node.view.start_offset, node.view.end, node.view.snapshots) == (4, id_of(4, 1), (id_of(4, 1),))
    assert node.view.quarantine is not None
    assert not node.view.quarantine.is_cut
    assert any("the log begins anew there" in note for note in node.notes)
    # Without a leader these files may hold the last copy of a record.
    assert {name: fs.read(PARTITION / name) for name in before} == before
    node.lane.perform([InstallSnapshot(io=Io(1), snapshot_id=id_of(4, 1)), AppendBytes(io=Io(2), batches=[batch(4)])])
    assert (node.log.start_offset, node.log.end_offset) == (4, 5)


@pytest.mark.parametrize("has_point", [True, False], ids=["recovery point", "no recovery point"])
@pytest.mark.parametrize("has_epochs", [True, False], ids=["epochs", "no epochs"])
def test_a_restored_quorum_state_that_is_older_than_the_log_costs_no_record(
    *, has_point: bool, has_epochs: bool
) -> None:
    fs = used()
    old = encode_quorum_state(Election(epoch=Epoch(0)), voters=config(1).voters.ids, kraft_version=0)
    fs.write(PARTITION / "quorum-state", old)
    fs.remove(PARTITION / "quorum-state.check")
    if not has_point:
        fs.remove(PARTITION / "recovery-point")
    if not has_epochs:
        fs.remove(PARTITION / "leader-epoch-checkpoint")
    before = fs.read(LOG)
    node = opened(fs)
    assert (node.view.end_offset, node.view.quarantine, node.alarms) == (2, None, ())
    assert fs.read(LOG) == before
    assert any("quorum-state is older than the log" in note for note in node.notes)
    raft = node.raft(Random(1), at(0))
    assert (raft.status.epoch, raft.status.role, raft.status.voted) == (1, "unattached", None)


@pytest.mark.parametrize("is_last", [False, True], ids=["before whole batches", "the last batch"])
def test_a_damaged_batch_in_kafkas_directory_means_quarantine_if_whole_ones_follow(*, is_last: bool) -> None:
    fs = used()
    for name in ("recovery-point", "quorum-state.check"):
        fs.remove(PARTITION / name)
    fs.remove(PARTITION.parent / "replica-proof", missing_ok=True)
    data = bytearray(fs.read(LOG))
    data[-1 if is_last else 70] ^= 1
    fs.write(LOG, bytes(data))
    node = opened(fs)
    if is_last:
        assert (node.view.end_offset, node.view.quarantine) == (1, None)
        assert "RECORDS MAY BE LOST" in node.alarms[0]
    else:
        assert node.view.end_offset == 0
        assert node.view.quarantine is not None
        assert fs.read(LOG) == bytes(data)
        assert "DAMAGED LOG" in node.alarms[0]


@pytest.mark.parametrize(
    "foreign",
    [
        replace(config(1), cluster_id="another"),
        replace(config(1), node_id=NodeId(2)),
        replace(config(1), directory_id=Uuid(bytes([9]) * 16)),
    ],
    ids=["cluster", "node", "directory id"],
)
def test_another_nodes_directory_is_refused(foreign: NodeConfig) -> None:
    fs = used()
    with pytest.raises(ForeignDirectoryError, match=r"meta\.properties.*expected"):
        opened(fs, foreign)
    opened(fs)


def test_another_topics_partition_is_refused() -> None:
    with pytest.raises(ForeignDirectoryError, match=r"partition\.metadata"):
        opened(used(), replace(config(1), topic_id=Uuid(bytes([9]) * 16)))


@pytest.mark.conformance(84)
@pytest.mark.parametrize(
    "path",
    [DIRECTORY / "meta.properties", PARTITION / "quorum-state", PARTITION / "partition.metadata"],
    ids=lambda path: path.name,
)
def test_damage_is_refused_by_name_and_leaves_the_directory_free(path: Path) -> None:
    fs = used()
    sound = fs.read(path)
    damaged = bytearray(sound)
    damaged[len(damaged) // 2 :] = b"?" * (len(damaged) - len(damaged) // 2)
    fs.write(path, bytes(damaged))
    with pytest.raises(CorruptionError, match=path.name.replace(".", r"\.")) as raised:
        opened(fs)
    assert raised.value.repair
    assert fs.read(path) == bytes(damaged)
    fs.write(path, sound)
    opened(fs)


def test_a_directory_is_opened_once() -> None:
    fs = used()
    node = opened(fs)
    with pytest.raises(StorageError, match="lock"):
        opened(fs)
    node.close()
    opened(fs)


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"voters": VoterSet()}, "controller.quorum.voters"),
        ({"advertised_listeners": Listeners()}, "controller.listener.names"),
    ],
)
def test_a_configuration_that_no_quorum_can_work_with_is_refused(wrong: dict[str, object], key: str) -> None:
    fs = ScriptedDisk()
    with pytest.raises(ConfigError) as raised:
        opened(fs, replace(config(1), **wrong))  # type: ignore[arg-type]
    assert raised.value.key == key
    assert not fs.exists(DIRECTORY)


def test_who_has_no_id_needs_no_listener() -> None:
    nowhere = Listeners()
    node = opened(ScriptedDisk(), replace(config(1), node_id=None, listeners=nowhere, advertised_listeners=nowhere))
    assert node.node_id is None


def test_after_a_failed_write_closing_writes_nothing_and_frees_the_directory() -> None:
    fs = used()
    node = opened(fs)
    fs.fail = lambda operation, path: operation == "sync" and path == LOG
    with pytest.raises(StorageError):
        node.lane.perform([AppendBytes(io=Io(1), batches=[batch(2)])])
    before = len(fs.operations)
    node.close()
    assert len(fs.operations) == before
    fs.fail = lambda _operation, _path: False
    assert read_header(bytes(opened(fs).log.read(Offset(0), 1))).base_offset == 0


def note(machine: Machine) -> Proof | None:
    return ProofFile(machine.fs, machine.config.log_dir).read()


def test_a_new_quorum_proves_itself_and_the_first_leader_is_of_a_later_epoch(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until_committed(1)
    assert leader.running.status.epoch == 1
    assert [note(machine) for machine in cluster.up] == [Proof(is_complete=True, votes_above=Epoch(0))] * 3
    assert leader.running.raft is not None
    assert leader.running.raft.votes_above == 0
    assert all(machine.running.metrics(cluster.now)["unproven"] == 0 for machine in cluster.up)


def test_an_emptied_voter_does_not_elect_anybody_and_loses_nothing(cluster: Cluster) -> None:
    """The story of ADR 022: without the rule node 2 leads epoch 1 again, and the record is lost."""
    leader = cluster.leader()
    second, third = cluster.others(leader)
    third.crash()
    outcomes = leader.propose(b"committed")
    cluster.run_until(lambda: bool(outcomes))
    leader.crash()
    second.crash()
    second.wipe()
    second.start()
    third.start()
    cluster.run(30_000)
    assert "leader" not in {second.running.status.role, third.running.status.role}
    assert second.running.metrics(cluster.now)["unproven"] == 1
    assert any("until it has heard from node" in text for text in second.reports)
    leader.start()
    cluster.run_until(lambda: b"committed" in second.listener.values and note(second) is not None)
    cluster.run_until(lambda: second.running.metrics(cluster.now)["unproven"] == 0)
    assert third.listener.values == second.listener.values == [b"committed"]
    assert note(second) != PROVEN


def test_a_partition_that_is_gone_is_noticed_and_a_formatted_one_is_not_missed(cluster: Cluster) -> None:
    machine = cluster.others(cluster.leader())[0]
    machine.crash()
    for name in machine.fs.listdir(machine.config.partition_directory):
        machine.fs.remove(machine.config.partition_directory / name)
    machine.start()
    assert machine.running.metrics(cluster.now)["unproven"] == 1
    machine.crash()
    machine.wipe()
    machine.format()
    machine.start()
    assert note(machine) == PROVEN
    assert "quorum-state" in machine.fs.listdir(machine.config.partition_directory)
    assert machine.running.metrics(cluster.now)["unproven"] == 0


def test_an_election_that_is_lost_beside_a_log_is_not_made_up(cluster: Cluster) -> None:
    cluster.leader()
    cluster.run_until_committed(1)
    machine = cluster.others(cluster.leader())[0]
    machine.crash()
    machine.fs.remove(machine.config.log_dir / FILE_NAME)
    for name in ("quorum-state", "quorum-state.check"):
        machine.fs.remove(machine.config.partition_directory / name)
    Host.open(machine.fs, FakePorts(), machine.config, rng=Random(1))
    assert note(machine) is None


@pytest.mark.parametrize("node_id", [NodeId(1), None])
def test_what_nobody_with_an_id_owns_has_no_note(node_id: NodeId | None) -> None:
    fs = ScriptedDisk()
    settings = replace(config(1), node_id=node_id, directory_id=None)
    Host.open(fs, FakePorts(), settings, rng=Random(1))
    assert ProofFile(fs, settings.log_dir).exists() is (node_id is not None)


TOPIC = Uuid(bytes(15) + b"\1")


@pytest.mark.conformance(139)
def test_the_checkpoint_comes_before_the_log(tmp_path: Path) -> None:
    fs, partition = OsFs(), tmp_path / "t-0"
    write_bootstrap(fs, partition, voter_set(1))
    log, _ = Log.open(fs, partition, config=LogSettings(), topic_id=TOPIC)
    batch = encode_control_batch([KRaftVoters(voter_set(1, 2))], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1)
    log.append([batch])
    found = voter_records_at_start(fs, log, [Offset(0)], end_offset=log.end_offset).membership
    log.close()
    assert found == [(-1, KRaftVersion(1)), (-1, KRaftVoters(voter_set(1))), (0, KRaftVoters(voter_set(1, 2)))]


def test_the_last_leader_change_tells_which_voters_led(tmp_path: Path) -> None:
    fs, partition = OsFs(), tmp_path / "t-0"
    log, _ = Log.open(fs, partition, config=LogSettings(), topic_id=TOPIC)
    assert voter_records_at_start(fs, log, [], end_offset=log.end_offset).led_by_others(voter_set(1)) is None
    first, last = (
        LeaderChange(leader_id=NodeId(1), voters=tuple(map(NodeId, ids)), granting_voters=(NodeId(1),))
        for ids in ((1,), (1, 2))
    )
    for offset, change in enumerate((first, last)):
        log.append(
            [encode_control_batch([change], base_offset=Offset(offset), epoch=Epoch(1 + offset), timestamp_ms=1)]
        )
    records = voter_records_at_start(fs, log, [Offset(0), Offset(1)], end_offset=log.end_offset)
    assert records.led_by_others(voter_set(1)) == last
    assert records.led_by_others(voter_set(2, 1)) is None
    assert records.led_by_others(VoterSet()) is None  # bootstrap servers instead of a list
    # A voter set of the log is in force instead of the list, and may differ from what led before it.
    records.membership.append((Offset(1), KRaftVoters(voter_set(1))))
    assert records.led_by_others(voter_set(1)) is None
    log.close()


def test_what_a_snapshot_took_the_place_of_is_not_looked_for(tmp_path: Path) -> None:
    """A node that ended between a fetched snapshot and its install found that out at its start, and did not start."""
    fs, partition = OsFs(), tmp_path / "t-0"
    log, recovery = Log.open(fs, partition, config=LogSettings(), topic_id=TOPIC)
    batch = encode_control_batch([KRaftVoters(voter_set(1, 2))], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1)
    log.append([batch])
    log.close()
    log, recovery = Log.open(fs, partition, config=LogSettings(), topic_id=TOPIC)
    assert recovery.control_offsets == (0,)
    log.begin_anew_at(Offset(7))
    assert voter_records_at_start(fs, log, recovery.control_offsets, end_offset=log.end_offset).membership == []
    log.close()


def test_a_node_that_joins_believes_the_log_and_not_its_own_checkpoint(tmp_path: Path) -> None:
    """One that joined a quorum of level 0 took snapshots that said level 1."""
    fs, partition = OsFs(), tmp_path / "t-0"
    write_bootstrap(fs, partition, None)
    log, _ = Log.open(fs, partition, config=LogSettings(), topic_id=TOPIC)
    assert voter_records_at_start(fs, log, [], end_offset=log.end_offset).membership == []
    log.close()


OPENING = (
    LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=(NodeId(1),)),
    KRaftVersion(1),
    KRaftVoters(voter_set(1)),
)


@pytest.mark.conformance(139)
def test_records_of_voters_are_found_after_a_restart(tmp_path: Path) -> None:
    batches = [
        encode_control_batch(OPENING, base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1),
        encode_batch([b"x", b"y"], base_offset=Offset(3), epoch=Epoch(1), timestamp_ms=1),
        encode_control_batch([KRaftVoters(voter_set(1, 2))], base_offset=Offset(5), epoch=Epoch(1), timestamp_ms=1),
    ]
    log, recovery = Log.open(OsFs(), tmp_path / "t-0", config=LogSettings(), topic_id=TOPIC)
    assert recovery.control_offsets == ()
    log.append(batches)
    log.close()
    log, recovery = Log.open(OsFs(), tmp_path / "t-0", config=LogSettings(), topic_id=TOPIC)
    assert recovery.control_offsets == (0, 5)
    assert list(control_records_of(log, recovery.control_offsets)) == [
        (0, OPENING[0]),
        (1, KRaftVersion(1)),
        (2, KRaftVoters(voter_set(1))),
        (5, KRaftVoters(voter_set(1, 2))),
    ]
    log.close()


def test_a_control_batch_that_lies_about_its_offsets_is_refused() -> None:
    batch = bytearray(encode_control_batch(OPENING, base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1).data)
    batch[23:27] = (7).to_bytes(4, "big")
    batch[17:21] = crc_of(batch, 0, read_header(batch)).to_bytes(4, "big")
    with pytest.raises(ProtocolError, match="8 offsets holds 3 records"):
        list(membership_records(batch))


@pytest.mark.parametrize(("committed", "begin"), [(0, 1), (2, 1), (3, 2), (4, 2)])
def test_the_state_of_groups_begins_at_the_newest_image_that_is_committed(committed: int, begin: int) -> None:
    fs, whole = ScriptedDisk(), IMAGE_BIT | IMAGE_BEGIN_BIT | IMAGE_END_BIT
    placed = [
        place_batch(
            *encode_group_batch([b""], timestamp_ms=1, image_bits=bits), base_offset=Offset(offset), epoch=Epoch(1)
        )
        for offset, bits in ((1, 0), (2, whole), (3, 0))
    ]
    node = opened(fs)
    node.lane.perform([AppendBytes(io=Io(1), batches=[batch(0), *placed])])
    node.log.commit_to(Offset(committed))
    node.close()
    assert opened(fs).groups_from == begin
    assert opened(used()).groups_from is None
