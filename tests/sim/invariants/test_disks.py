"""What the oracles of disks report, and what they accept."""

import struct
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.effects import EnterQuarantine, LeaveQuarantine
from pykraft.core.proof import Proof
from pykraft.core.quarantine import Quarantine
from pykraft.log.small_files.proof_file import ProofFile
from pykraft.log.small_files.recovery_point import FILE_NAME, Point, RecoveryPoint
from pykraft.sim.invariants import ViolationError, disks
from pykraft.sim.invariants.disks import (
    AcknowledgedSurvivesRestart,
    DamagedReturnsWhole,
    DamagedTakesNoPart,
    DamageIsReal,
    DamageStaysKnown,
    EmptiedReturnsWhole,
    IndexesAreOfTheirLogs,
    OfflineReadersSeeTheNewest,
    PersistedIsDurable,
    ProofsAreReadBack,
    ServedIsSound,
)
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.sim.machine.ledger import Ledger
from pykraft.sim.machine.spoken import LogEnd, Spoken, VoteAsked
from pykraft.types import Damage, Epoch, Io, Offset, OffsetAndEpoch
from tests.sim.invariants.fakes import BEFORE, appends, encoded, entries_of, entry, node, view, vote_asked, world


# durable: Records that are reported durable and are not, or that come back after a truncation, are found.
def made(durable: int) -> PersistedIsDurable:
    where = world()
    where.held[1] = [entry(offset) for offset in range(durable)]
    return PersistedIsDurable(where)


@pytest.mark.parametrize("durable", [4, 6])
def test_a_log_that_ends_elsewhere_on_the_platter_is_found(durable: int) -> None:
    with pytest.raises(ViolationError, match=f"ends at 5, on the platter at {durable}"):
        made(durable).persisted(node(log_end_offset=5))


# durable_stays: A log that is shorter after a restart than its node acknowledged is found.
def acknowledged_up_to(offset: int) -> AcknowledgedSurvivesRestart:
    made = AcknowledgedSurvivesRestart(world())
    made.before_send(node(), Spoken(epoch=1))
    made.before_send(node(), Spoken(epoch=1, fetched=LogEnd(epoch=1, offset=offset)))
    return made


def test_a_shorter_log_is_found() -> None:
    with pytest.raises(ViolationError, match="had told that it holds 5, it begins at 4"):
        acknowledged_up_to(5).started(node(log_end_offset=4))


def test_what_a_lying_or_an_exchanged_disk_took_is_forgiven() -> None:
    for forgive in (AcknowledgedSurvivesRestart.lost, AcknowledgedSurvivesRestart.wiped):
        made = acknowledged_up_to(5)
        forgive(made, node(2))
        with pytest.raises(ViolationError):
            made.started(node(log_end_offset=0))
        forgive(made, node())
        made.started(node(log_end_offset=0))


# emptied: A voter whose disk was emptied and that takes part without its former records is found.
HELD = [entry(offset) for offset in range(5)]
END = LogEnd(epoch=1, offset=2)


def asked(*, is_pre_vote: bool) -> VoteAsked:
    return vote_asked(2, is_pre_vote=is_pre_vote, candidate_log=(1, 2))


@pytest.fixture
def where() -> Any:
    """Node 1 held five batches, of which four are committed, and has two of them again."""
    made = world()
    made.held[1] = list(HELD)
    made.committed = Ledger(HELD[:4])
    made.ledgers[1] = Ledger(HELD[:2])
    return made


@pytest.fixture
def emptied_made(where: Any) -> EmptiedReturnsWhole:
    oracle = EmptiedReturnsWhole(where)
    oracle.emptied(node(1))
    return oracle


@pytest.mark.parametrize(
    ("spoken", "does"),
    [
        (Spoken(epoch=2, fetched=END), "counts"),
        (Spoken(epoch=2, confirms_leader=True), "counts"),
        (Spoken(epoch=2, candidate_id=1), "votes"),
        (Spoken(epoch=2, granted=asked(is_pre_vote=False)), "votes"),
    ],
)
def test_who_takes_part_too_early_is_found(emptied_made: EmptiedReturnsWhole, spoken: Spoken, does: str) -> None:
    with pytest.raises(ViolationError, match=f"node 1 {does} with a log that ends at 2, .* committed from 2 to 3"):
        emptied_made.before_send(node(1), spoken)


