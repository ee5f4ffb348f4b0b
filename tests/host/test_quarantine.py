"""Hosts with damaged logs: found at start, by a read or by the scrub, fetched again, and reported once.

Source: ours (ADR 012).
"""

from dataclasses import replace
from functools import partial

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.errors import CorruptionError
from pykraft.host.snapshots.creation import Loader, NewSnapshot
from pykraft.log.small_files.quarantine_file import FILE_NAME
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.head import SnapshotReader
from pykraft.types import NodeId, OffsetAndEpoch
from tests.host.cluster import Cluster, Machine
from tests.host.fakes import FakeListener, config
from tests.host.test_host import same_logs
from tests.snapshot.snapshots import write

pytestmark = pytest.mark.no_cover  # it would take twice as long, and other tests reach the same

VALUES = [b"value %d" % at for at in range(30)]


def filled(*, scrub_bytes_per_s: int = 0, voters: int = 3) -> Cluster:
    """A quorum with some segments of committed records, one batch each."""
    cluster = Cluster(voters=voters)
    for machine in cluster.machines.values():
        machine.config = replace(
            machine.config,
            log=replace(
                machine.config.log,
                scrub_bytes_per_s_max=scrub_bytes_per_s,
                scrub_interval_ms=2_000,
                segment_size_bytes=1_024,
            ),
        )
        machine.crash()
        machine.start()
    leader = cluster.leader()
    for value in VALUES:
        leader.propose(value)
    cluster.run_until_committed(len(VALUES))
    cluster.run(1_000)
    return cluster


def restart(cluster: Cluster) -> Machine:
    """All programs end and start again: nothing of the logs is in memory any more."""
    for machine in cluster.machines.values():
        machine.crash()
    for machine in cluster.machines.values():
        machine.start()
    return cluster.leader()


def damage(machine: Machine, *, at: float = 0.3) -> None:
    """One bit of a record turns, this far into the first segment."""
    directory = machine.config.partition_directory
    path = directory / f"{0:020d}.log"
    content = bytearray(machine.fs.read(path))
    content[int(len(content) * at)] ^= 4
    machine.fs.write(path, bytes(content))


def is_noted(machine: Machine) -> bool:
    return machine.fs.exists(machine.config.partition_directory / FILE_NAME)


def check_healed(cluster: Cluster, *hurt: Machine) -> None:
    """Nobody is in quarantine any more, all files are the same, and listeners were given everything once."""
    cluster.run_until(lambda: all(machine.running.status.quarantine is None for machine in cluster.up))
    cluster.leader().propose(b"after")
    cluster.run_until(lambda: all(machine.listener.values[-1:] == [b"after"] for machine in cluster.up))
    cluster.settle()
    assert same_logs(cluster)
    for machine in cluster.up:
        assert machine.listener.values == [*VALUES, b"after"]
    for machine in hurt:
        assert not is_noted(machine)
        assert any("out of quarantine" in text for text in machine.reports)
        damaged = next(text for text in machine.alarms if "DAMAGED LOG" in text)
        assert "00000000000000000000.log at position" in damaged
        assert "expected CRC" in damaged
        assert ", found CRC" in damaged


@pytest.fixture
def cluster() -> Cluster:
    return filled()


def test_damage_found_at_start_is_fetched_again(cluster: Cluster) -> None:
    hurt = cluster.others(cluster.leader())[0]
    hurt.crash()
    damage(hurt)
    size_bytes = len(hurt.log_bytes())
    hurt.start()
    assert hurt.running.status.quarantine is not None
    assert hurt.running.status.log_end_offset < len(VALUES)
    assert is_noted(hurt)
    assert len(hurt.log_bytes()) == size_bytes
    check_healed(cluster, hurt)


def test_a_scrub_finds_damage_in_a_follower_that_runs() -> None:
    cluster = filled(scrub_bytes_per_s=8_000)
    hurt = cluster.others(cluster.leader())[0]
    damage(hurt)
    cluster.run_until(lambda: is_noted(hurt), limit_ms=10_000)
    assert hurt.running.metrics(cluster.now)["quarantined"] == 1
    assert hurt.running.metrics(cluster.now)["damaged-places"] == 1
    check_healed(cluster, hurt)
    assert int(hurt.running.metrics(cluster.now)["scrubbed-bytes-total"]) > 1_000
    assert hurt.running.metrics(cluster.now)["quarantined"] == 0
    assert hurt.running.metrics(cluster.now)["damaged-places"] == 0


