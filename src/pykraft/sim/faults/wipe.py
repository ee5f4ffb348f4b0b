"""Disks that are replaced or emptied, and files or directories of which an older copy is put back.

With static voters (KIP-595) nobody can tell a *wiped* disk from the old one: the node may vote twice, and records that
counted its copy may be lost (KAFKA-14077). So the simulated operator does what a careful one would do: at most a
minority of the voters is harmed in any way; the node stays down; the others elect a leader of a newer epoch and commit
a record in it (if need be, the present leader resigns); then the node starts, on a disk that is formatted explicitly.

An *emptied* disk is what happens without an operator, as with a volume that is not mounted: the node starts at once,
and has to find out by itself when it may take part (ADR 022).

None of the former votes and copies of a wiped node counts. No oracle is switched off for that: each forgets what it
remembers of this node (`Invariant.wiped`), and only at that moment.

After an older ``quorum-state`` the votes of the epochs since are lost, so the node waits like a wiped one. Its log has
promised records to others: it may not lose one of them, nor report it damaged; oracles forget only its votes
(`Invariant.forgot_votes`). The file's check file would reject the copy and is removed. The recovery point and the epoch
checkpoint may be missing as well, as when a tool that knows only Kafka's files copied the directory.
``lost recovery-point`` removes that one file, and flips a bit in the log: the node must not take its directory for one
of Kafka's, whose log it would cut there.

Older copies of whole directories are put back, of one voter or of a minority, and the nodes start at once. Such a voter
has forgotten records that it acknowledged, votes, and its epoch. No protocol can keep what only it held, so a copy is
put back only where a majority of the voters, without this one, holds everything that it ever promised
(`Atlas.may_lose`), and every other voter is in a later epoch, or knows the leader of this one: nobody can ask for the
vote that it gave. Then the operator must be told: by the leader, that a voter fetches what it had acknowledged
(`ForgottenIsTold`), and by the voter, what it cuts (`CutsAreTold`).

Source: Kafka ``RaftEventSimulationTest`` (recovery after the loss of one node's data); KAFKA-14077; KIP-853; KIP-595
§Quorum State; Kafka's ``QuorumState.initialize`` (the log's epoch wins); ours (ADR 128).
"""

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

from pykraft.errors import CorruptionError, StorageError
from pykraft.log.paths import LOG
from pykraft.log.small_files.epoch_checkpoint import FILE_NAME as EPOCHS
from pykraft.log.small_files.quorum_state import CHECK_NAME, FILE_NAME, encode_quorum_state, parse_quorum_state
from pykraft.log.small_files.recovery_point import FILE_NAME as RECOVERY_POINT
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.members import format_directory, replace_disk, wipe_disk
from pykraft.sim.facts.platter import is_last_witness, is_unproven
from pykraft.sim.faults.harm import Family, Harm
from pykraft.sim.faults.process import kill_first_start
from pykraft.sim.machine.disk import Tree
from pykraft.sim.machine.inode import ALL_KEPT, Directory, Inode
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.scenario import BACKUPS
from pykraft.snapshot.files import parse_snapshot_file
from pykraft.types import Election, Epoch, ReplicaKey

COPY_PROBABILITY: Final = 0.4


@dataclass(frozen=True, slots=True)
class _Copy:
    """A directory as it was, and whose it was."""

    key: ReplicaKey
    tree: Tree


