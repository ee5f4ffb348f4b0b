"""A voter that forgets at a start up to which epoch it may have voted is found."""

from __future__ import annotations

from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from pykraft.core.proof import PROVEN, Proof
from pykraft.log.small_files.proof_file import ProofFile
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.disks.proof_read import ProofsAreReadBack
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.types import Epoch
from tests.sim.invariants.fakes import node, view, world

HOME = Path("/home")
EMPTIED = Proof(is_complete=True, votes_above=Epoch(7))


def test_what_is_forgotten_is_found() -> None:
    with pytest.raises(ViolationError, match="in epochs up to 7 before it was proven, and votes above -1"):
        restarted(EMPTIED, -1)


@pytest.mark.parametrize(("proof", "above"), [(EMPTIED, 7), (PROVEN, -1), (None, -1)])
def test_what_the_file_says_is_known(proof: Proof | None, above: int) -> None:
    restarted(proof, above)


def test_an_unproven_replica_votes_in_no_epoch() -> None:
    restarted(EMPTIED, -1, is_proven=False)


def test_a_disk_that_lies_may_lose_it() -> None:
    restarted(EMPTIED, -1, is_rotten=True)


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
