"""Groups of the protocol of KIP-848: the leader assigns, and members say in heartbeats what they have.

A topic of a quorum has one partition, so an assignment says which topics a member reads. What happens:

1. A member joins, leaves, is lost, or subscribes to something else. The group's epoch rises, which is written first.
2. Each topic is assigned: to the member that has it while that one subscribes to it, else to the one that has been a
   member for the longest time.
3. A member that has a topic which is another's now hears so under its old epoch, and must give it up within its
   rebalance timeout. It gets the group's epoch when a heartbeat says that it did.
4. A topic is given to the member that it is assigned to as soon as nobody has it.

So two members never have one topic, unless one does not know yet that its session is over; and that one cannot commit.
Members are in the memory of the leader: those of an earlier one hear UNKNOWN_MEMBER_ID and join again, under a later
epoch (ADR 231). Bounds are those of classic groups.

Source: KIP-848, KIP-1082; Kafka's ``ConsumerGroup``, ``CurrentAssignmentBuilder`` and ``GroupMetadataManager``.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from pykraft.config import NodeConfig
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.clients.topics import ClientTopics
from pykraft.host.groups import group_table
from pykraft.host.groups.classic_groups import MEMBERS_MAX, MEMBERS_SIZE_BYTES_MAX, Deadlines, OnReply
from pykraft.host.groups.group_log import GroupLog
from pykraft.host.groups.group_table import KeptGroup
from pykraft.protocol.schema import Body

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2
"""A static member that will come back."""
ASSIGNORS: Final = (None, "", "uniform", "range")
"""With one partition they are the same."""
OWN_ID_VERSION: Final = 1
"""The first version of ConsumerGroupHeartbeat whose members make their ids themselves."""
STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable")
MEMBER_TYPE: Final = 1


@dataclass(slots=True, kw_only=True, eq=False)
class ConsumerMember:
    """One member; ``topics`` are those that it subscribes to, ``held`` those that it has, or has not given up yet."""

    id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    rebalance_timeout_ms: int
    topics: frozenset[str]
    epoch: int = JOINS
    previous_epoch: int = JOINS
    held: set[str] = field(default_factory=set)
    deadline_ms: int = 0
    """When its session ends (mono ms)."""
    revoke_ms: int | None = None
    """Until when it must have given up what is another's (mono ms)."""

    @property
    def size_bytes(self) -> int:
        return sum(len(each or "") for each in (self.id, self.instance_id, self.rack_id, self.client_id))


@dataclass(slots=True, kw_only=True, eq=False)
class ConsumerGroup:
    """One group with members; ``epoch`` is in the log, ``assigned`` are the members by topic."""

    id: str
    epoch: int
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    assigned: dict[str, ConsumerMember] = field(default_factory=dict)
    is_writing: bool = False
    is_changed: bool = False
    """Something has changed since the epoch that is being written."""
    waiting: list[Callable[[ErrorCode], None]] = field(default_factory=list)
    """Whoever waits for the next epoch that is written."""

    def static(self, instance_id: str | None) -> ConsumerMember | None:
        found = (each for each in self.members.values() if each.instance_id == instance_id)
        return None if instance_id is None else next(found, None)

    def target(self, member: ConsumerMember) -> set[str]:
        return {topic for topic, owner in self.assigned.items() if owner is member}

    @property
    def state(self) -> str:
        if not self.members:
            return STATES[0]
        if self.is_writing:
            return STATES[1]
        is_settled = all(m.epoch == self.epoch and m.held == self.target(m) for m in self.members.values())
        return STATES[3] if is_settled else STATES[2]