def test_a_leader_whose_scrub_finds_damage_makes_room_for_another() -> None:
    cluster = filled(scrub_bytes_per_s=8_000)
    hurt = cluster.leader()
    damage(hurt)
    cluster.run_until(lambda: hurt.running.status.role == "resigned", limit_ms=10_000)
    check_healed(cluster, hurt)
    assert cluster.leader() is not hurt


def test_a_leader_that_reads_damage_for_a_follower_does_not_send_it(cluster: Cluster) -> None:
    hurt = restart(cluster)
    damage(hurt)
    observer = cluster.add(4, config(4))
    cluster.run_until(lambda: hurt.running.status.role != "leader", limit_ms=10_000)
    check_healed(cluster, hurt)
    assert observer.listener.values == [*VALUES, b"after"]


def lose_sector(machine: Machine, *, at: float = 0.3) -> None:
    """The disk cannot read a byte of the first segment any more."""
    name = f"{0:020d}.log"
    position = int(len(machine.fs.read(machine.config.partition_directory / name)) * at)
    machine.fs.lost[name] = range(position, position + 1)


def test_a_leader_whose_disk_cannot_read_a_record_for_a_follower_is_mended_and_does_not_end(cluster: Cluster) -> None:
    hurt = restart(cluster)
    lose_sector(hurt)
    observer = cluster.add(4, config(4))
    cluster.run_until(lambda: is_noted(hurt), limit_ms=10_000)
    cluster.run_until(lambda: hurt.running.status.quarantine is not None and hurt.running.status.quarantine.is_cut)
    hurt.fs.lost.clear()
    cluster.run_until(lambda: hurt.running.status.quarantine is None)
    cluster.run_until(lambda: observer.listener.values == VALUES)
    assert any("Input/output error" in text for text in hurt.alarms)


def test_a_scrub_that_meets_a_lost_sector_does_not_end_the_node() -> None:
    cluster = filled(scrub_bytes_per_s=8_000)
    hurt = cluster.others(cluster.leader())[0]
    lose_sector(hurt)
    cluster.run_until(lambda: is_noted(hurt), limit_ms=10_000)
    assert any("Input/output error" in text for text in hurt.alarms)


def test_a_listener_that_reads_damage_waits_until_it_is_mended(cluster: Cluster) -> None:
    leader = restart(cluster)
    cluster.run(1_000)
    hurt = cluster.others(leader)[0]
    damage(hurt)
    late = FakeListener()
    hurt.running.register(late)
    cluster.run_until(lambda: is_noted(hurt), limit_ms=10_000)
    check_healed(cluster, hurt)
    assert late.values == [*VALUES, b"after"]


def test_while_nobody_leads_the_files_stay_as_they_are(cluster: Cluster) -> None:
    for machine in cluster.machines.values():
        machine.crash()
    sizes_bytes = {}
    for machine, at in zip(cluster.machines.values(), (0.1, 0.6, None), strict=True):
        if at is not None:
            damage(machine, at=at)
        sizes_bytes[machine.node_id] = len(machine.log_bytes())
        machine.start()
    cluster.run(20_000)
    assert [machine.running.status.leader_id for machine in cluster.up] == [None] * 3
    assert [machine.running.status.quarantine is None for machine in cluster.up] == [False, False, True]
    assert {machine.node_id: len(machine.log_bytes()) for machine in cluster.up} == sizes_bytes
    cluster[1].crash()
    cluster[1].fs.write(
        cluster[1].config.partition_directory / f"{0:020d}.log",
        cluster[3].fs.read(cluster[3].config.partition_directory / f"{0:020d}.log"),
    )
    cluster[1].fs.remove(cluster[1].config.partition_directory / FILE_NAME)
    cluster[1].start()
    check_healed(cluster, cluster[2])


def test_the_only_voter_has_nobody_to_ask_and_never_leads_again_by_itself() -> None:
    cluster = filled(voters=1)
    only = cluster[1]
    only.crash()
    damage(only)
    only.start()
    cluster.run(10_000)
    assert (only.running.status.role, only.running.status.leader_id) == ("unattached", None)
    assert only.running.status.quarantine is not None
    assert not only.stops


