"""Who votes in a scenario: configured, or formatted into the nodes' disks, and later what the log says."""

from collections.abc import Iterable, Sequence

from pykraft import types
from pykraft.core.effects import PlannedBatch
from pykraft.core.messages import FetchedBatch
from pykraft.core.voter_history import BOOTSTRAP_OFFSET, VoterHistory


def directory_id(node_id: int, replaced: int = 0) -> types.Uuid:
    """Of the disk that a node begins with, or that came in its place."""
    return types.Uuid(bytes([node_id + 100]) * 15 + bytes([node_id + 100 + 50 * replaced]))


def voter(node_id: int, listeners: types.Listeners, kraft_version: int) -> types.Voter:
    """An entry of the configured set, or at level 1 of the set in the bootstrap checkpoint."""
    key = types.ReplicaKey(types.NodeId(node_id), directory_id(node_id) if kraft_version else None)
    return types.Voter(key=key, listeners=listeners, kraft_version=types.VersionRange(0, min(1, kraft_version)))


def voter_history(
    voters: types.VoterSet,
    batches: Iterable[FetchedBatch],
    *,
    kraft_version: int,
    is_formatted: bool,
    in_snapshot: Sequence[tuple[types.Offset, types.MembershipRecord]] = (),
) -> VoterHistory:
    """What a node with these batches, and perhaps a snapshot, on its disk knows of voters when it starts."""
    in_log = [*in_snapshot]
    end_offset = in_snapshot[-1][0] if in_snapshot else -1
    in_log += [entry for batch in batches for entry in batch.membership if entry[0] > end_offset]
    is_formatted = is_formatted and not in_snapshot
    if kraft_version == 0:
        return VoterHistory(voters, in_log)
    formatted: list[tuple[types.Offset, types.MembershipRecord]] = [
        (BOOTSTRAP_OFFSET, types.KRaftVersion(kraft_version)),
        (BOOTSTRAP_OFFSET, types.KRaftVoters(voters)),
    ]
    return VoterHistory(types.VoterSet(), [*(formatted if is_formatted else ()), *in_log])


def membership_in(batch: PlannedBatch) -> tuple[tuple[types.Offset, types.MembershipRecord], ...]:
    """What a leader's own batch says of voters."""
    records = enumerate(batch.control, batch.base_offset)
    return tuple(
        (types.Offset(at), record)
        for at, record in records
        if isinstance(record, types.KRaftVersion | types.KRaftVoters)
    )


def records_at(known: VoterHistory, offset: types.Offset) -> tuple[types.MembershipRecord, ...]:
    """What a snapshot whose last offset this is says of voters."""
    level, voters = known.kraft_version_at(offset), known.voters_at(offset)
    records: list[types.MembershipRecord] = [types.KRaftVersion(level)] if level else []
    return (*records, *(() if voters is None else (types.KRaftVoters(voters),)))
