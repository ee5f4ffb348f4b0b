"""Rules of what the members of consumer groups are told, whoever leads and whatever was restarted or replaced.

Source: KIP-62, KIP-345, KIP-848; ADR 230 and 231.
"""

from collections import defaultdict
from typing import NamedTuple

from pykraft.errors import ErrorCode
from pykraft.sim.facts.history import GroupCommit, GroupRead, Ownership
from pykraft.sim.invariants import invariant


class CommittedOffsetsStay(invariant.Invariant):
    """A member that takes over a partition goes on at a committed offset, and not before an acknowledged one.

    A commit without an answer may count or not, and may arrive after a later one of the same generation, over an older
    connection. What a later generation commits does not bind a member that does not know of it yet.

    Source: KIP-62; Kafka's ``OffsetMetadataManager``; ADR 230 (leaders that change, snapshots, images).
    """

    def _begin(self) -> None:
        self._asked: defaultdict[str, set[int]] = defaultdict(lambda: {0})
        """By group: all offsets that members ever sent, and where all begin."""
        self._open: defaultdict[tuple[str, int], list[GroupCommit]] = defaultdict(list)
        """By group and generation: commits without an answer."""
        self._acknowledged: dict[tuple[str, int], int] = {}
        """By group and generation: the greatest offset."""
        self._floors: dict[GroupRead, int] = {}

    def group_committed(self, commit: GroupCommit) -> None:
        key = (commit.group_id, commit.generation)
        if commit.error is None:
            self._asked[commit.group_id].add(commit.offset)
            self._open[key].append(commit)
            return
        self._open[key].remove(commit)
        if commit.error == ErrorCode.NONE:
            self._acknowledged[key] = max(commit.offset, self._acknowledged.get(key, 0))

    def group_read(self, read: GroupRead) -> None:
        if read.offset is None:
            self._floors[read] = self._floor(read)
            return
        floor = self._floors.pop(read)
        seen = f"a member of {read.group_id} in generation {read.generation} goes on at {read.offset}"
        if read.offset < floor:
            raise self.violated(f"{seen}, {floor} was acknowledged")
        if read.offset not in self._asked[read.group_id]:
            raise self.violated(f"{seen}, which no member has committed")

    def _floor(self, read: GroupRead) -> int:
        before = {key: end for key, end in self._acknowledged.items() if key[0] == read.group_id}
        floors = (
            min(end, *(each.offset for each in self._open[key]), end)
            for key, end in before.items()
            if key[1] <= read.generation
        )
        return max(floors, default=0)


class OneMemberOwns(invariant.Invariant):
    """In one generation of a group one member has the partition.

    Source: KIP-848 (a partition is given when nobody has it); Kafka's ``ConsumerCoordinator``; ADR 231.
    """

    def _begin(self) -> None:
        self._owners: dict[tuple[str, int], str] = {}

    def group_owned(self, owned: Ownership) -> None:
        owner = self._owners.setdefault((owned.group_id, owned.generation), owned.member)
        if owner != owned.member:
            seen = f"{owned.member} has the partition in generation {owned.generation} of {owned.group_id}"
            raise self.violated(f"{seen}, and so has {owner}")


class _Newest(NamedTuple):
    generation: int
    told_us: int


class FormerOwnersAreFenced(invariant.Invariant):
    """No commit of an older generation is acknowledged that was sent after another member had the partition.

    Source: KIP-62 (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID), KIP-848 (STALE_MEMBER_EPOCH).
    """

    def _begin(self) -> None:
        self._newest: dict[str, _Newest] = {}

    def group_owned(self, owned: Ownership) -> None:
        if owned.generation > self._newest.get(owned.group_id, _Newest(-1, 0)).generation:
            self._newest[owned.group_id] = _Newest(owned.generation, self.facts.clock.now_us)

    def group_committed(self, commit: GroupCommit) -> None:
        newest = self._newest.get(commit.group_id, _Newest(-1, 0))
        is_fenced = commit.generation < newest.generation and commit.asked_us > newest.told_us
        if commit.error == ErrorCode.NONE and is_fenced:
            seen = f"{commit.member} commits {commit.offset} in generation {commit.generation} of {commit.group_id}"
            raise self.violated(f"{seen}, which was in {newest.generation} by then")
