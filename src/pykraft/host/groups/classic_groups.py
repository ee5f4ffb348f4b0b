"""Groups of the classic protocol: their members, in the leader's memory, and who waits for a rebalance.

A group goes through these states, as in Kafka:

1. ``Empty``: it has no members.
2. ``PreparingRebalance``: members join. JoinGroup waits until all have, or the longest rebalance timeout is over; those
   that have not are members no more, unless they are static. A group that was empty waits a little for more members.
3. ``CompletingRebalance``: the next generation. One member, the group's leader, brings the assignment with SyncGroup;
   the others wait for it. The generation is written to the log before anyone gets it.
4. ``Stable``.

A member that sends nothing for its session timeout is removed, and so is one that does not come for its assignment. A
new leader of the quorum knows the generation and no members: they hear UNKNOWN_MEMBER_ID and join again.

What waits costs nothing: a heap has one entry for each deadline, and a deadline that has moved on is looked at when its
old time comes. Bounds: ``group.max.size`` members a group, MEMBERS_MAX of all, and MEMBERS_SIZE_BYTES_MAX of what they
have sent.

Source: Kafka's ``ClassicGroup`` and ``GroupMetadataManager``; KIP-134 (the first delay), KIP-345, KIP-394, KIP-559.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from random import Random
from typing import Final

from pykraft.config import NodeConfig
from pykraft.errors import ErrorCode
from pykraft.host.groups import group_table
from pykraft.host.groups.group_log import GroupLog
from pykraft.host.groups.group_table import KeptGroup
from pykraft.protocol.schema import Body

EMPTY: Final = "Empty"
PREPARING: Final = "PreparingRebalance"
COMPLETING: Final = "CompletingRebalance"
STABLE: Final = "Stable"
MEMBERS_MAX: Final = 10_000
"""Members of all groups, and as many that were given an id and have not joined yet."""
MEMBERS_SIZE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of the protocols and assignments of all members."""
STALE_MAX: Final = 1_000
"""Entries of the heap that count no more, beside as many as there are groups."""
KNOWN_ID_VERSION: Final = 4
"""The first version of JoinGroup whose new members come again with the id that they are given."""
SKIP_VERSION: Final = 9
"""The first version of JoinGroup whose answer may tell the group's leader that there is nothing to assign."""
MEMBERS_VERSION: Final = 3
"""The first version of LeaveGroup that names several members."""
OnReply = Callable[[Body], None]


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """One member; ``on_join`` and ``on_sync`` answer its waiting request."""

    id: str
    instance_id: str | None
    client_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    on_join: OnReply | None = None
    on_sync: OnReply | None = None
    deadline_ms: int = 0
    """When its session ends (mono ms), unless it waits."""

    @property
    def size_bytes(self) -> int:
        names = len(self.id) + len(self.instance_id or "") + len(self.client_id)
        return names + len(self.assignment) + sum(len(name) + len(data) for name, data in self.protocols)


@dataclass(slots=True, kw_only=True, eq=False)
class ClassicGroup:
    """One group that has members, or will have some soon."""

    id: str
    generation: int
    state: str = EMPTY
    protocol_type: str = ""
    protocol: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    """Ids that were given to new members, and until when they may join (mono ms)."""
    deadline_ms: int | None = None
    """When this state ends at the latest (mono ms)."""
    is_first: bool = False
    """True while a group that was empty waits for more members."""
    longest_ms: int = 0
    """Until when it may wait (mono ms)."""

    def static(self, instance_id: str | None) -> Member | None:
        found = (each for each in self.members.values() if each.instance_id == instance_id)
        return None if instance_id is None else next(found, None)

    def common_protocols(self, but: str | None = None) -> set[str] | None:
        """The protocols that all members offer, without that one; None: there are no others."""
        offers = [{name for name, _ in each.protocols} for each in self.members.values() if each.id != but]
        return set.intersection(*offers) if offers else None


