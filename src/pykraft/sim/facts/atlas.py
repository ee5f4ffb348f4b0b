"""The fault atlas: decides which copies of a log faults may still destroy, so that the cluster can keep its promises.

Raft with n voters survives as long as, of each record that is or may be committed, a majority of the copies is intact
or known to be lost. The atlas counts copies on the platters as they really are, and allows four kinds of harm:

- *damage* below a voter's durable recovery point. The voter will notice it, and stays in quarantine until it is
  repaired. Allowed while this voter and all others that are harmed, in quarantine or waiting to return are a minority:
  the majority that can still vote then holds every committed record.
- *loss* above the recovery point. It looks like a torn tail, so the voter will not notice it. Allowed only if, besides,
  a majority of the voters, without this one, holds on its platters everything that this one ever promised to hold.
  A power loss makes it true; if what was promised meanwhile is not held by others, the disk had told the truth.
- an *emptied* disk. It has forgotten epoch, votes and records, and its node starts at once: the node has to find out by
  itself when it may take part (ADR 022), and counts as harmed until its disk says that it may. The same holds for a
  voter that nobody formatted.
- a *wiped* voter. It has forgotten its votes, too, and may return only when the others have committed a record of an
  epoch that it took no part in: from then on none of its votes or copies counts.

Where voters change, all this must hold for every voter set in force in some log, and for the sets that requested
changes will lead to: without the voters that are to leave, and with those that are to join. A voter also counts as
harmed when its entry in the set is out of date: another directory id since its disk was replaced, or another address
since it moved. A replaced disk needs no rule of its own, because its node is another replica and may return at once.

A majority of each set is not enough where the logs end with different sets: if the newest log is that of an observer
which one voter alone counts among the voters, neither this voter nor any other may find a majority. So besides, one of
the others must be able to win an election.

Observers promise nothing. Data that a disk has not promised (no sync, or a failed one) is not counted as a copy. So a
power loss removes no counted copy, except one that a disk lied about, and that counted as lost before.

Source: TigerBeetle's fault atlas (ClusterFaultAtlas); Alagappan et al., Protocol-Aware Recovery for Consensus-Based
Storage (FAST 2018); Vanlightly, KAFKA-14077 (a voter that lost its disk).
"""

from collections.abc import Collection, Mapping

from pykraft.core.quorum import majority_of
from pykraft.log.small_files.quarantine_file import FILE_NAME as QUARANTINE
from pykraft.log.small_files.recovery_point import FILE_NAME as RECOVERY_POINT
from pykraft.log.small_files.recovery_point import parse_recovery_point
from pykraft.log.small_files.slots import parse_slots
from pykraft.sim.facts.members import Members, VoterRequests
from pykraft.sim.facts.platter import Platter, Platters, is_unproven
from pykraft.sim.machine.inode import Directory, Inode
from pykraft.sim.machine.ledger import Ledger
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import Voter


