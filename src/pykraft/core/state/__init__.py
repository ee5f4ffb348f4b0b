"""The six states of a replica, each with only its own fields. They are data; the rules are in ``core.on``."""

from __future__ import annotations

from typing import TypeAlias

from pykraft.core.state.candidate import Candidate
from pykraft.core.state.follower import Follower, SnapshotDownload
from pykraft.core.state.leader import Leader
from pykraft.core.state.prospective import Prospective
from pykraft.core.state.resigned import Resigned
from pykraft.core.state.unattached import Unattached

State: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned

__all__ = ["Candidate", "Follower", "Leader", "Prospective", "Resigned", "SnapshotDownload", "State", "Unattached"]