class Deadlines:
    """When each group is to be looked at; one that moves to later is looked at when its old time comes."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._next: dict[str, int] = {}

    @property
    def next_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def push(self, group_id: str, ms: int) -> None:
        """Look at this group at this time (mono ms), unless that is to happen before."""
        if ms >= self._next.get(group_id, ms + 1):
            return
        self._next[group_id] = ms
        heappush(self._heap, (ms, group_id))
        if len(self._heap) > 2 * len(self._next) + STALE_MAX:
            self._heap = [(each_ms, each) for each, each_ms in self._next.items()]
            heapify(self._heap)

    def forget(self, group_id: str) -> None:
        self._next.pop(group_id, None)

    def pop_due(self, mono_ms: int) -> list[str]:
        """The groups to look at now; push the next time of each."""
        found: list[str] = []
        while self._heap and self._heap[0][0] <= mono_ms:
            ms, group_id = heappop(self._heap)
            if self._next.get(group_id) == ms:
                del self._next[group_id]
                found.append(group_id)
        return found


class ClassicGroups:
    """All groups of the classic protocol that have members, on the leader."""

    def __init__(self, log: GroupLog, config: NodeConfig, rng: Random) -> None:
        """``rng`` makes ids; they need not be secret, since whoever may join may ask for those of others."""
        self.groups: dict[str, ClassicGroup] = {}
        self._log = log
        self._rng = rng
        self._config = config
        self._deadlines = Deadlines()
        self._members = 0
        self._size_bytes = 0

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        return self._deadlines.next_ms

    def poll(self, mono_ms: int) -> None:
        """End sessions and states whose time is over."""
        for group_id in self._deadlines.pop_due(mono_ms):
            group = self.groups.get(group_id)
            if group is not None:
                self._expire(group, mono_ms)
                self._drop_if_empty(group)
                self._push_next(group)

    def lose(self) -> None:
        """This node leads no more: whoever waits asks the next leader."""
        groups, self.groups = self.groups, {}
        self._deadlines = Deadlines()
        self._members = self._size_bytes = 0
        for group in groups.values():
            for member in group.members.values():
                _refuse_waiting(member, ErrorCode.NOT_COORDINATOR)

    def check(self, group: ClassicGroup | None, body: Body, generation: int | None) -> ErrorCode:
        """Whether a request comes from a member, in this generation unless that is None."""
        member_id, instance_id = body["member_id"], body["group_instance_id"]
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if instance_id is not None:
            static = group.static(instance_id)
            if static is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if static.id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in group.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_other = generation is not None and generation != group.generation
        return ErrorCode.ILLEGAL_GENERATION if is_other else ErrorCode.NONE

    def check_commit(self, group: ClassicGroup, body: Body) -> ErrorCode:
        """Whether a group with members takes a commit; it counts as a heartbeat."""
        code = self.check(group, body, body["generation_id_or_member_epoch"])
        if not code and group.state == COMPLETING:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if not code:
            self._renew(group.members[body["member_id"]])
        return code

    def join(self, body: Body, version: int, client_id: str, reply: OnReply) -> None:
        """Answer JoinGroup, now or when the rebalance is over."""
        code = self._join_problem(body)
        if code:
            reply(not_joined(code, body["member_id"], version))
            return
        group_id: str = body["group_id"]
        group = self.groups.get(group_id)
        if group is None:
            kept = self._log.table.groups.get(group_id, group_table.NO_GROUP)
            group = self.groups[group_id] = ClassicGroup(id=group_id, generation=kept.generation)

        def answer(told: Body) -> None:
            reply(not_joined(ErrorCode.NONE, "", version) | told)

        code, member_id = self._join(group, body, version, client_id, answer)
        if code:
            answer({"error_code": code, "member_id": member_id})
        self._drop_if_empty(group)
        self._push_next(group)

    def sync(self, body: Body, reply: OnReply) -> None:
        """Answer SyncGroup, now or when the group's leader has brought the assignment."""
        group = self.groups.get(body["group_id"])
        code = self.check(group, body, body["generation_id"])
        if not code and group is not None:
            asked = ((body["protocol_type"], group.protocol_type), (body["protocol_name"], group.protocol))
            if any(told is not None and told != known for told, known in asked):
                code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            elif group.state == PREPARING:
                code = ErrorCode.REBALANCE_IN_PROGRESS
        if code or group is None:
            reply({"error_code": code})
            return
        member = group.members[body["member_id"]]
        if group.state == STABLE:
            self._renew(member)
            reply(_assignment(group, member))
            return
        if member.on_sync is not None:
            member.on_sync({"error_code": ErrorCode.REBALANCE_IN_PROGRESS})
        member.on_sync = reply
        if member.id == group.leader_id:
            found = {each["member_id"]: bytes(each["assignment"]) for each in body["assignments"]}
            self._write_generation(group, found)

    def heartbeat(self, body: Body) -> ErrorCode:
        group = self.groups.get(body["group_id"])
        code = self.check(group, body, body["generation_id"])
        if code or group is None:
            return code
        self._renew(group.members[body["member_id"]])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state == PREPARING else ErrorCode.NONE

    def leave(self, group_id: str, asked: Body) -> ErrorCode:
        """Remove one member, which an operator may name by its instance id alone."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id: str = asked["member_id"]
        if group.pending.pop(member_id, None) is not None:
            self._members -= 1
            self._pending_changed(group)
            return ErrorCode.NONE
        static = group.static(asked["group_instance_id"])
        if not member_id and static is not None:
            member_id = static.id
        code = self.check(group, {**asked, "member_id": member_id}, None)
        if not code:
            self._remove(group, group.members[member_id])
            self._member_left(group)
        return code

    def _join_problem(self, body: Body) -> ErrorCode:
        config = self._config
        if not body["group_id"]:
            return ErrorCode.INVALID_GROUP_ID
        least, most = config.group_session_timeout_ms_min, config.group_session_timeout_ms_max
        if not least <= body["session_timeout_ms"] <= most:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not body["protocol_type"] or not body["protocols"]:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        size_bytes = sum(len(each["metadata"]) for each in body["protocols"])
        if self._members >= MEMBERS_MAX or self._size_bytes + size_bytes > MEMBERS_SIZE_BYTES_MAX:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE

    def _join(
        self, group: ClassicGroup, body: Body, version: int, client_id: str, reply: OnReply
    ) -> tuple[ErrorCode, str]:
        """Returns NONE if the request is answered, now or later; else the error, and the id that goes with it."""
        member_id, instance_id = body["member_id"], body["group_instance_id"]
        protocols = [(each["name"], bytes(each["metadata"])) for each in body["protocols"]]
        known = group.members.get(member_id)
        common = group.common_protocols(but=None if known is None else known.id)
        is_other_type = bool(group.members) and body["protocol_type"] != group.protocol_type
        if is_other_type or (common is not None and not common & {name for name, _ in protocols}):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id
        static = group.static(instance_id)
        if member_id and known is None and member_id not in group.pending:
            return (ErrorCode.UNKNOWN_MEMBER_ID if static is None else ErrorCode.FENCED_INSTANCE_ID), member_id
        if known is not None:
            if static is not None and static is not known:
                return ErrorCode.FENCED_INSTANCE_ID, member_id
            self._join_again(group, known, body, protocols, reply)
            return ErrorCode.NONE, member_id
        is_full = len(group.members) + len(group.pending) >= self._config.group_members_max
        if is_full and member_id not in group.pending and static is None:
            return ErrorCode.GROUP_MAX_SIZE_REACHED, member_id
        new_id = member_id or f"{instance_id or client_id}-{self._rng.getrandbits(128):032x}"
        if instance_id is None and not member_id and version >= KNOWN_ID_VERSION:
            group.pending[new_id] = self._log.now.mono_ms + body["session_timeout_ms"]
            self._members += 1
            return ErrorCode.MEMBER_ID_REQUIRED, new_id
        member = Member(
            id=new_id,
            instance_id=instance_id,
            client_id=client_id,
            session_timeout_ms=body["session_timeout_ms"],
            rebalance_timeout_ms=max(0, body["rebalance_timeout_ms"]) or body["session_timeout_ms"],
            protocols=protocols,
        )
        if group.pending.pop(new_id, None) is not None:
            self._members -= 1
        if static is not None:
            self._replace_static(group, static, member, version, reply)
        else:
            self._add(group, member, body["protocol_type"])
            member.on_join = reply
            self._prepare(group, is_new=True)
        return ErrorCode.NONE, new_id

    def _join_again(
        self, group: ClassicGroup, member: Member, body: Body, protocols: list[tuple[str, bytes]], reply: OnReply
    ) -> None:
        is_same = protocols == member.protocols
        is_current = group.state == COMPLETING or (group.state == STABLE and member.id != group.leader_id)
        self._size_bytes -= member.size_bytes
        member.protocols = protocols
        self._size_bytes += member.size_bytes
        member.session_timeout_ms = body["session_timeout_ms"]
        member.rebalance_timeout_ms = max(0, body["rebalance_timeout_ms"]) or body["session_timeout_ms"]
        self._renew(member)
        if is_same and is_current:
            # It missed the answer, or only wants to know that it still is a member.
            reply(self._joined(group, member))
            return
        if member.on_join is not None:
            member.on_join({"error_code": ErrorCode.REBALANCE_IN_PROGRESS, "member_id": member.id})
        member.on_join = reply
        self._prepare(group)

    def _replace_static(self, group: ClassicGroup, old: Member, member: Member, version: int, reply: OnReply) -> None:
        """A static member was started again: the same protocols need no rebalance."""
        is_same = old.protocols == member.protocols
        member.assignment = old.assignment
        was_leader = group.leader_id == old.id
        _refuse_waiting(old, ErrorCode.FENCED_INSTANCE_ID)
        self._forget(group, old)
        self._add(group, member, group.protocol_type)
        if was_leader:
            group.leader_id = member.id
        if group.state == STABLE and is_same and (not was_leader or version >= SKIP_VERSION):
            told = self._joined(group, member)
            reply({**told, "skip_assignment": True} if was_leader else told)
            return
        member.on_join = reply
        self._prepare(group)

    def _prepare(self, group: ClassicGroup, *, is_new: bool = False) -> None:
        """Step 2, unless it is under way."""
        now_ms = self._log.now.mono_ms
        longest_ms = max(each.rebalance_timeout_ms for each in group.members.values())
        delay_ms = self._config.group_initial_delay_ms
        if group.state == EMPTY and delay_ms:
            group.is_first, group.longest_ms = True, now_ms + longest_ms
            group.deadline_ms = now_ms + min(delay_ms, longest_ms)
        elif group.state == PREPARING and group.is_first and is_new:
            group.deadline_ms = min(now_ms + delay_ms, group.longest_ms)
        elif group.state != PREPARING:
            group.deadline_ms = now_ms + longest_ms
        if group.state == COMPLETING:
            for member in group.members.values():
                _refuse_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
        group.state = PREPARING
        self._complete_if_all_joined(group)

    def _complete_if_all_joined(self, group: ClassicGroup) -> None:
        all_joined = all(each.on_join is not None for each in group.members.values())
        if group.state == PREPARING and not group.is_first and all_joined and not group.pending:
            self._complete(group)

    def _complete(self, group: ClassicGroup) -> None:
        """Step 3."""
        group.is_first, group.deadline_ms = False, None
        for member in list(group.members.values()):
            if member.on_join is None and member.instance_id is None:
                self._remove(group, member)
        joined = [each for each in group.members.values() if each.on_join is not None]
        if not joined:
            # Only static members are left: they may come, until their sessions end.
            self._end_if_empty(group)
            if group.members:
                group.deadline_ms = self._log.now.mono_ms + max(m.rebalance_timeout_ms for m in group.members.values())
            return
        group.generation += 1
        group.state = COMPLETING
        group.protocol = self._chosen_protocol(group)
        if group.leader_id not in {each.id for each in joined}:
            group.leader_id = joined[0].id
        group.deadline_ms = self._log.now.mono_ms + max(each.rebalance_timeout_ms for each in joined)
        for member in joined:
            on_join, member.on_join = member.on_join, None
            self._renew(member)
            assert on_join is not None, "it waits"
            on_join(self._joined(group, member))

    def _chosen_protocol(self, group: ClassicGroup) -> str:
        common = group.common_protocols() or set()
        first = (next(name for name, _ in each.protocols if name in common) for each in group.members.values())
        return Counter(first).most_common(1)[0][0]

    def _joined(self, group: ClassicGroup, member: Member) -> Body:
        is_leader = member.id == group.leader_id
        return {
            "error_code": ErrorCode.NONE,
            "generation_id": group.generation,
            "protocol_type": group.protocol_type,
            "protocol_name": group.protocol,
            "leader": group.leader_id,
            "member_id": member.id,
            "members": list(_member_rows(group)) if is_leader else [],
        }

    def _write_generation(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """The assignment has come: step 4, once the generation is in the log."""
        generation = group.generation

        def written(code: ErrorCode) -> None:
            if self.groups.get(group.id) is not group or (group.state, group.generation) != (COMPLETING, generation):
                return
            if code:
                for member in group.members.values():
                    _refuse_sync(member, code)
                self._prepare(group)
                self._push_next(group)
                return
            group.state, group.deadline_ms = STABLE, None
            for member in group.members.values():
                self._size_bytes -= member.size_bytes
                member.assignment = assignments.get(member.id, b"")
                self._size_bytes += member.size_bytes
                on_sync, member.on_sync = member.on_sync, None
                self._renew(member)
                if on_sync is not None:
                    on_sync(_assignment(group, member))
            self._push_next(group)

        self._log.write(group_table.changed_group(group.id, _kept(group)), written)

    def _pending_changed(self, group: ClassicGroup) -> None:
        """Somebody who was given an id will not join: no rebalance waits for that."""
        self._complete_if_all_joined(group)
        self._drop_if_empty(group)
        self._push_next(group)

    def _member_left(self, group: ClassicGroup) -> None:
        self._end_if_empty(group)
        if group.members and group.state in (STABLE, COMPLETING):
            self._prepare(group)
        else:
            self._complete_if_all_joined(group)
        self._drop_if_empty(group)
        self._push_next(group)

    def _end_if_empty(self, group: ClassicGroup) -> None:
        """Step 1 again: note in the log since when nobody is there."""
        if group.members or group.state == EMPTY:
            return
        group.generation += 1
        group.state, group.protocol, group.leader_id, group.deadline_ms = EMPTY, None, None, None
        group.is_first = False
        kept = _kept(group)
        kept.empty_since_ms = self._log.now.wall_ms
        self._log.write(group_table.changed_group(group.id, kept), lambda _: None)

    def _drop_if_empty(self, group: ClassicGroup) -> None:
        if not group.members and not group.pending and group.state == EMPTY:
            self.groups.pop(group.id, None)
            self._deadlines.forget(group.id)

    def _expire(self, group: ClassicGroup, mono_ms: int) -> None:
        for member_id in [each for each, until_ms in group.pending.items() if until_ms <= mono_ms]:
            del group.pending[member_id]
            self._members -= 1
        is_over = group.deadline_ms is not None and group.deadline_ms <= mono_ms
        if is_over and group.state == PREPARING:
            self._complete(group)
            return
        has_lost = False
        for member in list(group.members.values()):
            is_late = is_over and group.state == COMPLETING and member.on_sync is None
            if is_late or (member.deadline_ms <= mono_ms and member.on_join is None and member.on_sync is None):
                self._remove(group, member)
                has_lost = True
        if is_over and group.state == COMPLETING and not has_lost:
            # All wait for an assignment that the log did not take in time.
            self._prepare(group)
        if has_lost:
            self._member_left(group)
        else:
            self._pending_changed(group)

    def _add(self, group: ClassicGroup, member: Member, protocol_type: str) -> None:
        group.protocol_type = protocol_type
        group.members[member.id] = member
        self._members += 1
        self._size_bytes += member.size_bytes
        self._renew(member)

    def _remove(self, group: ClassicGroup, member: Member) -> None:
        _refuse_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self._forget(group, member)
        if group.leader_id == member.id:
            group.leader_id = None

    def _forget(self, group: ClassicGroup, member: Member) -> None:
        del group.members[member.id]
        self._members -= 1
        self._size_bytes -= member.size_bytes

    def _renew(self, member: Member) -> None:
        member.deadline_ms = self._log.now.mono_ms + member.session_timeout_ms

    def _push_next(self, group: ClassicGroup) -> None:
        """Look at the group again when the first of its deadlines may be over."""
        if self.groups.get(group.id) is not group:
            return
        waits = (each.deadline_ms for each in group.members.values() if each.on_join is None and each.on_sync is None)
        own = () if group.deadline_ms is None else (group.deadline_ms,)
        next_ms = min((*waits, *group.pending.values(), *own), default=None)
        if next_ms is not None:
            self._deadlines.push(group.id, next_ms)


def _kept(group: ClassicGroup) -> KeptGroup:
    return KeptGroup(generation=group.generation, protocol_type=group.protocol_type, protocol=group.protocol)


def _member_rows(group: ClassicGroup) -> Iterator[Body]:
    for each in group.members.values():
        metadata = next((data for name, data in each.protocols if name == group.protocol), b"")
        yield {"member_id": each.id, "group_instance_id": each.instance_id, "metadata": metadata}


def described_members(group: ClassicGroup) -> Sequence[Body]:
    """The rows of DescribeGroups; nobody knows from which host a member comes."""
    metadata = {row["member_id"]: row["metadata"] for row in _member_rows(group)}
    is_stable = group.state == STABLE
    return [
        {
            "member_id": each.id,
            "group_instance_id": each.instance_id,
            "client_id": each.client_id,
            "client_host": "",
            "member_metadata": metadata[each.id] if is_stable else b"",
            "member_assignment": each.assignment if is_stable else b"",
        }
        for each in group.members.values()
    ]


def _assignment(group: ClassicGroup, member: Member) -> Body:
    return {
        "error_code": ErrorCode.NONE,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "assignment": member.assignment,
    }


def not_joined(code: ErrorCode, member_id: str, version: int) -> Body:
    """The answer to a JoinGroup that is refused; null as the name of no protocol came with version 7."""
    return {"error_code": code, "member_id": member_id, "protocol_name": None if version >= 7 else ""}


def _refuse_sync(member: Member, code: ErrorCode) -> None:
    on_sync, member.on_sync = member.on_sync, None
    if on_sync is not None:
        on_sync({"error_code": code})


def _refuse_waiting(member: Member, code: ErrorCode) -> None:
    _refuse_sync(member, code)
    on_join, member.on_join = member.on_join, None
    if on_join is not None:
        on_join({"error_code": code, "member_id": member.id})
