"""Bugs of damaged logs: a node that lost part of its log votes, leads, or forgets what it lost."""

from __future__ import annotations

from typing import Any

from pykraft.core.effects import LeaveQuarantine
from pykraft.core.messages import FetchResponse, VoteRequest
from pykraft.core.on import corruption, fetch_response, vote
from pykraft.core.replica import Replica
from pykraft.host import open as host_open
from pykraft.log import judge, segment
from pykraft.log.scan import scan_headers
from pykraft.log.segment import SegmentView
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.protocol.batch import BatchHeader, scan
from pykraft.types import Buffer, Offset
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def damaged_nodes_vote(patch: Patch) -> None:
    """A node that lost part of its log grants votes, and compares candidates with what is left of its log."""
    for name in ("would_grant_vote", "would_grant_pre_vote"):
        rule = vars(vote)[name]

        def blind(replica: Replica, message: VoteRequest, rule: Any = rule) -> bool:
            known, replica.log.quarantine = replica.log.quarantine, None
            granted: bool = rule(replica, message)
            replica.log.quarantine = known
            return granted

        patch.setattr(vote, name, blind)


def damaged_leader_leads_on(patch: Patch) -> None:
    """A leader that finds damage in its log stays leader."""
    patch.setattr(corruption, "_stand_down", lambda replica, now: None)


def damaged_node_comes_back_at_once(patch: Patch) -> None:
    """A node that lost part of its log leaves quarantine at the first answer of a leader."""

    def leave(replica: Replica, answer: FetchResponse) -> None:
        del answer
        if replica.log.quarantine is not None:
            corruption.cut_damage(replica)
            replica.log.quarantine = None
            replica.outbox.add(LeaveQuarantine(io=replica.outbox.next_log_io()))

    patch.setattr(fetch_response, "leave_if_whole", leave)


def damage_is_not_noted(patch: Patch) -> None:
    """A node does not write the file ``quarantine``: if it restarts before it is whole, it has forgotten the damage."""
    patch.setattr(QuarantineFile, "write", lambda file, quarantine: None)
    patch.setattr(QuarantineFile, "remove", lambda file: None)


def log_starts_where_its_first_segment_begins(patch: Patch) -> None:
    """A node whose damaged log has nothing left asks for what follows its first segment's offset, without an epoch."""
    patch.setattr(host_open, "_start_offset", lambda log, snapshots: log.start_offset)


def checkpoint_above_the_point_says_nothing(patch: Patch) -> None:
    """Recovery believes any epoch above the recovery point, though the epoch checkpoint has another one there."""
    patch.setattr(judge, "_may_lag", lambda evidence, entries, at, header: True)


def damage_is_served(patch: Patch) -> None:
    """A node sends what it reads from a file to followers and listeners without verifying checksums."""

    def blind(buffer: Buffer) -> Any:
        return scan(buffer, verify_crc=False)

    patch.setattr(segment, "scan", blind)


def changed_offsets_are_believed(patch: Patch) -> None:
    """A node takes the first batch that seems to contain an offset, though a bit of that batch's offset has flipped."""

    def find(view: SegmentView, offset: Offset) -> tuple[int, BatchHeader]:
        start, _ = view.lookup.entry_before(offset - view.base_offset)
        headers = scan_headers(view.path, view.file, start, view.size_bytes)
        position, header = next(found for found in headers if found[1].end_offset > offset)
        if header.base_offset > offset:
            raise vars(SegmentView)["_corruption"](view, position, f"offset {offset}", f"offset {header.base_offset}")
        return position, header

    patch.setattr(SegmentView, "find", find)


MUTANTS = (
    Mutant(
        plant=damaged_nodes_vote,
        source="Protocol-Aware Recovery (FAST 2018): a voter that deletes its log",
        scenario="silent",
    ),
    Mutant(plant=damaged_leader_leads_on, source="Protocol-Aware Recovery (FAST 2018)", scenario="silent"),
    Mutant(
        plant=damaged_node_comes_back_at_once,
        source="Protocol-Aware Recovery (FAST 2018): a log that is cut at the damage, and votes",
        scenario="silent",
    ),
    Mutant(
        plant=damage_is_not_noted,
        source="ours, almost: the epoch of the damage was first in memory only",
        scenario="silent",
    ),
    Mutant(
        plant=log_starts_where_its_first_segment_begins,
        source="ours, until a campaign found it: a sector was lost in the first batch that a snapshot had left",
        scenario="left",
    ),
    Mutant(
        plant=checkpoint_above_the_point_says_nothing,
        source="ours, until a campaign found it: a bit had flipped in the last batch of epoch 1, before 3",
        scenario="all_before_forgers",
    ),
    Mutant(
        plant=damage_is_served,
        source="Redundancy Does Not Imply Fault Tolerance (FAST 2017): damage that spreads to other nodes",
        scenario="served",
    ),
    Mutant(
        plant=changed_offsets_are_believed,
        source="ours, until a world of all noticed it",
        scenario="changed_offsets",
    ),
)