class BackupFaults(Family):
    """The one kind of this family."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self._copies: dict[int, _Copy] = {}
        (self._kind,) = BACKUPS
        self.kinds = {self._kind: self._act}

    def _act(self) -> bool:
        voters = self._harm.facts.voters()
        if not self._copies or self._rng.random() < COPY_PROBABILITY:
            found = [node for node in voters if self._is_sound(node)]
            self._copies |= {int(node.node_id): _Copy(node.key, node.disk.left(ALL_KEPT)) for node in found}
            return bool(found)
        wanted = self._rng.randint(1, max(1, (len(voters) - 1) // 2))
        done = [node for node in self._rng.sample(voters, wanted) if self._put_back(node)]
        return bool(done)

    def _put_back(self, node: SimulatedNode) -> bool:
        facts, copy = self._harm.facts, self._copies.get(int(node.node_id))
        if copy is None or copy.key != node.key or not self._is_sound(node):
            return False
        if facts.atlas.waiting or not facts.atlas.may_lose(node) or not self._is_past(node):
            return False
        self._harm.hit(self._kind, node, "is given an older copy of its directory")
        facts.claims.older_ids.add(int(node.node_id))
        node.kill()
        self._harm.world.watch.wiped(node)
        node.disk.put_back(copy.tree)
        return True

    def _is_past(self, node: SimulatedNode) -> bool:
        """Whether no vote of this node can be asked for again: the others are past its epoch, or know its leader."""
        facts = self._harm.facts
        assert node.status is not None
        epoch = max(facts.platters.election(node).epoch, int(node.status.epoch))
        voter_ids = {int(voter_id) for voters in facts.members.in_force() for voter_id in voters.ids}
        others = [facts.platters.election(facts.nodes[each]) for each in voter_ids - {int(node.node_id)}]
        return all(each.epoch > epoch or (each.epoch == epoch and each.leader_id is not None) for each in others)

    @staticmethod
    def _is_sound(node: SimulatedNode) -> bool:
        """Whether the node runs, has nothing to write, and knows all that it ever knew."""
        is_idle = node.process is not None and node.process.is_idle
        return is_idle and not node.disk.is_rotten and not node.is_damaged and not is_unproven(node)


class WipeFaults(Family):
    """The kinds of lost disks."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self.kinds = {"wiped disk": self._wipe, "emptied disk": self._empty}

    def _wipe(self) -> bool:
        world, node = self._harm.world, self._harm.any_node()
        if (
            world.facts.atlas.waiting
            or not world.facts.atlas.may_damage(node)
            or is_replica_of_its_own(world.facts, node)
        ):
            return False
        self._harm.happened("wiped disk", node)
        self._exchange(node)
        return True

    def _empty(self) -> bool:
        """Empty a disk; only where all know pre-votes, without which the node could not learn the highest epoch."""
        world, node = self._harm.world, self._harm.any_node()
        if not world.facts.atlas.may_damage(node) or not world.facts.members.has_pre_votes:
            return False
        self._harm.hit("emptied disk", node, "finds its disk empty")
        world.watch.emptied(node)
        world.facts.atlas.emptied(node, self._shared_epoch(node))
        wipe_disk(node)
        node.config = replace(node.config, directory_id=node.key.directory_id)
        node.first_voters = node.config.voters
        # A generator of its own, so that worlds without such kills stay what they were.
        dice = Random(f"{world.facts.seed} emptied {world.facts.clock.now_us}")
        if dice.random() < self._harm.pace.emptied_kill_probability:
            kill_first_start(world.watch, node, dice, self._harm.later)
        return True

    def failed(self, node: SimulatedNode, error: StorageError) -> None:
        """Replace the disk of a node that ended because it needs a snapshot that is damaged.

        Until the atlas allows it the node starts again and again, perhaps in vain.
        """
        atlas = self._harm.facts.atlas
        is_snapshot = isinstance(error, CorruptionError) and parse_snapshot_file(Path(str(error.path)).name) is not None
        if is_snapshot and not atlas.waiting and atlas.may_damage(node):
            self._harm.happened("damaged snapshot", node, role=node.last_role)
            self._exchange(node)

    def _shared_epoch(self, node: SimulatedNode) -> int:
        """The highest epoch in which this node may have taken part: it knows it.

        Where there are strangers, another voter must know it, too: one may have told the node of an epoch that nobody
        reaches for hours.
        """
        facts = self._harm.facts
        if not facts.claims.is_any:
            return self._known_epoch(node)
        voters = {int(voter_id) for voters in facts.members.in_force() for voter_id in voters.ids}
        others = [facts.nodes[voter_id] for voter_id in voters - {int(node.node_id)}]
        known = self._known_epoch(node)
        return min(known, max(map(self._known_epoch, others), default=known))

    def _known_epoch(self, node: SimulatedNode) -> int:
        return max(self._harm.facts.platters.election(node).epoch, node.status.epoch if node.status is not None else 0)

    def _exchange(self, node: SimulatedNode) -> None:
        world = self._harm.world
        self._harm.note(node, "is given an empty disk")
        world.facts.atlas.wiped(node, self._shared_epoch(node))
        world.watch.wiped(node)
        if world.facts.members.is_at_level_one:
            replace_disk(node)
        else:
            wipe_disk(node)
            format_directory(node)
        self._harm.move_on(node)