def test_what_stood_in_a_snapshot_is_owed_as_well(where: Any) -> None:
    where.held[1] = HELD[3:]
    oracle = EmptiedReturnsWhole(where)
    oracle.emptied(node(1))
    with pytest.raises(ViolationError, match="from 2 to 3"):
        oracle.before_send(node(1), Spoken(epoch=2, fetched=END))
    where.committed = Ledger()
    oracle.emptied(node(1))
    oracle.before_send(node(1), Spoken(epoch=2, fetched=END))


# index_files: An index entry that belongs to no batch is found.
HOME = Path("/home")
STEM = "00000000000000000005"
BATCHES = (encoded(5, b"a", b"b"), encoded(7, b"c"))


def with_entries(offsets: list[tuple[int, int]], times: list[tuple[int, int]]) -> Any:
    made = node(1, role="follower")
    made.process.ordered = SimpleNamespace(is_idle=True)
    made.disk, made.config.partition_directory = VirtualDisk(Random(1)), HOME
    made.disk.mkdir(HOME)
    contents = {
        "log": b"".join(BATCHES),
        "index": b"".join(struct.pack(">ii", *entry) for entry in offsets) + bytes(9),
        "timeindex": b"".join(struct.pack(">qi", *entry) for entry in times),
    }
    for suffix, content in contents.items():
        made.disk.open(HOME / f"{STEM}.{suffix}", create=True).pwrite([content], 0)
    return made


def check_indexes(who: Any) -> None:
    where = world()
    where.nodes = {1: who, 2: node(2)}
    made = IndexesAreOfTheirLogs(where)
    made.started(who)
    made.ended()


@pytest.mark.parametrize(
    ("offsets", "times"), [([(1, 5)], []), ([(0, 0)] * 0 + [(3, 0)], []), ([], [(7, 1)]), ([], [(0, 0), (1, 1)][1:])]
)
def test_entries_of_nothing_are_found(offsets: list[tuple[int, int]], times: list[tuple[int, int]]) -> None:
    with pytest.raises(ViolationError, match=f"entries of segment {STEM} that nothing stands for"):
        check_indexes(with_entries(offsets, times))


def test_entries_out_of_order_are_found() -> None:
    with pytest.raises(ViolationError, match="out of order"):
        check_indexes(with_entries([(2, len(BATCHES[0])), (1, 0)], []))


# known_damage: A node that forgets where its log is damaged is found.
def damaged(*offsets: int) -> Any:
    damages = tuple(
        Damage(path="log", position=0, start_offset=Offset(offset), expected="a", found="b") for offset in offsets
    )
    return node(1, quarantine=Quarantine(epoch=Epoch(1), until_offset=None, damages=damages, is_cut=True))


def test_a_place_that_is_forgotten_is_found() -> None:
    made = DamageStaysKnown(world())
    made.persisted(damaged(5))
    with pytest.raises(ViolationError, match=r"knows of damage at \(\('log', 9\),\), and not at \[\('log', 5\)\]"):
        made.persisted(damaged(9))


# proof_read: A voter that forgets at a start up to which epoch it may have voted is found.
EMPTIED = Proof(is_complete=True, votes_above=Epoch(7))


def test_what_is_forgotten_is_found() -> None:
    with pytest.raises(ViolationError, match="in epochs up to 7 before it was proven, and votes above -1"):
        restarted(EMPTIED, -1)