class Atlas:
    """The copies of one world, and what faults may still do to them."""

    def __init__(
        self,
        nodes: Mapping[int, SimulatedNode],
        platters: Platters,
        committed: Ledger,
        members: Members,
        requests: VoterRequests,
        absent: Collection[int],
    ) -> None:
        self._nodes = nodes
        self._platters = platters
        self._committed = committed
        self._members = members
        self._requests = requests
        self._absent = absent
        self._wiped: dict[int, int] = {}
        """Voters with a new disk that may not return yet, and the highest epoch that they knew."""
        self._emptied: set[int] = set()
        """Voters whose disk was emptied and that have not started since."""
        self._forgotten: dict[int, int] = {}
        """By node whose disk was emptied: the highest epoch that it knew before."""
        self._lossy: set[int] = set()
        self._untrusted: set[int] = set()
        """Nodes whose disks have lied: the leader may believe that they hold records that they do not hold."""
        self._standing = {node_id: _standing(node) for node_id, node in nodes.items()}

    def joined(self, node: SimulatedNode) -> None:
        self._standing[int(node.node_id)] = _standing(node)

    def may_damage(self, node: SimulatedNode) -> bool:
        """Whether a fault may damage this node where the node will notice it."""
        return self._is_bearable(harmed=node) and any(self._wins(each, without=node) for each in self._nodes.values())

    def may_lose(self, node: SimulatedNode) -> bool:
        """Whether a fault may destroy copies of this node without its notice."""
        for voters in self._members.in_force():
            if int(node.node_id) not in voters.ids and not self._may_join(node):
                continue
            others = [each for each in self._members.nodes_of(voters) if each is not node]
            holding = sum(self._holds(other, node) for other in others if int(other.node_id) not in self._wiped)
            if holding < majority_of(len(voters)):
                return False
        return self.may_damage(node)

    def may_join(self, node: SimulatedNode) -> bool:
        """Whether an operator may add this node as a voter; never one that lost copies without notice."""
        return int(node.node_id) not in self._untrusted and self._is_bearable(joining=node)

    def may_leave(self, node: SimulatedNode) -> bool:
        """Whether an operator may remove this voter."""
        return self._is_bearable(leaving=node)

    def lossy(self, node: SimulatedNode) -> None:
        """Record that something above the recovery point of this node is lost."""
        self._lossy.add(int(node.node_id))
        self._untrusted.add(int(node.node_id))

    def hides_too_much(self, node: SimulatedNode) -> bool:
        """Whether a power loss now would cost more than was known when the disk of this node lied.

        What the node has promised since lies behind it, and until the recovery point has passed all that, it looks like
        a torn tail.
        """
        return int(node.node_id) in self._lossy and node.disk.is_rotten and not self.may_lose(node)

    def has_lost(self, node: SimulatedNode) -> bool:
        """Whether this starting node may have lost what it promised. Forgets it once the disk is no longer rotten."""
        is_lossy = int(node.node_id) in self._lossy
        if not node.disk.is_rotten:
            self._lossy.discard(int(node.node_id))
        return is_lossy

    def wiped(self, node: SimulatedNode, epoch: int) -> None:
        """Record that this node has a new disk, and the epoch it knew; an observer may return at once."""
        node_id = int(node.node_id)
        if any(node_id in voters.ids for voters in self._members.in_force()):
            # If its disk was emptied before, the node may not know any more in which epochs its copies counted.
            self._wiped[node_id] = max(epoch, self._forgotten.get(node_id, 0))

    def emptied(self, node: SimulatedNode, epoch: int) -> None:
        """Record that the disk of this node was emptied, and the epoch it knew; the node may start at any time."""
        self._emptied.add(int(node.node_id))
        self._forgotten[int(node.node_id)] = max(epoch, self._forgotten.get(int(node.node_id), 0))

    def started(self, node: SimulatedNode) -> None:
        """Forget that the disk was emptied: since this start, the proof file on it says so."""
        self._emptied.discard(int(node.node_id))

    def may_return(self, node: SimulatedNode) -> bool:
        """Whether a node that is down may start."""
        epoch = self._wiped.get(int(node.node_id))
        if epoch is None:
            return True
        has_moved_on = self._committed.last_epoch > epoch
        if has_moved_on:
            del self._wiped[int(node.node_id)]
        return has_moved_on

    @property
    def waiting(self) -> Mapping[int, int]:
        """Wiped voters that may not return yet, and the epoch that the others have to pass first."""
        return self._wiped

    def durable_point(self, node: SimulatedNode) -> int:
        """The recovery point of this node that a power loss would leave; 0 without one."""
        directory = self._partition(node)
        inode = directory.synced.get(RECOVERY_POINT) if directory is not None else None
        content = bytes(inode.synced) if inode is not None else b""
        return parse_recovery_point(node.config.partition_directory, content).offset if parse_slots(content) else 0

    def _is_bearable(
        self,
        *,
        harmed: SimulatedNode | None = None,
        joining: SimulatedNode | None = None,
        leaving: SimulatedNode | None = None,
    ) -> bool:
        """Whether a majority of each voter set stays intact if this is done, besides everything that is under way."""
        nodes = self._nodes
        bad = {int(node.node_id) for node in nodes.values() if node is harmed or self._is_harmed(node)}
        joining_ids = {node_id for node_id, node in nodes.items() if node is joining or self._may_join(node)}
        leaving_ids = {node_id for node_id, node in nodes.items() if node is leaving or self._may_leave(node)}
        concerned = int((harmed or joining or leaving or next(iter(nodes.values()))).node_id)
        for voters in self._members.in_force():
            lost = {int(voter.key.id) for voter in voters.voters if self._is_lost(voter)} | (bad & set(voters.ids))
            left = set(voters.ids) - (leaving_ids - lost)
            joined = (joining_ids & bad) - set(voters.ids)
            if harmed is not None and concerned not in left | joined:
                continue
            if 2 * len(lost & left | joined) >= len(left | joined):
                return False
        return True

    def _wins(self, candidate: SimulatedNode, *, without: SimulatedNode) -> bool:
        """Whether this node could be elected without that one, by its own voters and by the logs as they are."""
        voters = self._members.voters_of(candidate)
        able = [each for each in self._members.nodes_of(voters) if each is not without and not self._is_harmed(each)]
        votes = sum(candidate.ledger.end.is_at_least(each.ledger.end) for each in able)
        return candidate in able and votes >= majority_of(len(voters))

    def _is_lost(self, voter: Voter) -> bool:
        """Whether the node of this entry has another directory id or address by now."""
        node = self._nodes[int(voter.key.id)]
        return not voter.key.matches(node.key) or voter.listeners != node.config.advertised_listeners

    def _may_join(self, node: SimulatedNode) -> bool:
        """Whether this node may become a voter: it joins by itself, or somebody asked for it."""
        return node.config.raft.auto_join or node in self._requests.joining

    def _may_leave(self, node: SimulatedNode) -> bool:
        return node in self._requests.leaving

    def _is_harmed(self, voter: SimulatedNode) -> bool:
        directory = self._partition(voter)
        is_quarantined = directory is not None and QUARANTINE in directory.cached.keys() | directory.synced.keys()
        node_id = int(voter.node_id)
        is_away = node_id in self._wiped or node_id in self._absent or node_id in self._emptied or is_unproven(voter)
        return is_quarantined or voter.is_damaged or voter.disk.is_rotten or is_away

    def _holds(self, other: SimulatedNode, node: SimulatedNode) -> bool:
        end, platter = self._platters.end(node), self._standing[int(other.node_id)]
        if not end.offset or any(each.offset >= end.offset for each in platter.snapshots()):
            return True
        promised, held = self._platters.entry_at(node, end.offset - 1), platter.entry_at(end.offset - 1)
        if promised is None:  # The log ends with a snapshot, which covers only committed records.
            return held is not None and (held.end_offset, held.epoch) == (end.offset, end.epoch)
        return held == promised

    def _partition(self, node: SimulatedNode) -> Directory | None:
        return node.disk.directory(node.config.partition_directory)


def _standing(node: SimulatedNode) -> Platter:
    return Platter(node.disk, node.config.partition_directory, read=Inode.standing)
