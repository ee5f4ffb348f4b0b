"""Names of all kinds of faults, by family: what a scenario may give a weight, and what the report counts.

A kind is counted when it happens, not when it is planned: an error of a disk when the disk gives it, an old Fetch
when it arrives. ``torn write`` has a weight of its own in no scenario: it comes with a loss of power.
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
)
CLOCK: Final = ("clock skew", "clock jump")
VERSION: Final = ("old version",)
LOUD_DISK: Final = ("read error", "write error", "fsync error", "disk full", "disk stalled")
SILENT_DISK: Final = ("bit flip", "lost write", "misdirected write", "wiped disk")
NETWORK: Final = (
    "isolated",
    "one-way cut",
    "split",
    "star",
    "flapping",
    "heal",
    "slow link",
    "delay",
    "lost frames",
    "duplicated request",
    "reordered frames",
    "old fetch",
)
KINDS: Final = (*PROCESS, *CLOCK, *VERSION, *LOUD_DISK, *SILENT_DISK, *NETWORK)
CONSEQUENCES: Final = ("torn write", "snapshot taken", "snapshot loaded", "snapshot installed", "log cleaned")
"""Counted, and not drawn."""