def restarted(proof: Proof | None, above: int, *, is_proven: bool = True, is_rotten: bool = False) -> None:
    """A node starts with this proof in its directory, and votes above this epoch then."""
    disk = VirtualDisk(Random(1))
    disk.mkdir(HOME)
    if proof is not None:
        ProofFile(disk, HOME).write(proof)
    if is_rotten:
        [inode] = disk.directory(HOME).cached.values()  # type: ignore[union-attr]
        inode.rot(0, b"?")
    found = node(1, raft=SimpleNamespace(status=SimpleNamespace(is_proven=is_proven), votes_above=above))
    found.config.log_dir, found.disk = HOME, disk
    made = ProofsAreReadBack(world())
    made.starting(found)
    made.after_event(found, view())
    made.after_event(node(2), view())


# quarantine: A damaged node that votes, campaigns or leads is found.
def granted(*, is_pre_vote: bool, is_damaged: bool) -> Spoken:
    return Spoken(epoch=5, granted=vote_asked(2, epoch=5, is_pre_vote=is_pre_vote, is_voter_damaged=is_damaged))


@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_a_grant_of_a_damaged_node_is_found(is_pre_vote: bool) -> None:
    with pytest.raises(ViolationError, match="vote in epoch 5, and part of its log is lost"):
        DamagedTakesNoPart(world()).before_send(node(), granted(is_pre_vote=is_pre_vote, is_damaged=True))


@pytest.mark.parametrize("role", ["leader", "candidate", "prospective", "prospective-voted"])
def test_a_damaged_node_that_campaigns_or_leads_is_found(role: str) -> None:
    with pytest.raises(ViolationError, match=f"is {role} in epoch 1, and part"):
        DamagedTakesNoPart(world()).changed(node(is_damaged=True), BEFORE, view(role))


# read_offline: A recovery point that reads otherwise offline than when it is opened is found.
@pytest.fixture
def raised() -> Any:
    """A node whose recovery point was raised from 4 to 9, without a sync."""
    disk = VirtualDisk(Random(1))
    disk.mkdir(HOME)
    RecoveryPoint.create(disk, HOME, Offset(4)).raise_to(Offset(9), Offset(7))
    made = node(1)
    made.config.partition_directory, made.disk = HOME, disk
    return made


def content(raised: Any) -> bytearray:
    held: bytearray = raised.disk.directory(HOME).cached[FILE_NAME].cached
    return held


def test_an_older_one_is_found(raised: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "parse_recovery_point", lambda path, data: Point(Offset(4), Offset(0)))
    with pytest.raises(
        ViolationError, match=r"node 1 opens its recovery point as .*=9, .*=7.*, offline it reads as .*=4, "
    ):
        OfflineReadersSeeTheNewest(world()).starting(raised)


# real_damage: Damage reported on an intact disk is found.
WRITE = EnterQuarantine(
    io=Io(1), quarantine=Quarantine(epoch=Epoch(1), until_offset=None, damages=(), is_cut=False), end_offset=Offset(0)
)


def test_damage_of_a_rotten_disk_is_accepted_until_it_is_mended() -> None:
    made = DamageIsReal(world())
    made.started(node())
    made.submitted(node(), appends())
    made.submitted(node(is_rotten=True), WRITE)
    made.started(node(is_damaged=True))
    made.persisted(node(is_damaged=True))
    made.submitted(node(), LeaveQuarantine(io=Io(2)))
    made.started(node(is_damaged=True))
    made.persisted(node())
    with pytest.raises(ViolationError, match="calls its log damaged"):
        made.started(node(is_damaged=True))


def test_a_disk_that_holds_what_was_written_is_not_damaged() -> None:
    with pytest.raises(ViolationError, match="its disk holds what was written"):
        DamageIsReal(world()).submitted(node(), WRITE)


# returns_whole: A damaged node that leaves quarantine without its former records is found.
NOTE = Quarantine(epoch=Epoch(1), until_offset=None, damages=(), is_cut=False)
FOUND, MENDED = EnterQuarantine(io=Io(1), quarantine=NOTE, end_offset=Offset(0)), LeaveQuarantine(io=Io(2))


def returns_whole_damaged(held: int = 2) -> Any:
    return node(1, is_damaged=True, log_end_offset=held)


def whole(held: int = 2) -> Any:
    return node(1, log_end_offset=held)


