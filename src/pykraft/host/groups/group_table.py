"""The state of all consumer groups, as the records in the log make it: offsets, generations, protocols.

It is a deterministic state machine: whoever applies the same batches has the same state. Invariant: a batch changes
nothing but what its records name, and a whole image replaces everything.

Source: Kafka's ``OffsetMetadataManager`` and ``GroupMetadataManager``, whose records are in ``__consumer_offsets``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pykraft.protocol.control import encode_group_state
from pykraft.protocol.schema import Body

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The type of a group whose members use the protocol of KIP-848."""
NO_OFFSET: Final = -1
NEVER_MS: Final = -1
Partition: TypeAlias = tuple[str, int]
"""A topic's name, and the index of its partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """How far a group has read a partition; the time of the commit in wall ms."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int

    @classmethod
    def of(cls, row: Body) -> CommittedOffset:
        return cls(
            offset=row["offset"],
            leader_epoch=row["leader_epoch"],
            metadata=row["metadata"],
            commit_ms=row["commit_timestamp"],
        )


@dataclass(slots=True, kw_only=True)
class KeptGroup:
    """One group. ``generation`` is the group's epoch in the protocol of KIP-848.

    ``protocol_type`` is empty for a group that only commits offsets. ``empty_since_ms`` is the time at which the last
    member left (wall ms), `NEVER_MS` while there are members.
    """

    type: str = CLASSIC
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    empty_since_ms: int = NEVER_MS
    offsets: dict[Partition, CommittedOffset] = field(default_factory=dict)


NO_GROUP: Final = KeptGroup()
"""What is known of a group that does not exist; never changed."""


def changed_offsets(group_id: str, offsets: Mapping[Partition, CommittedOffset | None]) -> bytes:
    """The record by which these offsets of a group change; None removes one."""
    rows = [
        {"topic": topic, "partition": index, "offset": NO_OFFSET, "leader_epoch": -1, "commit_timestamp": NEVER_MS}
        | ({} if each is None else _row(each))
        for (topic, index), each in offsets.items()
    ]
    return _record(group_id, offsets=[{"metadata": "", **row} for row in rows])


def changed_group(group_id: str, group: KeptGroup, *, with_offsets: bool = False) -> bytes:
    """The record by which a group gets everything but its offsets from this one, or those, too."""
    offsets = [
        {"topic": topic, "partition": index, **_row(each)}
        for (topic, index), each in (group.offsets.items() if with_offsets else ())
    ]
    return _record(
        group_id,
        type=group.type,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        empty_since=group.empty_since_ms,
        offsets=offsets,
    )


def deleted_group(group_id: str) -> bytes:
    """The record by which a group is gone, with its offsets."""
    return _record(group_id, is_deleted=True)


def _record(group_id: str, **changes: object) -> bytes:
    body: Body = {
        "group_id": group_id,
        "is_deleted": False,
        "type": None,
        "generation": 0,
        "protocol_type": "",
        "protocol": None,
        "empty_since": NEVER_MS,
        "offsets": [],
    }
    return encode_group_state(body | changes)


def _row(each: CommittedOffset) -> Body:
    return {
        "offset": each.offset,
        "leader_epoch": each.leader_epoch,
        "metadata": each.metadata,
        "commit_timestamp": each.commit_ms,
    }


class GroupTable:
    """The groups by id."""

    def __init__(self) -> None:
        self.groups: dict[str, KeptGroup] = {}
        self.size_bytes = 0
        """Characters of ids and metadata: what clients can make large."""

    def apply(self, record: Body) -> None:
        """Apply one GroupState record."""
        group_id: str = record["group_id"]
        known = self.groups.get(group_id)
        if known is not None:
            self.size_bytes -= _size_bytes(group_id, known)
        if record["is_deleted"]:
            self.groups.pop(group_id, None)
            return
        group = self.groups.setdefault(group_id, KeptGroup())
        if record["type"] is not None:
            group.type, group.generation = record["type"], record["generation"]
            group.protocol_type, group.protocol = record["protocol_type"], record["protocol"]
            group.empty_since_ms = record["empty_since"]
        for row in record["offsets"]:
            place = (row["topic"], row["partition"])
            if row["offset"] == NO_OFFSET:
                group.offsets.pop(place, None)
            else:
                group.offsets[place] = CommittedOffset.of(row)
        self.size_bytes += _size_bytes(group_id, group)

    def image(self) -> Iterator[bytes]:
        """Records that make this state of none; at least one, which changes nothing."""
        yield deleted_group("")
        for group_id, group in self.groups.items():
            yield changed_group(group_id, group, with_offsets=True)


def _size_bytes(group_id: str, group: KeptGroup) -> int:
    return len(group_id) + sum(len(topic) + len(each.metadata) for (topic, _), each in group.offsets.items())