@pytest.mark.parametrize("node_id", [NodeId(4), None])
def test_an_observer_mends_its_log_too(cluster: Cluster, node_id: NodeId | None) -> None:
    observer = cluster.add(4, replace(config(4), node_id=node_id))
    cluster.run_until_committed(len(VALUES))
    cluster.run(1_000)
    observer.crash()
    damage(observer)
    observer.start()
    assert observer.running.status.quarantine is not None
    cluster.run_until(lambda: observer.running.status.quarantine is None)
    cluster.run(1_000)
    assert same_logs(cluster)


def test_a_node_that_is_killed_in_quarantine_stays_in_it(cluster: Cluster) -> None:
    hurt = cluster.others(cluster.leader())[0]
    hurt.crash()
    damage(hurt)
    cluster.cut(hurt)
    for _ in range(3):
        hurt.start()
        cluster.run(3_000)
        assert hurt.running.status.quarantine is not None
        assert len(hurt.running.status.quarantine.damages) == 1
        hurt.crash()
    hurt.start()
    cluster.heal()
    check_healed(cluster, hurt)


def test_a_snapshot_that_holds_more_than_a_damaged_log_stays_and_takes_no_place(cluster: Cluster) -> None:
    """It holds committed records only; what the replica acknowledged behind it is still to be fetched."""
    hurt = cluster.others(cluster.leader())[0]
    end_offset = hurt.running.status.log_end_offset
    answers: list[object] = []
    snapshot_id = OffsetAndEpoch(end_offset, hurt.running.status.epoch)
    hurt.running.create_snapshot(snapshot_id, bytes_serde, answers.append)
    cluster.settle()
    taken = answers.pop()
    assert isinstance(taken, NewSnapshot)
    taken.append([b"state"], answers.append)
    taken.freeze(answers.append)
    cluster.settle()
    hurt.crash()
    damage(hurt)
    hurt.start()
    assert hurt.running.status.quarantine is not None
    assert 0 < hurt.running.status.log_end_offset < end_offset
    assert hurt.running.raft is not None
    assert hurt.running.raft.log.snapshots == (snapshot_id,)
    taken_in: list[bytes] = []
    hurt.running.register(FakeListener(), loader=Loader(bytes_serde, partial(read_into, taken_in)))
    check_healed(cluster, hurt)
    assert (hurt.running.status.log_start_offset, taken_in) == (0, [b"state"])


def read_into(taken_in: list[bytes], reader: SnapshotReader[bytes]) -> None:
    taken_in += [value for batch in reader for value in batch.records]
    reader.close()


def test_a_damaged_snapshot_and_a_damaged_log_are_two_things(cluster: Cluster) -> None:
    """The log ends before the snapshot now, and does not hold the same any more: the node does not start."""
    hurt = cluster.others(cluster.leader())[0]
    directory = hurt.config.partition_directory
    snapshot_id = OffsetAndEpoch(hurt.running.status.log_end_offset, hurt.running.status.epoch)
    hurt.crash()
    write(hurt.fs, [b"state"], directory=directory, snapshot_id=snapshot_id)
    path = checkpoint_path(directory, snapshot_id)
    content = bytearray(hurt.fs.read(path))
    content[-1] ^= 1
    hurt.fs.write(path, bytes(content))
    hurt.start()
    assert [text for text in hurt.alarms if "DAMAGED SNAPSHOT" in text]
    hurt.crash()
    hurt.fs.rename(path.with_name(path.name + ".damaged"), path)
    damage(hurt)
    with pytest.raises(CorruptionError, match="before the snapshot does"):
        hurt.start()


def test_a_note_that_cannot_be_read_is_a_note_all_the_same(cluster: Cluster) -> None:
    hurt = cluster.others(cluster.leader())[0]
    hurt.crash()
    hurt.fs.write(hurt.config.partition_directory / FILE_NAME, b"?")
    hurt.start()
    assert hurt.running.status.quarantine is not None
    assert any("expected a slot with a quarantine" in text for text in hurt.reports)
    assert any("the position is no longer known" in text for text in hurt.alarms)
    cluster.run_until(lambda: hurt.running.status.quarantine is None)
    cluster.settle()
    assert not is_noted(hurt)