@pytest.fixture
def returns_whole_where() -> Any:
    """Node 1 held five batches and lost all but two; four of them are committed."""
    made = world()
    made.held[1] = list(HELD)
    made.committed = Ledger(HELD[:4])
    made.ledgers[1] = Ledger(HELD[:2])
    return made


@pytest.fixture
def returns_whole_made(returns_whole_where: Any) -> DamagedReturnsWhole:
    return DamagedReturnsWhole(returns_whole_where)


def test_returns_whole_a_snapshot_stands_for_what_it_holds(
    returns_whole_made: DamagedReturnsWhole, returns_whole_where: Any
) -> None:
    returns_whole_made.submitted(returns_whole_damaged(), FOUND)
    returns_whole_where.ledgers[1] = Ledger(begin=OffsetAndEpoch(Offset(4), Epoch(1)))
    returns_whole_made.submitted(whole(), MENDED)
    returns_whole_where.held[1] = []
    returns_whole_made.submitted(returns_whole_damaged(), FOUND)
    returns_whole_where.held[1] = list(HELD)
    returns_whole_made.submitted(returns_whole_damaged(), FOUND)
    returns_whole_where.ledgers[1] = Ledger(begin=OffsetAndEpoch(Offset(3), Epoch(1)))
    with pytest.raises(ViolationError, match="from 3 to 4"):
        returns_whole_made.submitted(whole(), MENDED)


def test_a_node_that_leaves_quarantine_too_early_is_found(
    returns_whole_made: DamagedReturnsWhole, returns_whole_where: Any
) -> None:
    returns_whole_made.started(returns_whole_damaged())
    returns_whole_where.ledgers[1] = Ledger(HELD[:3])
    with pytest.raises(ViolationError, match="ends at 3, and had held what is committed from 3 to 4 in epoch 1"):
        returns_whole_made.submitted(whole(), MENDED)


def test_a_node_that_forgets_its_damage_is_found(
    returns_whole_made: DamagedReturnsWhole, returns_whole_where: Any
) -> None:
    returns_whole_made.submitted(returns_whole_damaged(), FOUND)
    returns_whole_where.held[1] = HELD[:2]
    returns_whole_made.persisted(whole())
    returns_whole_made.started(returns_whole_damaged())
    with pytest.raises(ViolationError, match="node 1 is out of quarantine with a log that ends at 2"):
        returns_whole_made.started(whole())


def test_a_lie_of_the_disk_is_forgiven_until_the_damage_is_noted(returns_whole_made: DamagedReturnsWhole) -> None:
    returns_whole_made.submitted(returns_whole_damaged(), FOUND)
    returns_whole_made.lost(whole())
    returns_whole_made.started(whole())
    returns_whole_made.submitted(returns_whole_damaged(), FOUND)
    returns_whole_made.persisted(returns_whole_damaged())
    returns_whole_made.lost(whole())
    with pytest.raises(ViolationError):
        returns_whole_made.started(whole())


# served: An answer to a Fetch with other bytes than were written is found.
SERVED_BATCHES = (encoded(0, b"a", b"b"), encoded(2, b"c"))


@pytest.fixture
def served_made() -> Any:
    where = world()
    where.ledgers[1] = Ledger(entries_of(*SERVED_BATCHES))
    return ServedIsSound(where)


def test_a_damaged_batch_is_found(served_made: ServedIsSound) -> None:
    damaged = bytearray(SERVED_BATCHES[1])
    damaged[-1] ^= 1
    with pytest.raises(ViolationError, match=r"node 1 answers a Fetch with a damaged batch: .* CRC"):
        served_made.before_send(node(), Spoken(epoch=1, served=SERVED_BATCHES[0] + bytes(damaged)))


@pytest.mark.parametrize("served", [encoded(0, b"other"), encoded(2, b"c", epoch=2), encoded(7, b"d")])
def test_a_batch_that_was_never_written_there_is_found(served_made: ServedIsSound, served: bytes) -> None:
    with pytest.raises(ViolationError, match=r"not (Entry|None)"):
        served_made.before_send(node(), Spoken(epoch=1, served=served))
