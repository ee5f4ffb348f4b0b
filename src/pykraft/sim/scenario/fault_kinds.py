"""Names of all fault kinds, by family: those that a scenario can weight, and those that the report counts.

A kind is counted when it happens, not when it is planned: a disk error when the disk raises it, an old Fetch when it
arrives, a change of the voters when it is committed. ``torn write`` and ``auto join`` have no weight of their own: the
first comes with a power loss, the second with a setting of the node.
"""

from __future__ import annotations

from typing import Final

PROCESS: Final = (
    "kill",
    "kill while writing",
    "power loss",
    "power loss while writing",
    "kill then power loss",
    "restart storm",
    "pause",
    "all down",
    "all killed",
    "all down after a commit",
    "resign",
    "shutdown",
    "transfer",
    "transfer to the dead",
)
CLOCK: Final = ("clock skew", "clock jump")
VERSION: Final = ("old version",)
SNAPSHOT: Final = ("snapshot interrupted", "download interrupted", "install interrupted", "cleaning interrupted")
LOUD_DISK: Final = (
    "read error",
    "write error",
    "fsync error",
    "disk full",
    "disk stalled",
    "part fsync error",
    "no room for snapshots",
)
SILENT_DISK: Final = ("bit flip", "lost write", "misdirected write", "lost sector", "wiped disk", "emptied disk")
RESTORED: Final = ("older quorum-state", "lost recovery-point")
NETWORK: Final = (
    "isolated",
    "one-way cut",
    "split",
    "star",
    "flapping",
    "flapping connections",
    "refused connections",
    "heal",
    "slow link",
    "trickle",
    "delay",
    "lost frames",
    "duplicated request",
    "reordered frames",
    "old fetch",
)
MEMBERSHIP: Final = (
    "new voter",
    "promotion",
    "removal",
    "leader removal",
    "cut after voters",
    "replaced disk",
    "moved voter",
    "upgrade",
)
STRANGER: Final = (
    "far epoch",
    "rising epochs",
    "false leader",
    "false voter",
    "forged fetch",
    "forged endpoint",
    "abandoned fetch",
)
"""Drawn separately from the others, see `pykraft.sim.faults.faults`."""
FORGED: Final = ("forged frames",)
TWINS: Final = ("twin",)
BACKUPS: Final = ("older directory",)
MACHINES: Final = ("replaced machine",)
FLIPPED: Final = ("flipped bit",)
UNREADABLE: Final = ("unreadable snapshots",)
OF_THEIR_OWN: Final = (FORGED, TWINS, BACKUPS, MACHINES, FLIPPED, UNREADABLE)
"""Families with a plan of their own each. The weight of such a kind, up to 1, is the probability that a world has it,
so a world without it stays what it was.
"""
KINDS: Final = (
    *PROCESS,
    *CLOCK,
    *VERSION,
    *SNAPSHOT,
    *LOUD_DISK,
    *SILENT_DISK,
    *RESTORED,
    *NETWORK,
    *MEMBERSHIP,
    *STRANGER,
    *(kind for family in OF_THEIR_OWN for kind in family),
)
CONSEQUENCES: Final = (
    "torn write",
    "snapshot taken",
    "snapshot loaded",
    "snapshot installed",
    "log cleaned",
    "damaged snapshot",
    "auto join",
)
"""Counted, but not drawn."""