def is_replica_of_its_own(facts: Facts, node: SimulatedNode) -> bool:
    """True when some voter set names its directory id: then ``replaced disk`` is the fault for it."""
    sets = facts.members.in_force()
    return any((entry := voters.get(node.node_id)) and entry.key.directory_id is not None for voters in sets)


OLDER: Final = "older quorum-state"
EPOCHS_AHEAD_MAX: Final = 10
"""A node that a stranger has moved further would wait for as many resignations until its vote is of no use."""
LEFT_OUT: Final = ((RECOVERY_POINT, 0.5), (EPOCHS, 0.25))
"""Files that the copy may lack, each with its probability."""


LOST: Final = "lost recovery-point"


class RestoreFaults(Family):
    """Small files that are older or missing."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self.kinds = {OLDER: self._restore, LOST: self._lose_point}

    def _restore(self) -> bool:
        world, node = self._harm.world, self._harm.any_node()
        is_sound = not node.disk.is_rotten and not node.is_damaged
        # In the middle of a write the epoch checkpoint may lack what the log has: that would be damage.
        if node.process is None or not node.process.is_idle or not is_sound:
            return False
        directory = node.disk.directory(node.config.partition_directory)
        if world.facts.atlas.waiting or not world.facts.atlas.may_damage(node) or directory is None:
            return False
        epoch = max(world.facts.platters.election(node).epoch, node.status.epoch if node.status is not None else 0)
        others = (world.facts.platters.election(each).epoch for each in world.facts.voters() if each is not node)
        if epoch > max(others, default=0) + EPOCHS_AHEAD_MAX:
            return False
        self._harm.happened(OLDER, node)
        node.kill()
        world.facts.atlas.wiped(node, epoch)
        world.watch.forgot_votes(node)
        self._replace(node, directory)
        self._harm.move_on(node)
        return True

    def _lose_point(self) -> bool:
        facts, rng, node = self._harm.facts, self._harm.rng, self._harm.any_node()
        is_sound = not node.disk.is_rotten and not node.is_damaged
        directory = node.disk.directory(node.config.partition_directory)
        if node.process is None or not node.process.is_idle or not is_sound or directory is None:
            return False
        logs = [name for name, inode in sorted(directory.synced.items()) if name.endswith(LOG) and inode.synced]
        if not logs or RECOVERY_POINT not in directory.synced or not facts.atlas.may_damage(node):
            return False
        name = rng.choice(logs)
        inode = directory.synced[name]
        position = rng.randrange(len(inode.synced.rstrip(b"\0")) or 1)
        if is_last_witness(node, name, position):
            return False
        self._harm.happened(LOST, node)
        node.kill()
        directory.change((RECOVERY_POINT, None))
        directory.sync()
        self._harm.note(node, f"loses {RECOVERY_POINT}, and has a bit flipped in {name} at position {position}")
        inode.rot(position, bytes([inode.synced[position] ^ 1 << rng.randrange(8)]))
        inode.evict()
        return True

    def _replace(self, node: SimulatedNode, directory: Directory) -> None:
        rng = self._harm.rng
        path = node.config.partition_directory / FILE_NAME
        stored = parse_quorum_state(path, bytes(directory.cached[FILE_NAME].cached))
        epoch = rng.randint(0, stored.election.epoch)
        self._harm.note(node, f"is given a quorum-state of epoch {epoch}, it was in {stored.election.epoch}")
        content = encode_quorum_state(
            Election(epoch=Epoch(epoch)), voters=stored.voters, kraft_version=stored.data_version
        )
        copy = Inode()
        copy.write(content, 0)
        copy.sync()
        directory.change((FILE_NAME, copy), (CHECK_NAME, None))
        for name, probability in LEFT_OUT:
            if rng.random() < probability:
                directory.change((name, None))
        directory.sync()