class ConsumerGroups:
    """All groups of this protocol that have members, on the leader."""

    def __init__(self, log: GroupLog, topics: ClientTopics, rng: Random) -> None:
        """``rng`` makes ids, as in `ClassicGroups`."""
        self.groups: dict[str, ConsumerGroup] = {}
        self._log = log
        self._rng = rng
        self._topics = topics
        self._config: NodeConfig = topics.config
        self._deadlines = Deadlines()
        self._members = 0
        self._size_bytes = 0

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        return self._deadlines.next_ms

    def poll(self, mono_ms: int) -> None:
        """Remove members whose session, or time to give something up, is over."""
        for group_id in self._deadlines.pop_due(mono_ms):
            group = self.groups.get(group_id)
            if group is None:
                continue
            late = [
                each
                for each in group.members.values()
                if each.deadline_ms <= mono_ms or (each.revoke_ms is not None and each.revoke_ms <= mono_ms)
            ]
            for member in late:
                self._remove(group, member)
            if late:
                self._change(group)
            self._look_again(group)

    def lose(self) -> None:
        """This node leads no more: whoever waits asks the next leader."""
        groups, self.groups = self.groups, {}
        self._deadlines = Deadlines()
        self._members = self._size_bytes = 0
        for group in groups.values():
            for answer in group.waiting:
                answer(ErrorCode.NOT_COORDINATOR)

    def check(self, group: ConsumerGroup, member_id: str, epoch: int) -> ErrorCode:
        """Whether a commit, or a question for offsets, comes from a member that knows its epoch."""
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def heartbeat(self, body: Body, version: int, client_id: str, reply: OnReply) -> None:
        """Answer ConsumerGroupHeartbeat, now or when the epoch that it causes is written."""
        try:
            _check_request(body, version)
            if body["member_epoch"] in (LEAVES, LEAVES_FOR_A_WHILE):
                self._leave(body, reply)
            elif body["member_epoch"] == JOINS:
                self._join(body, client_id, reply)
            else:
                self._beat(body, reply)
        except ProtocolError as error:
            reply({"error_code": error.code, "error_message": str(error), "member_epoch": body["member_epoch"]})

    def described(self, group_id: str) -> Body | None:
        """A row of ConsumerGroupDescribe; None if there is no such group."""
        group, kept = self.groups.get(group_id), self._log.table.groups.get(group_id)
        if group is None and (kept is None or kept.type != group_table.CONSUMER):
            return None
        found = group or ConsumerGroup(id=group_id, epoch=(kept or group_table.NO_GROUP).generation)
        return {
            "group_state": found.state,
            "group_epoch": found.epoch,
            "assignment_epoch": found.epoch,
            "assignor_name": "uniform",
            "members": [self._member_row(found, each) for each in found.members.values()],
        }

    def _member_row(self, group: ConsumerGroup, member: ConsumerMember) -> Body:
        return {
            "member_id": member.id,
            "instance_id": member.instance_id,
            "rack_id": member.rack_id,
            "member_epoch": member.epoch,
            "client_id": member.client_id,
            "client_host": "",
            "subscribed_topic_names": sorted(member.topics),
            "assignment": self._assignment(member.held, with_names=True),
            "target_assignment": self._assignment(group.target(member), with_names=True),
            "member_type": MEMBER_TYPE,
        }

    def _assignment(self, topics: Iterable[str], *, with_names: bool = False) -> Body:
        rows: list[Body] = []
        for name in sorted(topics):
            row: Body = {"topic_id": self._topics.ids[name], "partitions": [0]}
            rows.append({**row, "topic_name": name} if with_names else row)
        return {"topic_partitions": rows}

    def _join(self, body: Body, client_id: str, reply: OnReply) -> None:
        group_id: str = body["group_id"]
        group = self.groups.get(group_id)
        if group is None:
            kept = self._log.table.groups.get(group_id, group_table.NO_GROUP)
            group = ConsumerGroup(id=group_id, epoch=kept.generation)
        member_id, instance_id = body["member_id"] or f"{self._rng.getrandbits(128):032x}", body["instance_id"]
        known, static = group.members.get(member_id), group.static(instance_id)
        if static is not None and static is not known:
            if static.epoch != LEAVES_FOR_A_WHILE:
                raise ProtocolError("a member has this instance id", ErrorCode.UNRELEASED_INSTANCE_ID)
        elif known is None and len(group.members) >= self._config.group_members_max:
            raise ProtocolError("the group has as many members as it may have", ErrorCode.GROUP_MAX_SIZE_REACHED)
        member = ConsumerMember(
            id=member_id,
            instance_id=instance_id,
            rack_id=body["rack_id"],
            client_id=client_id,
            rebalance_timeout_ms=body["rebalance_timeout_ms"],
            topics=self._known(body["subscribed_topic_names"]),
        )
        if self._members >= MEMBERS_MAX or self._size_bytes + member.size_bytes > MEMBERS_SIZE_BYTES_MAX:
            raise ProtocolError("there are too many members", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.groups[group_id] = group
        before = known or static
        if before is not None:
            # It has begun anew, so it has nothing; what was assigned to it stays its own.
            self._forget(group, before)
            group.assigned |= dict.fromkeys(group.target(before), member)
        group.members[member_id] = member
        self._members += 1
        self._size_bytes += member.size_bytes
        self._renew(group, member)
        self._change(group, lambda code: self._answer(group, member, code, reply, is_whole=True))

    def _leave(self, body: Body, reply: OnReply) -> None:
        group, member = self._member(body)
        if body["member_epoch"] == LEAVES_FOR_A_WHILE:
            if member.instance_id is None:
                raise ProtocolError("only a static member comes back", ErrorCode.INVALID_REQUEST)
            # It has given up everything, and it is assigned the same when it comes back.
            member.held.clear()
            member.epoch = LEAVES_FOR_A_WHILE
        else:
            self._remove(group, member)
            self._change(group)
        reply({"member_id": member.id, "member_epoch": body["member_epoch"]})

    def _beat(self, body: Body, reply: OnReply) -> None:
        group, member = self._member(body)
        if group.is_changed:
            # The log did not take the epoch.
            self._change(group)
        epoch, has = body["member_epoch"], body["topic_partitions"]
        told = None if has is None else {self._topics.name_of(each["topic_id"]) for each in has if each["partitions"]}
        if epoch != member.epoch:
            # The answer with its new epoch was lost: it tries again, and has no more than it had.
            is_repeat = epoch == member.previous_epoch and told is not None and told <= member.held
            if not is_repeat:
                raise ProtocolError(f"the member is in epoch {member.epoch}", ErrorCode.FENCED_MEMBER_EPOCH)
        self._renew(group, member)
        if body["rebalance_timeout_ms"] != -1:
            member.rebalance_timeout_ms = body["rebalance_timeout_ms"]
        if told is not None:
            # What it does not name, of what it must give up, it has given up.
            member.held -= {topic for topic in member.held - group.target(member) if topic not in told}
        is_whole = told is not None and body["subscribed_topic_names"] is not None
        if body["subscribed_topic_names"] is not None:
            topics = self._known(body["subscribed_topic_names"])
            if topics != member.topics:
                member.topics = topics
                self._change(group, lambda code: self._answer(group, member, code, reply, is_whole=True))
                return
        self._answer(group, member, ErrorCode.NONE, reply, is_whole=is_whole)

    def _answer(
        self, group: ConsumerGroup, member: ConsumerMember, code: ErrorCode, reply: OnReply, *, is_whole: bool
    ) -> None:
        """Answer a member; with its assignment if that is new to it, or ``is_whole``. Steps 3 and 4."""
        if code or group.members.get(member.id) is not member:
            reply({"error_code": code or ErrorCode.UNKNOWN_MEMBER_ID, "member_epoch": 0})
            return
        target, held, epoch = group.target(member), set(member.held), member.epoch
        if held - target:
            if member.revoke_ms is None:
                member.revoke_ms = self._log.now.mono_ms + member.rebalance_timeout_ms
                self._deadlines.push(group.id, member.revoke_ms)
            # It hears what it may keep, under its old epoch.
            is_whole = True
        else:
            member.revoke_ms = None
            others = {topic for each in group.members.values() if each is not member for topic in each.held}
            member.held |= target - others
            if member.epoch != group.epoch:
                member.previous_epoch, member.epoch = member.epoch, group.epoch
        is_new = is_whole or member.held != held or member.epoch != epoch
        reply(
            {
                "member_id": member.id,
                "member_epoch": member.epoch,
                "heartbeat_interval_ms": self._config.group_heartbeat_interval_ms,
                "assignment": self._assignment(member.held & target) if is_new else None,
            }
        )

    def _change(self, group: ConsumerGroup, then: Callable[[ErrorCode], None] | None = None) -> None:
        """Step 1, and step 2 when it is written; then call ``then``."""
        if then is not None:
            group.waiting.append(then)
        if group.is_writing:
            group.is_changed = True
            return
        self._write_epoch(group)

    def _write_epoch(self, group: ConsumerGroup) -> None:
        waiting, group.waiting = group.waiting, []
        group.is_changed, group.is_writing = False, True
        epoch, is_empty = group.epoch + 1, not group.members

        def written(code: ErrorCode) -> None:
            group.is_writing = False
            if self.groups.get(group.id) is not group:
                code = code or ErrorCode.NOT_COORDINATOR
            elif not code:
                group.epoch = epoch
                self._assign(group)
            for answer in waiting:
                answer(code)
            if self.groups.get(group.id) is not group:
                return
            if is_empty and not group.members:
                del self.groups[group.id]
                self._deadlines.forget(group.id)
            elif code:
                # The next heartbeat tries again.
                group.is_changed = True
            elif group.is_changed:
                self._change(group)

        empty_since_ms = self._log.now.wall_ms if is_empty else group_table.NEVER_MS
        kept = KeptGroup(
            type=group_table.CONSUMER,
            generation=epoch,
            protocol_type=group_table.CONSUMER,
            empty_since_ms=empty_since_ms,
        )
        self._log.write(group_table.changed_group(group.id, kept), written)

    def _assign(self, group: ConsumerGroup) -> None:
        """Step 2."""
        before, group.assigned = group.assigned, {}
        for topic in self._topics.ids:
            members = [each for each in group.members.values() if topic in each.topics]
            if members:
                owner = before.get(topic)
                group.assigned[topic] = owner if owner in members else members[0]

    def _member(self, body: Body) -> tuple[ConsumerGroup, ConsumerMember]:
        """The group and the member of a request. Errors: ProtocolError."""
        group = self.groups.get(body["group_id"])
        member = None if group is None else group.members.get(body["member_id"])
        if group is None or member is None:
            raise ProtocolError("there is no such member", ErrorCode.UNKNOWN_MEMBER_ID)
        if body["instance_id"] is not None and body["instance_id"] != member.instance_id:
            raise ProtocolError("another member has this instance id", ErrorCode.FENCED_INSTANCE_ID)
        return group, member

    def _known(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(names) & self._topics.ids.keys()

    def _remove(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._forget(group, member)
        for topic in group.target(member):
            del group.assigned[topic]

    def _forget(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        del group.members[member.id]
        self._members -= 1
        self._size_bytes -= member.size_bytes

    def _renew(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        member.deadline_ms = self._log.now.mono_ms + self._config.group_consumer_session_timeout_ms
        self._deadlines.push(group.id, member.deadline_ms)

    def _look_again(self, group: ConsumerGroup) -> None:
        for each in _deadlines_of(group):
            self._deadlines.push(group.id, each)


def _deadlines_of(group: ConsumerGroup) -> Iterator[int]:
    for each in group.members.values():
        yield each.deadline_ms if each.revoke_ms is None else min(each.deadline_ms, each.revoke_ms)


def _check_request(body: Body, version: int) -> None:
    """Errors: ProtocolError with Kafka's code."""
    epoch, code = body["member_epoch"], ErrorCode.INVALID_REQUEST
    if not body["group_id"]:
        raise ProtocolError("the group has no name", ErrorCode.INVALID_GROUP_ID)
    if not body["member_id"] and (epoch != JOINS or version >= OWN_ID_VERSION):
        raise ProtocolError("the member has no id", code)
    if epoch < LEAVES_FOR_A_WHILE:
        raise ProtocolError(f"there is no epoch {epoch}", code)
    if epoch == JOINS and (body["rebalance_timeout_ms"] < 0 or body["subscribed_topic_names"] is None):
        raise ProtocolError("a member joins with its topics and its rebalance timeout", code)
    if epoch == JOINS and body["topic_partitions"]:
        raise ProtocolError("a member that joins has nothing yet", code)
    if body["subscribed_topic_regex"]:
        raise ProtocolError("subscribe by name: patterns are not served", ErrorCode.INVALID_REGULAR_EXPRESSION)
    if body["server_assignor"] not in ASSIGNORS:
        # No text repeats a client's: it may be as long as a string may be.
        raise ProtocolError("there are the assignors uniform and range", ErrorCode.UNSUPPORTED_ASSIGNOR)
