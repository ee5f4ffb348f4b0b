"""The fault atlas: which copies of a log may still be harmed in silence, so that something remains to be promised.

Raft with n voters survives as long as a majority of the copies of each record that is committed, or may be, is
whole or known to be lost. The atlas counts copies on the platters as they really are, and allows three things:

- *damage* below a voter's durable recovery point will be noticed, and puts it into quarantine until it is mended:
  allowed while the voters that are harmed or in quarantine, or wait for their return, are a minority with this one.
  A majority that can vote remains, and it holds every committed record: of its copies, at least a majority, only a
  minority is harmed.
- *loss* above the recovery point looks like a torn tail and will not be noticed: allowed only if, besides, a
  majority of the other voters holds everything on its platters that this one ever promised to hold.
- a *wiped* voter has forgotten its votes as well. It may come back only when the others have committed a record of
  an epoch in which it had no part: then none of its votes and none of its copies counts for anything any more.

Observers promise nothing. What a disk did not promise (no sync, or a failed one) is no copy and is not counted; so
a loss of power takes away no copy that counts, except those that a disk had lied about, which counted as lost before.

Source: TigerBeetle's fault atlas (ClusterFaultAtlas); Alagappan et al., Protocol-Aware Recovery for Consensus-Based
Storage (FAST 2018); Vanlightly, KAFKA-14077 (a voter that lost its disk).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.core.quorum import majority_of
from pykraft.log.quarantine_file import FILE_NAME as QUARANTINE
from pykraft.log.recovery_point import FILE_NAME as RECOVERY_POINT
from pykraft.log.slots import parse_slots
from pykraft.sim.inode import Inode
from pykraft.sim.oracle import Platter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykraft.sim.inode import Directory
    from pykraft.sim.node import Node
    from pykraft.sim.world import World


class Atlas:
    """What is left of the copies of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._wiped: dict[int, int] = {}
        """Voters whose disk is new and that may not come back yet, and the highest epoch that they knew."""
        self._lossy: set[int] = set()
        self._standing = {
            node_id: Platter(node.disk, node.config.partition_directory, read=Inode.standing)
            for node_id, node in world.nodes.items()
        }

    def may_damage(self, node: Node) -> bool:
        """Whether this node may be harmed where it will notice."""
        voters = self._world.voters()
        if node not in voters:
            return True
        harmed = {int(voter.node_id) for voter in voters if self._is_harmed(voter)} | {int(node.node_id)}
        return len(harmed) <= len(voters) - majority_of(len(voters))

    def may_lose(self, node: Node) -> bool:
        """Whether copies of this node may vanish without its notice."""
        voters = self._world.voters()
        if node not in voters:
            return True
        others = [voter for voter in voters if voter is not node and int(voter.node_id) not in self._wiped]
        holding = sum(self._holds(other, node) for other in others)
        return self.may_damage(node) and holding >= majority_of(len(voters))

    def lossy(self, node: Node) -> None:
        """Something above the recovery point of this node is not there."""
        self._lossy.add(int(node.node_id))

    def has_lost(self, node: Node) -> bool:
        """Asked when a node starts: whether it may have forgotten what it promised; once the harm is gone, no more."""
        is_lossy = int(node.node_id) in self._lossy
        if not node.disk.is_rotten:
            self._lossy.discard(int(node.node_id))
        return is_lossy

    def wiped(self, node: Node, epoch: int) -> None:
        """This node has a new disk, and knew this epoch; an observer comes back at once."""
        if node in self._world.voters():
            self._wiped[int(node.node_id)] = epoch

    def may_return(self, node: Node) -> bool:
        """Whether a node that is down may start."""
        epoch = self._wiped.get(int(node.node_id))
        if epoch is None:
            return True
        has_moved_on = self._world.committed.last_epoch > epoch
        if has_moved_on:
            del self._wiped[int(node.node_id)]
        return has_moved_on

    @property
    def waiting(self) -> Mapping[int, int]:
        """Wiped voters that may not come back yet, and the epoch that must be over first."""
        return self._wiped

    def durable_point(self, node: Node) -> int:
        """Where the recovery point of this node is even after a loss of power; 0 when there is none."""
        directory = self._partition(node)
        inode = directory.synced.get(RECOVERY_POINT) if directory is not None else None
        slots = parse_slots(bytes(inode.synced)) if inode is not None else ()
        return int(slots[-1].payload) if slots else 0

    def _is_harmed(self, voter: Node) -> bool:
        directory = self._partition(voter)
        is_quarantined = directory is not None and QUARANTINE in directory.cached.keys() | directory.synced.keys()
        return is_quarantined or voter.is_damaged or voter.disk.is_rotten or int(voter.node_id) in self._wiped

    def _holds(self, other: Node, node: Node) -> bool:
        """Whether the other one's platter has all that this one promised: the same last batch, or a later snapshot."""
        end, platter = self._world.durable_end(node), self._standing[int(other.node_id)]
        if not end.offset or any(each.offset >= end.offset for each in platter.snapshots()):
            return True
        promised, held = self._world.durable_entry(node, end.offset - 1), platter.entry_at(end.offset - 1)
        if promised is None:  # the end of a snapshot, which stands for what is committed
            return held is not None and (held.end_offset, held.epoch) == (end.offset, end.epoch)
        return held == promised

    def _partition(self, node: Node) -> Directory | None:
        return node.disk.directory(node.config.partition_directory)
