"""Disk faults, open and silent.

A node ends with an open error, and tries to start in vain until the disk is repaired; only errors of snapshots end no
running node (`NodesStayUp`). A stall is not an error: the disk does nothing for a while, and then everything at once.

Silent are a flipped bit, a synced page that is not there, a page in the wrong place. The node sees them when it reads
the file from the platter: after a power loss, or when the page cache has dropped the page. Only logs, their indexes,
the epoch checkpoint and snapshots are harmed. No other replica has a copy of ``quorum-state``, so a node with a damaged
one refuses to start and needs its operator. The atlas decides which copies may be harmed; a lie is told at the first
sync where the atlas allows it. A wrong epoch in a log and a flip in the epoch checkpoint could hide each other, so they
do not meet (`pykraft.sim.facts.platter`).

Source: Prabhakaran et al., IRON File Systems (SOSP 2005); fsyncgate (PostgreSQL 2018); Bairavasundaram et al. (FAST
2008); Protocol-Aware Recovery (FAST 2018); TigerBeetle's storage simulator; ours (ADR 134).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from pykraft.errors import ProtocolError
from pykraft.log.small_files.epoch_checkpoint import FILE_NAME as EPOCHS
from pykraft.protocol.batch import scan
from pykraft.sim.facts.platter import LOG_SUFFIX, is_last_witness
from pykraft.sim.faults.harm import RECOVERING, Family, Harm
from pykraft.sim.faults.wipe import is_replica_of_its_own
from pykraft.sim.machine import disk
from pykraft.sim.machine.inode import PAGE_SIZE_BYTES, Inode
from pykraft.sim.machine.node import SimulatedNode
from pykraft.snapshot.files import BOOTSTRAP_ID, FileKind, checkpoint_path, parse_snapshot_file

LOG_PROBABILITY: Final = 0.8
EVICTED_PROBABILITY: Final = 0.5
TAIL_PROBABILITY: Final = 0.5
"""Probability that the last whole page of a log is the lost one: it may be above the recovery point."""
NODES_TRIED: Final = 5
LAST_BYTE_OF_OFFSET: Final = 7
LAST_BYTE_OF_EPOCH: Final = 15
HEAD_BYTES: Final = 100
"""About the length of the first batch of a snapshot."""
CACHES: Final = (".index", ".timeindex", EPOCHS)
SNAPSHOT_SUFFIX: Final = ".checkpoint"


class SilentFaults(Family):
    """The kinds of silent disk faults."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self.kinds = {
            "bit flip": self._flip,
            "lost write": partial(self._plan_lie, "lost write"),
            "misdirected write": partial(self._plan_lie, "misdirected write"),
            "lost sector": self._lose_sector,
        }

    def stop(self) -> None:
        """Let no disk lie from now on; rot stays until the node finds it and writes the bytes again."""
        for node in self._harm.facts.nodes.values():
            node.disk.liar = None

    def _flip(self) -> bool:
        # A generator of its own, so that worlds without such flips stay what they were.
        dice = Random(f"{self._harm.facts.seed} head {self._harm.facts.clock.now_us}")
        if dice.random() < self._harm.pace.head_flip_probability and self._flip_head(self._harm.any_node(), dice):
            return True
        return any(self._flip_at(self._harm.any_node()) for _ in range(NODES_TRIED))

    def _lose_sector(self) -> bool:
        node = self._harm.any_node()
        names = self._names(node, (LOG_SUFFIX,))
        # The rule for damage, not for loss: the read fails, so the node notices it even above the recovery point.
        if not names or not self._harm.facts.atlas.may_damage(node):
            return False
        name = self._harm.rng.choice(sorted(names))
        inode = names[name]
        # Only full pages, because the log still writes to a last page that is not full.
        pages = [page for page in range(len(inode.synced) // PAGE_SIZE_BYTES) if page not in inode.dirty_pages]
        if not pages:
            return False
        is_tail = self._harm.rng.random() < TAIL_PROBABILITY
        page = pages[-1] if is_tail else self._harm.rng.choice(pages)
        self._harm.hit("lost sector", node, f"cannot read page {page} of {name} any more")
        inode.lose_page(page)
        return True

    def _flip_at(self, node: SimulatedNode) -> bool:
        rng = self._harm.rng
        can_be_given_another_disk = not is_replica_of_its_own(self._harm.facts, node)
        rest = (*CACHES, SNAPSHOT_SUFFIX) if can_be_given_another_disk else CACHES
        names = self._names(node, (LOG_SUFFIX,) if rng.random() < LOG_PROBABILITY else rest)
        if not names:
            return False
        name = rng.choice(sorted(names))
        inode = names[name]
        position, bit = rng.randrange(len(inode.synced)), None
        # A generator of its own, so that worlds without such flips stay what they were.
        dice = Random(f"{self._harm.facts.seed} header {self._harm.facts.clock.now_us}")
        if name.endswith(LOG_SUFFIX) and dice.random() < self._harm.pace.header_flip_probability:
            position, bit = _uncovered(inode, position, dice), 1 << dice.randrange(3)
        if inode.is_rotten_at(position) or is_last_witness(node, name, position):
            return False
        if not self._may_harm(node, name, inode, position):
            return False
        self._flip_bit(node, name, inode, position, bit or 1 << rng.randrange(8))
        if rng.random() < EVICTED_PROBABILITY:
            inode.evict()
        return True

    def _flip_head(self, node: SimulatedNode, dice: Random) -> bool:
        """Flip a bit in the first batch of a snapshot that a newer one has replaced: nobody needs it any more."""
        names = self._names(node, (SNAPSHOT_SUFFIX,))
        older = sorted(names)[:-1]
        if not older or not self._harm.facts.atlas.may_damage(node):
            return False
        name = dice.choice(older)
        position = dice.randrange(min(len(names[name].synced), HEAD_BYTES))
        if names[name].is_rotten_at(position):
            return False
        self._flip_bit(node, name, names[name], position, 1 << dice.randrange(8))
        names[name].evict()
        return True

    def _flip_bit(self, node: SimulatedNode, name: str, inode: Inode, position: int, bit: int) -> None:
        self._harm.hit("bit flip", node, f"has a bit flipped in {name} at position {position}")
        inode.rot(position, bytes([inode.synced[position] ^ bit]))

    def _may_harm(self, node: SimulatedNode, name: str, inode: Inode, position: int) -> bool:
        atlas = self._harm.facts.atlas
        if not name.endswith(LOG_SUFFIX):
            return atlas.may_damage(node)
        is_tail = _offset_at(name, inode, position) >= atlas.durable_point(node)
        if is_tail and atlas.may_lose(node):
            atlas.lossy(node)
            return True
        return not is_tail and atlas.may_damage(node)

    def _plan_lie(self, kind: str) -> bool:
        """Let the disk lie at the next sync where the atlas allows it."""
        node = self._harm.any_node()
        if node.disk.liar is not None:
            return False
        node.disk.liar = partial(self._lie, kind, node, self._harm.rng)
        return True

    def _lie(
        self, kind: str, node: SimulatedNode, rng: Random, path: Path, before: bytes, pages: Sequence[int]
    ) -> None:
        """After this sync, put the former content of one page back on the platter."""
        names = self._names(node, (LOG_SUFFIX,))
        inode = names.get(path.name)
        if inode is None or not pages or not self._harm.facts.atlas.may_lose(node):
            return
        start = rng.choice(pages) * PAGE_SIZE_BYTES
        written = bytes(inode.synced[start : start + PAGE_SIZE_BYTES])
        former = before[start : start + PAGE_SIZE_BYTES].ljust(len(written), b"\0")[: len(written)]
        if written == former:
            return
        node.disk.liar = None
        self._harm.happened(kind, node, role=None if node.process is not None else RECOVERING)
        self._harm.note(node, f"has a {kind}: {path.name} at position {start}")
        self._harm.facts.atlas.lossy(node)
        inode.rot(start, former)
        if kind == "misdirected write":
            name = rng.choice(sorted(names))
            target = rng.randrange(len(names[name].synced)) // PAGE_SIZE_BYTES * PAGE_SIZE_BYTES
            if (name, target) != (path.name, start):
                names[name].rot(target, written)

    def _names(self, node: SimulatedNode, endings: tuple[str, ...]) -> dict[str, Inode]:
        directory = node.disk.directory(node.config.partition_directory)
        names = directory.synced.items() if directory is not None else ()
        found = {name: inode for name, inode in names if name.endswith(endings) and inode.synced}
        found.pop(checkpoint_path(Path(), BOOTSTRAP_ID).name, None)  # no other replica has it
        return found


def _uncovered(inode: Inode, position: int, dice: Random) -> int:
    """The last byte of the offset or the epoch of the batch that holds this position: no checksum covers them."""
    with suppress(ProtocolError):
        for start, header in scan(inode.promised(), verify_crc=False):
            if start + header.size_bytes > position:
                return start + dice.choice((LAST_BYTE_OF_OFFSET, LAST_BYTE_OF_EPOCH))
    return position


def _offset_at(name: str, inode: Inode, position: int) -> int:
    offset = int(name.removesuffix(LOG_SUFFIX))
    with suppress(ProtocolError):  # The log may end with a torn write.
        for start, header in scan(inode.promised(), verify_crc=False):
            if start + header.size_bytes > position:
                return header.base_offset
            offset = header.end_offset
    return offset


PART_SYNC_ERROR: Final = "part fsync error"


class DiskFaults(Family):
    """The kinds of open disk faults."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self.kinds = {
            **{
                kind: partial(self._fail, kind)
                for kind in (disk.READ_ERROR, disk.WRITE_ERROR, disk.SYNC_ERROR, disk.DISK_FULL)
            },
            "disk stalled": self._stall,
            PART_SYNC_ERROR: self._fail_part,
            disk.NO_SNAPSHOT_ROOM: self._fill,
        }

    def stop(self) -> None:
        for node in self._harm.facts.nodes.values():
            node.disk.io_errors.mend()

    def _fail(self, kind: str) -> bool:
        node, operations = self._harm.any_node(), self._harm.rng.randrange(self._harm.pace.operations_max)
        node.disk.io_errors.on_error = self._harm.happens_once(node)
        node.disk.io_errors.plan(kind, operations)
        self._harm.later(self._harm.within(self._harm.pace.repair_us_max), node.disk.io_errors.mend)
        return True

    def _fail_part(self) -> bool:
        node = self._harm.any_node()
        io_errors = node.disk.io_errors
        if not self._harm.facts.records_between or io_errors.is_planned:
            return False

        # The node removes such a part. Only a process that is killed before leaves it to the next one.
        is_killed = self._harm.rng.random() < 0.5

        def fails(_: str) -> None:
            self._harm.happened(PART_SYNC_ERROR, node, role=None if node.process is not None else RECOVERING)
            self._harm.facts.clock.after(0, io_errors.mend)
            if is_killed:
                node.disk.interrupt_within(0, loses_power=False)

        io_errors.on_error = fails
        # The kernel then takes lost pages for clean, which shows only if the download continues after a restart and the
        # power is lost later.
        io_errors.plan(disk.SYNC_ERROR, 0, concerns=_is_fetched_part)
        return True

    def _fill(self) -> bool:
        """Leave the log room but no snapshot, on one node or, as on equal machines, on all of them."""
        if not self._harm.facts.records_between:
            return False
        rng = self._harm.rng
        nodes = [*self._harm.facts.nodes.values()] if rng.random() < 0.5 else [self._harm.any_node()]
        nodes = [node for node in nodes if not node.disk.io_errors.is_planned]
        for node in nodes:
            node.disk.io_errors.on_error = partial(self._found_no_room, self._harm.happens_once(node), node)
            node.disk.io_errors.plan(disk.NO_SNAPSHOT_ROOM, rng.randrange(3), concerns=_is_growing_snapshot)
        self._harm.later(self._harm.within(self._harm.pace.stall_us_max), lambda: self._give_room(nodes))
        return bool(nodes)

    def _give_room(self, nodes: Sequence[SimulatedNode]) -> None:
        for node in nodes:
            node.disk.io_errors.mend_kind(disk.NO_SNAPSHOT_ROOM)

    def _found_no_room(self, count: Callable[[str], None], node: SimulatedNode, given: str) -> None:
        """Remember that this process has to say so (`FailedSnapshotsAreTold`)."""
        if given == disk.NO_SNAPSHOT_ROOM and node.process is not None:
            self._harm.facts.claims.snapshotless_ids.add(int(node.node_id))
        count(given)

    def _stall(self) -> bool:
        node = self._harm.any_node()
        duration_us = self._harm.within(self._harm.pace.stall_us_max)
        self._harm.hit("disk stalled", node, f"has a disk that does nothing for {duration_us / 1e3:.0f} ms")
        node.disk.io_errors.stalled_until_us = self._harm.facts.clock.now_us + duration_us
        return True


def _is_growing_snapshot(path: Path) -> bool:
    file = parse_snapshot_file(path.name)
    return file is not None and file.kind is FileKind.PART


def _is_fetched_part(path: Path) -> bool:
    file = parse_snapshot_file(path.name)
    return file is not None and file.kind is FileKind.PART and file.leader_epoch is not None


class UnreadableFaults(Family):
    """The one kind of this family."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self.kinds = {disk.SNAPSHOT_UNREADABLE: self._begin}

    def stop(self) -> None:
        for node in self._harm.facts.nodes.values():
            node.disk.io_errors.mend_kind(disk.SNAPSHOT_UNREADABLE)

    def _begin(self) -> bool:
        facts, rng = self._harm.facts, self._rng
        if not facts.records_between:
            return False
        nodes = list(facts.nodes.values())
        nodes = nodes if rng.random() < 0.5 else [rng.choice(nodes)]
        nodes = [node for node in nodes if not node.disk.io_errors.is_planned]
        for node in nodes:
            node.disk.io_errors.on_error = self._harm.happens_once(node)
            node.disk.io_errors.plan(disk.SNAPSHOT_UNREADABLE, rng.randrange(3), concerns=_whole_snapshots_of(node))
        self._harm.later(rng.randint(1, rng.choice(self._harm.pace.stall_us_max)), self.stop)
        return bool(nodes)


def _whole_snapshots_of(node: SimulatedNode) -> Callable[[Path], bool]:
    def concerns(path: Path) -> bool:
        file = parse_snapshot_file(path.name)
        return node.process is not None and file is not None and file.kind is FileKind.WHOLE

    return concerns
