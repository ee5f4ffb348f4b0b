"""Members of consumer groups, of the classic protocol and of KIP-848's.

A member joins, reads, commits, pauses, leaves and crashes. What it reads are numbers, not records of the log: it begins
where its group's committed offset is, takes the next numbers, and commits after that. So the offsets of a group tell
all that oracles need. It has one request under way. When its connection breaks it keeps its membership, and uses it on
the next one; when it crashes it begins anew, and only its instance id, if it has one, stays the same.

Source: Kafka's ``ConsumerCoordinator`` and ``ConsumerMembershipManager``; KIP-62, KIP-345, KIP-394, KIP-848.
"""

from functools import partial
from random import Random
from typing import Final

from pykraft.errors import ErrorCode
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.sim.clients.leader_station import LeaderStation
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.history import GroupCommit, GroupRead, Ownership
from pykraft.sim.invariants.watch import Watch

FIRST_MEMBER_ID: Final = 950
"""No node, stranger or producer has this id or one of the next."""
REQUEST_TIMEOUT_US: Final = 400_000
JOIN_TIMEOUT_US: Final = 1_500_000
"""JoinGroup and SyncGroup wait for the others."""
RECORDS_MAX: Final = 3
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2
_AGAIN: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNRELEASED_INSTANCE_ID,
)
"""A later turn tries again; the heartbeat before it may bring another epoch."""
_REJOINS: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
_IS_NO_MEMBER: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class SimulatedGroupMember(LeaderStation):
    """A station of the network; number ``index`` of its world, in the group of that number."""

    def __init__(self, facts: Facts, watch: Watch, rng: Random, index: int, group: int) -> None:
        super().__init__(facts, watch, rng, FIRST_MEMBER_ID + index, "member")
        self.group_id = f"group {group}"
        self.committed_us = -1
        """When its newest commit was acknowledged; -1 before."""
        self._settings = facts.scenario.groups
        # All members of a group use one protocol.
        self._is_classic = Random(f"{facts.seed} {self.group_id}").random() < self._settings.classic_probability
        self._instance_id = f"instance {index}" if rng.random() < self._settings.static_probability else None
        self._index, self._life = index, 0
        self._rests_until_us = 0
        self._lives_anew()

    def begin(self) -> None:
        self._facts.network.attach(self)
        self._later(self._rng.randrange(self._settings.period_us))

    @property
    def _name(self) -> str:
        """Who it is for the oracles: a static member that was started again is the same one."""
        return self._instance_id or f"member {self._index}.{self._life}"

    @property
    def _identity(self) -> Body:
        return {"group_id": self.group_id, "member_id": self._id, "group_instance_id": self._instance_id}

    def _lives_anew(self) -> None:
        """Nothing of the former membership counts."""
        self._life += 1
        self._id = "" if self._is_classic else f"{self._index}.{self._life}"
        self._is_subscribed = True
        self._stays_out()

    def _stays_out(self) -> None:
        """It has to join; it may still be known by its id."""
        self._is_joined, self._generation = False, 0
        self._owns = False
        self._position: int | None = None

    def _turn(self) -> None:
        settings, rng, now_us = self._settings, self._rng, self._facts.clock.now_us
        self._later(rng.randint(settings.period_us // 2, settings.period_us * 2))
        if now_us < self._rests_until_us:
            return
        if rng.random() < settings.crash_probability:
            self._hang_up()
            self._lives_anew()
        elif rng.random() < settings.pause_probability:
            self._rests_until_us = now_us + rng.randrange(settings.pause_us_max)
        elif self._connection is None:
            self._dial()
        elif self._asked:
            is_waiting = self._asked[0].api_key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
            timeout_us = JOIN_TIMEOUT_US if is_waiting else REQUEST_TIMEOUT_US
            if now_us - self._asked[0].asked_us > timeout_us or rng.random() < settings.impatience:
                self._hang_up()
        else:
            self._act()

    def _act(self) -> None:
        """Send the next request: the connection's node leads, and nothing is under way."""
        rng = self._rng
        if not self._is_joined:
            self._join() if self._is_classic else self._beat()
        elif rng.random() < self._settings.leave_probability:
            self._leave()
        elif self._owns and self._position is None:
            self._read()
        elif self._position is not None and rng.random() < 0.7:
            self._commit(self._position + rng.randint(1, RECORDS_MAX))
        elif self._is_classic:
            self._ask(ApiKey.HEARTBEAT, {**self._identity, "generation_id": self._generation}, self._has_code)
        else:
            if rng.random() < self._settings.unsubscribe_probability:
                self._is_subscribed = not self._is_subscribed
            self._beat()

    def _found_leader(self) -> None:
        """The next turn asks."""

    def _join(self) -> None:
        body = {
            **self._identity,
            "session_timeout_ms": self._settings.session_ms,
            "rebalance_timeout_ms": self._settings.rebalance_ms,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        self._ask(ApiKey.JOIN_GROUP, body, self._has_joined)

    def _has_joined(self, body: Body) -> None:
        if body["error_code"] == ErrorCode.MEMBER_ID_REQUIRED:
            self._id = body["member_id"]
        elif not self._is_refused(body["error_code"]):
            self._id, self._generation = body["member_id"], body["generation_id"]
            members = [each["member_id"] for each in body["members"]]
            owner = self._rng.choice(members) if members and not body["skip_assignment"] else None
            assignments = [{"member_id": owner, "assignment": b"all"}] if owner is not None else []
            sync = {**self._identity, "generation_id": self._generation, "assignments": assignments}
            self._ask(ApiKey.SYNC_GROUP, sync, self._has_synced)

    def _has_synced(self, body: Body) -> None:
        if not self._is_refused(body["error_code"]):
            self._is_joined = True
            self._is_assigned(owns=bool(body["assignment"]))

    def _beat(self) -> None:
        """The heartbeat of KIP-848, which joins, too; it says each time what the member has."""
        topic_id = next(iter(self._facts.nodes.values())).config.topic_id
        body = {
            "group_id": self.group_id,
            "member_id": self._id,
            "member_epoch": self._generation,
            "instance_id": self._instance_id,
            "rebalance_timeout_ms": self._settings.rebalance_ms,
            "subscribed_topic_names": [self._topic] if self._is_subscribed else [],
            "topic_partitions": [{"topic_id": topic_id, "partitions": [0]}] if self._owns else [],
        }
        self._ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, body, self._has_beaten)

    def _has_beaten(self, body: Body) -> None:
        if self._is_refused(body["error_code"]):
            return
        self._is_joined, self._generation = True, body["member_epoch"]
        told = body["assignment"]
        self._is_assigned(owns=self._owns if told is None else bool(told["topic_partitions"]))

    def _is_assigned(self, *, owns: bool) -> None:
        if not (owns and self._owns):
            self._position = None
        self._owns = owns
        if owns:
            self._watch.group_owned(Ownership(self.group_id, self._name, self._generation))

    def _leave(self) -> None:
        if self._is_classic:
            body: Body = {"members": [{"member_id": self._id, "group_instance_id": self._instance_id}]}
            self._ask(ApiKey.LEAVE_GROUP, {"group_id": self.group_id, **body}, self._has_left)
            return
        epoch = LEAVES if self._instance_id is None else LEAVES_FOR_A_WHILE
        body = {"member_id": self._id, "member_epoch": epoch, "instance_id": self._instance_id}
        self._ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, {"group_id": self.group_id, **body}, self._has_left)

    def _has_left(self, _: Body) -> None:
        self._lives_anew()

    def _read(self) -> None:
        """Ask where to go on."""
        asked: Body = {"topics": [{"name": self._topic, "partition_indexes": [0]}], "group_id": self.group_id}
        if not self._is_classic:
            asked |= {"member_id": self._id, "member_epoch": self._generation}
        read = GroupRead(group_id=self.group_id, generation=self._generation)
        self._watch.group_read(read)
        self._ask(ApiKey.OFFSET_FETCH, {"groups": [asked]}, partial(self._has_read, read))

    def _has_read(self, read: GroupRead, body: Body) -> None:
        [group] = body["groups"]
        if not self._is_refused(group["error_code"]):
            read.offset = max(0, group["topics"][0]["partitions"][0]["committed_offset"])
            self._watch.group_read(read)
            self._position = read.offset

    def _commit(self, end: int) -> None:
        """What is before this number is processed."""
        commit = GroupCommit(
            group_id=self.group_id,
            member=self._name,
            generation=self._generation,
            offset=end,
            asked_us=self._facts.clock.now_us,
        )
        self._watch.group_committed(commit)
        part: Body = {"partition_index": 0, "committed_offset": end, "committed_leader_epoch": -1}
        topics = [{"name": self._topic, "partitions": [part | {"committed_metadata": ""}]}]
        body = {**self._identity, "generation_id_or_member_epoch": self._generation, "topics": topics}
        self._ask(ApiKey.OFFSET_COMMIT, body, partial(self._has_committed, commit))

    def _has_committed(self, commit: GroupCommit, body: Body) -> None:
        commit.error = ErrorCode(body["topics"][0]["partitions"][0]["error_code"])
        self._watch.group_committed(commit)
        if not self._is_refused(commit.error):
            self._position, self.committed_us = commit.offset, self._facts.clock.now_us

    def _has_code(self, body: Body) -> None:
        self._is_refused(body["error_code"])

    def _is_refused(self, code: int) -> bool:
        """Do what an error asks for; true for any."""
        if code == ErrorCode.NOT_COORDINATOR:
            self._hang_up()
        elif code in _REJOINS:
            self._stays_out()
        elif code in _IS_NO_MEMBER:
            self._lives_anew()
        else:
            assert code in (ErrorCode.NONE, *_AGAIN), f"a member gets {ErrorCode(code).name}"
        return code != ErrorCode.NONE
