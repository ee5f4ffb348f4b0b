"""Reads from a running node's ``quorum-state`` who leads.

Kafka and pykraft write this file in the same format and replace it as a whole.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from pykraft.local.child import Child, wait_until


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLeader:
    """Who leads, as one node knows it."""

    id: int
    epoch: int


def known_leader(partition: Path, *, after_epoch: int = -1) -> KnownLeader | None:
    """The leader in this partition directory; None when there is none, or only one of an epoch up to this."""
    try:
        state = json.loads((partition / "quorum-state").read_text())
    except FileNotFoundError:
        return None
    known = KnownLeader(id=state["leaderId"], epoch=state["leaderEpoch"])
    return known if known.id >= 0 and known.epoch > after_epoch else None


def wait_for_known_leader(partition: Path, process: Child, *, after_epoch: int = -1) -> KnownLeader:
    """Wait until the node knows a leader of an epoch after this one."""
    what = f"{process.name} to know a leader after epoch {after_epoch}"
    return wait_until(lambda: known_leader(partition, after_epoch=after_epoch), what, alive=[process])
