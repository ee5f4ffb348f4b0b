"""The rules that must hold in every world, each with its source.

Each oracle is told what happens (`Invariant`) and raises `ViolationError`; none changes anything in the world. To add
one, write its class into the module of its subject: `ALL` has them in the order of their modules and lines, without
those with subclasses.
"""

from pykraft.sim.invariants import (
    campaigns,
    clients,
    disks,
    groups,
    leaders,
    listeners,
    liveness,
    log,
    membership,
    snapshots,
    votes,
)
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.invariants.violation import ViolationError

_SUBJECTS = (votes, leaders, campaigns, membership, log, snapshots, disks, clients, groups, listeners, liveness)
_KINDS = [(module, kind) for module in _SUBJECTS for kind in vars(module).values() if isinstance(kind, type)]
_FOUND = [kind for module, kind in _KINDS if issubclass(kind, Invariant) and kind.__module__ == module.__name__]
ALL: tuple[type[Invariant], ...] = tuple(kind for kind in _FOUND if not kind.__subclasses__())

__all__ = ["ALL", "Invariant", "ViolationError"]
