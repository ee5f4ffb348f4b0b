"""An operator restores an older copy of ``quorum-state``, as for a file that cannot be read any more.

The log stays as it is, so it holds records of later epochs than ``quorum-state`` remembers. The votes of those epochs
are lost. So the operator treats the node like a wiped one (see `pykraft.sim.faults.wipe`): it stays down until the
others have committed a record of an epoch that it took no part in. Its log has promised records to others: the node may
not lose one of them, nor report it damaged. The oracles forget only its votes (`Invariant.forgot_votes`).

The check file of ``quorum-state`` is removed, too, because it would reject the copy. The recovery point and the epoch
checkpoint may be missing as well, as when a tool that knows only Kafka's files copied the directory.

``lost recovery-point`` removes that one file of a node, and flips a bit in its log: the node must not take its
directory for one of Kafka's, whose log it would cut there.

Source: Kafka's ``QuorumState.initialize`` (the log's epoch wins); KIP-595 §Quorum State.
"""

from __future__ import annotations

from typing import Final

from pykraft.log.paths import LOG
from pykraft.log.small_files.epoch_checkpoint import FILE_NAME as EPOCHS
from pykraft.log.small_files.quorum_state import CHECK_NAME, FILE_NAME, encode_quorum_state, parse_quorum_state
from pykraft.log.small_files.recovery_point import FILE_NAME as RECOVERY_POINT
from pykraft.sim.facts.epoch_witnesses import is_last_witness
from pykraft.sim.faults.harm import Act, Harm
from pykraft.sim.machine.inode import Directory, Inode
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import Election, Epoch

OLDER: Final = "older quorum-state"
LEFT_OUT: Final = ((RECOVERY_POINT, 0.5), (EPOCHS, 0.25))
"""Files that the copy may lack, each with its probability."""


LOST: Final = "lost recovery-point"


class RestoreFaults:
    """Small files that are older or missing."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self.kinds: dict[str, Act] = {OLDER: self._restore, LOST: self._lose_point}

    def stop(self) -> None:
        """Do nothing: a node that waits still has to wait for the atlas."""

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
