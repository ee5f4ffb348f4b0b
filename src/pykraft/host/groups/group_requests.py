"""Requests about consumer groups: the leader of the quorum is the coordinator of them all.

The leader answers from the state that is committed (`GroupLog`), and each change when it is committed and applied. A
node that does not lead answers NOT_COORDINATOR, a new leader COORDINATOR_LOAD_IN_PROGRESS until it has applied what
was committed before its epoch. Bounds: GROUPS_MAX groups and STATE_SIZE_BYTES_MAX of what clients can make large, above
which changes that would add something get COORDINATOR_NOT_AVAILABLE.

Offsets expire as in Kafka: those of a group without members after ``offsets.retention.minutes`` since the last one
left, those of a group that never had any, each so long after its commit. The leader removes them with records, so that
every node forgets the same.

Source: Kafka's ``GroupCoordinatorService``, ``OffsetMetadataManager`` and ``OffsetExpirationConditionImpl``; KIP-211.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final

from pykraft.core.status import Status
from pykraft.errors import ErrorCode
from pykraft.host.clients.records_profile import StrictProfile
from pykraft.host.clients.topics import ClientTopics
from pykraft.host.groups import classic_groups, group_table
from pykraft.host.groups.classic_groups import EMPTY, ClassicGroups
from pykraft.host.groups.consumer_groups import ConsumerGroups
from pykraft.host.groups.group_log import GroupLog
from pykraft.host.groups.group_table import CommittedOffset, KeptGroup, Partition
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.types import Uuid

GROUPS_MAX: Final = 10_000
"""Groups that are kept."""
STATE_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of ids and metadata of all groups."""
FETCHED_MAX: Final = 500
"""Partitions of all groups in one OffsetFetch: each takes far more in the answer than in the request."""
TOPIC_ID_VERSION: Final = 10
"""The first version of OffsetCommit and OffsetFetch that names topics by id."""
MEMBER_EPOCH_VERSION: Final = 9
"""The first version of OffsetCommit and OffsetFetch for the members of KIP-848."""
SEVERAL_GROUPS_VERSION: Final = 8
"""The first version of OffsetFetch that asks for several groups."""
GROUP_ERROR_VERSION: Final = 2
"""The first version of OffsetFetch whose answer has an error of the group."""
_NOT_FOUND_VERSION: Final = 6
"""The first version of DescribeGroups that may say that a group does not exist."""
_MS_PER_MINUTE: Final = 60_000
CONSUMER_PROTOCOL: Final = "consumer"
DEAD: Final = "Dead"
OnGroupAnswer = Callable[[Body], None]


class GroupRequests:
    """All groups of one node."""

    def __init__(
        self, log: GroupLog, topics: ClientTopics, strict: Callable[[], StrictProfile | None], rng: Random
    ) -> None:
        """``strict`` says why clients may not write records that Kafka's replicas cannot read; None: they may.

        ``rng`` makes the ids of members.
        """
        self._log = log
        self._topics = topics
        self._strict = strict
        self._members = ClassicGroups(log, topics.config, rng)
        self._consumers = ConsumerGroups(log, topics, rng)
        self._check_ms: int | None = None
        self._led_epoch: int | None = None

    def handle(self, api_key: int, version: int, body: Body, client_id: str, answer: OnGroupAnswer) -> None:
        """``client_id`` is what the request calls its client."""
        match api_key:
            case ApiKey.OFFSET_COMMIT:
                self._commit(body, version, answer)
            case ApiKey.OFFSET_FETCH:
                answer(self._fetch(body, version))
            case ApiKey.OFFSET_DELETE:
                self._delete_offsets(body, answer)
            case ApiKey.DELETE_GROUPS:
                self._delete_groups(body, answer)
            case ApiKey.DESCRIBE_GROUPS:
                answer({"groups": [self._described(group_id, version) for group_id in body["groups"]]})
            case ApiKey.CONSUMER_GROUP_DESCRIBE:
                answer({"groups": [self._described_consumers(group_id) for group_id in body["group_ids"]]})
            case ApiKey.LIST_GROUPS:
                answer(self._listed(body))
            case _:
                self._handle_member(api_key, version, body, client_id, answer)

    def _handle_member(self, api_key: int, version: int, body: Body, client_id: str, answer: OnGroupAnswer) -> None:
        """A member of a group, or who wants to be one."""
        match api_key:
            case ApiKey.JOIN_GROUP:
                code = self._write_problem(body["group_id"], 0)
                if not code and body["group_id"] in self._consumers.groups:
                    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
                if code:
                    answer(classic_groups.not_joined(code, body["member_id"], version))
                else:
                    self._members.join(body, version, client_id, answer)
            case ApiKey.SYNC_GROUP:
                if self._problem:
                    answer({"error_code": self._problem})
                else:
                    self._members.sync(body, answer)
            case ApiKey.HEARTBEAT:
                answer({"error_code": self._heartbeat(body)})
            case ApiKey.LEAVE_GROUP:
                answer(self._leave(body, version))
            case _:
                assert api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT, f"API {api_key} is not about groups"
                code = self._write_problem(body["group_id"], 0)
                if not code and body["group_id"] in self._members.groups:
                    code = ErrorCode.GROUP_ID_NOT_FOUND
                if code:
                    answer({"error_code": code, "member_epoch": body["member_epoch"]})
                else:
                    self._consumers.heartbeat(body, version, client_id, answer)

    def _heartbeat(self, body: Body) -> ErrorCode:
        """Kafka's coordinators, too, say that all is well while they load, and clients know no such error here."""
        code = self._problem
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        return code or self._members.heartbeat(body)

    def after_step(self, status: Status) -> None:
        """After a step: the members of a leader are not those of the next, even if it is this node."""
        epoch = status.epoch if status.leads else None
        if epoch != self._led_epoch:
            self._led_epoch = epoch
            self._members.lose()
            self._consumers.lose()

    def poll(self, mono_ms: int) -> None:
        """End sessions, and look for offsets to forget, if it is time."""
        self._members.poll(mono_ms)
        self._consumers.poll(mono_ms)
        if self._check_ms is None or not self._log.is_loaded:
            self._check_ms = mono_ms + self._topics.config.offsets_check_interval_ms
        elif self._check_ms <= mono_ms:
            self._check_ms = mono_ms + self._topics.config.offsets_check_interval_ms
            for record in list(self._expired()):
                self._log.write(record, _ignore)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        check_ms = self._check_ms if self._log.table.groups else None
        found = (check_ms, self._members.next_deadline_ms, self._consumers.next_deadline_ms)
        return min((each for each in found if each is not None), default=None)

    @property
    def _problem(self) -> ErrorCode:
        """Why this node does not answer as the coordinator; NONE if it does."""
        if not self._topics.status().leads:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if self._log.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _write_problem(self, group_id: str, size_bytes: int) -> ErrorCode:
        """The same for a request that writes so much for a group."""
        if self._problem:
            return self._problem
        strict = self._strict()
        if strict is not None:
            return coordinator_error(strict)
        table = self._log.table
        is_new = group_id not in table.groups
        if (is_new and len(table.groups) >= GROUPS_MAX) or table.size_bytes + size_bytes > STATE_SIZE_BYTES_MAX:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE

    def _commit(self, body: Body, version: int, answer: OnGroupAnswer) -> None:
        group_id: str = body["group_id"]
        rows, offsets = self._committed_rows(body, version)
        size_bytes = len(group_id) + sum(len(each.metadata) for each in offsets.values())
        code = self._write_problem(group_id, size_bytes) or self._commit_problem(body, version)
        if code or not offsets:
            _set_codes(rows, code)
            answer({"topics": rows})
            return

        def written(code: ErrorCode) -> None:
            _set_codes(rows, code)
            answer({"topics": rows})

        changes = {place: None if each.offset < 0 else each for place, each in offsets.items()}
        self._log.write(group_table.changed_offsets(group_id, changes), written)

    def _commit_problem(self, body: Body, version: int) -> ErrorCode:
        """Why the group does not take a commit of this member and generation."""
        consumers = self._consumers.groups.get(body["group_id"])
        if consumers is not None and consumers.members:
            if version < MEMBER_EPOCH_VERSION:
                return ErrorCode.UNSUPPORTED_VERSION
            return self._consumers.check(consumers, body["member_id"], body["generation_id_or_member_epoch"])
        group = self._members.groups.get(body["group_id"])
        is_of_member = body["generation_id_or_member_epoch"] >= 0 or body["member_id"] or body["group_instance_id"]
        if group is not None and group.members:
            return self._members.check_commit(group, body) if is_of_member else ErrorCode.UNKNOWN_MEMBER_ID
        if body["generation_id_or_member_epoch"] < 0:
            return ErrorCode.NONE
        # Without members nobody has a generation.
        if body["group_id"] in self._log.table.groups:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= MEMBER_EPOCH_VERSION else ErrorCode.ILLEGAL_GENERATION

    def _committed_rows(self, body: Body, version: int) -> tuple[list[Body], dict[Partition, CommittedOffset]]:
        """The rows of the answer, with the codes of bad partitions, and the offsets of the good ones."""
        rows: list[Body] = []
        offsets: dict[Partition, CommittedOffset] = {}
        metadata_max = self._topics.config.offset_metadata_size_bytes_max
        for topic in body["topics"]:
            name, row = self._topic(topic, version)
            parts: list[Body] = []
            for part in topic["partitions"]:
                index, metadata = part["partition_index"], part["committed_metadata"] or ""
                code = ErrorCode.NONE
                if (known := self._name_problem(name, index, version)) is not None:
                    code = known
                elif len(metadata) > metadata_max:
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    assert name is not None, "an unknown id is a problem"
                    offsets[name, index] = CommittedOffset(
                        offset=part["committed_offset"],
                        leader_epoch=part["committed_leader_epoch"],
                        metadata=metadata,
                        commit_ms=self._log.now.wall_ms,
                    )
                parts.append({"partition_index": index, "error_code": code})
            rows.append({**row, "partitions": parts})
        return rows, offsets

    def _topic(self, topic: Body, version: int) -> tuple[str | None, Body]:
        """The name of a topic in a request, None for an unknown id, and how the answer names it."""
        if version < TOPIC_ID_VERSION:
            return topic["name"], {"name": topic["name"]}
        return self._topics.name_of(topic["topic_id"]), {"topic_id": Uuid(topic["topic_id"])}

    def _name_problem(self, name: str | None, index: int, version: int) -> ErrorCode | None:
        if name in self._topics.ids and index == 0:
            return None
        is_unknown_id = name is None and version >= TOPIC_ID_VERSION
        return ErrorCode.UNKNOWN_TOPIC_ID if is_unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _fetch(self, body: Body, version: int) -> Body:
        if version >= SEVERAL_GROUPS_VERSION:
            asked = sum(len(topic["partition_indexes"]) for each in body["groups"] for topic in each["topics"] or ())
            if asked > FETCHED_MAX:
                code = ErrorCode.INVALID_REQUEST
                return {"groups": [{"group_id": each["group_id"], "error_code": code} for each in body["groups"]]}
            return {"groups": [self._fetched(group, version) for group in body["groups"]]}
        found = self._fetched(body, version)
        if found["error_code"] and version < GROUP_ERROR_VERSION:
            for topic in body["topics"]:
                parts = [_no_offset(index, found["error_code"]) for index in topic["partition_indexes"]]
                found["topics"].append({"name": topic["name"], "partitions": parts})
        return found

    def _fetched(self, asked: Body, version: int) -> Body:
        """The offsets of one group."""
        group_id: str = asked["group_id"]
        code = self._problem
        consumers = self._consumers.groups.get(group_id)
        if not code and consumers is not None and version >= MEMBER_EPOCH_VERSION and asked["member_id"] is not None:
            code = self._consumers.check(consumers, asked["member_id"], asked["member_epoch"])
        topics: list[Body] = []
        if not code:
            offsets = self._log.table.groups.get(group_id, group_table.NO_GROUP).offsets
            wanted = asked["topics"] if asked["topics"] is not None else self._all_topics(offsets)
            for topic in wanted:
                name, row = self._topic(topic, version)
                parts = [self._fetched_part(name, index, version, offsets) for index in topic["partition_indexes"]]
                topics.append({**row, "partitions": parts})
        told: Body = {"topics": topics, "error_code": code}
        return {**told, "group_id": group_id} if version >= SEVERAL_GROUPS_VERSION else told

    def _all_topics(self, offsets: Mapping[Partition, CommittedOffset]) -> Iterator[Body]:
        for name, index in offsets:
            yield {"name": name, "topic_id": self._topics.ids.get(name, Uuid(bytes(16))), "partition_indexes": [index]}

    def _fetched_part(
        self, name: str | None, index: int, version: int, offsets: Mapping[Partition, CommittedOffset]
    ) -> Body:
        if name is None:
            return _no_offset(index, self._name_problem(name, index, version) or ErrorCode.NONE)
        found = offsets.get((name, index))
        if found is None:
            return _no_offset(index, ErrorCode.NONE)
        told = {"committed_offset": found.offset, "committed_leader_epoch": found.leader_epoch}
        return {"partition_index": index, "metadata": found.metadata, "error_code": ErrorCode.NONE, **told}

    def _delete_offsets(self, body: Body, answer: OnGroupAnswer) -> None:
        group_id: str = body["group_id"]
        code = self._write_problem(group_id, 0)
        is_known, group = group_id in self._log.table.groups, self._members.groups.get(group_id)
        consumers = self._consumers.groups.get(group_id)
        subscribed = {topic for each in consumers.members.values() for topic in each.topics} if consumers else set()
        if not code and not is_known:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        elif not code and group is not None and group.members and group.protocol_type != CONSUMER_PROTOCOL:
            code = ErrorCode.NON_EMPTY_GROUP
        if code:
            answer({"error_code": code})
            return
        rows: list[Body] = []
        removed: dict[Partition, CommittedOffset | None] = {}
        for topic in body["topics"]:
            parts: list[Body] = []
            for part in topic["partitions"]:
                problem = self._name_problem(topic["name"], part["partition_index"], 0)
                is_read = (group is not None and group.members) or topic["name"] in subscribed
                if problem is None and is_read:
                    # Members of the classic protocol subscribe to it, since there is one topic.
                    problem = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                elif problem is None:
                    removed[topic["name"], part["partition_index"]] = None
                parts.append({"partition_index": part["partition_index"], "error_code": problem or ErrorCode.NONE})
            rows.append({"name": topic["name"], "partitions": parts})
        if not removed:
            answer({"topics": rows})
            return

        def written(code: ErrorCode) -> None:
            answer({"error_code": code, "topics": [] if code else rows})

        self._log.write(group_table.changed_offsets(group_id, removed), written)

    def _delete_groups(self, body: Body, answer: OnGroupAnswer) -> None:
        rows: list[Body] = [{"group_id": group_id, "error_code": ErrorCode.NONE} for group_id in body["groups_names"]]
        unanswered = 1

        def finish() -> None:
            nonlocal unanswered
            unanswered -= 1
            if not unanswered:
                answer({"results": rows})

        def written(row: Body, code: ErrorCode) -> None:
            row["error_code"] = code
            finish()

        for row in rows:
            group_id: str = row["group_id"]
            row["error_code"] = self._write_problem(group_id, 0)
            if not row["error_code"] and (group_id in self._members.groups or group_id in self._consumers.groups):
                row["error_code"] = ErrorCode.NON_EMPTY_GROUP
            if not row["error_code"] and group_id not in self._log.table.groups:
                row["error_code"] = ErrorCode.GROUP_ID_NOT_FOUND
            if not row["error_code"]:
                unanswered += 1
                self._log.write(group_table.deleted_group(group_id), partial(written, row))
        finish()

    def _described(self, group_id: str, version: int) -> Body:
        row: Body = {"group_id": group_id, "error_code": self._problem, "group_state": ""}
        if row["error_code"]:
            return row
        members = self._members.groups.get(group_id)
        if members is not None:
            return row | {
                "group_state": members.state,
                "protocol_type": members.protocol_type,
                "protocol_data": (members.protocol or "") if members.state == classic_groups.STABLE else "",
                "members": classic_groups.described_members(members),
            }
        group = self._log.table.groups.get(group_id)
        if group is None or group.type != group_table.CLASSIC:
            row["group_state"] = DEAD
            if version >= _NOT_FOUND_VERSION:
                row |= {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": "there is no such group"}
            return row
        return row | {"group_state": EMPTY, "protocol_type": group.protocol_type}

    def _described_consumers(self, group_id: str) -> Body:
        row: Body = {"group_id": group_id, "error_code": self._problem, "group_state": "", "group_epoch": 0}
        row |= {"assignment_epoch": 0, "assignor_name": "", "members": []}
        if row["error_code"]:
            return row
        found = self._consumers.described(group_id)
        if found is None:
            # An id may be as long as a string may be, so the text does not repeat it.
            told = {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": "this is no consumer group"}
            return row | told | {"group_state": DEAD}
        return row | found

    def _listed(self, body: Body) -> Body:
        code = self._problem
        if code == ErrorCode.NOT_COORDINATOR:
            # Whoever lists groups asks every node.
            return {}
        states, types = ({each.lower() for each in body.get(key) or ()} for key in ("states_filter", "types_filter"))
        rows: list[Body] = []
        found = {
            **{
                group_id: (group.protocol_type, EMPTY, group.type) for group_id, group in self._log.table.groups.items()
            },
            **{
                each.id: (each.protocol_type, each.state, group_table.CLASSIC) for each in self._members.groups.values()
            },
            **{
                each.id: (group_table.CONSUMER, each.state, group_table.CONSUMER)
                for each in self._consumers.groups.values()
            },
        }
        for group_id, (protocol_type, state, kind) in found.items() if not code else ():
            row = {"group_id": group_id, "protocol_type": protocol_type, "group_state": state, "group_type": kind}
            if (not states or row["group_state"].lower() in states) and (not types or row["group_type"] in types):
                rows.append(row)
        return {"error_code": code, "groups": rows}

    def _leave(self, body: Body, version: int) -> Body:
        if self._problem:
            return {"error_code": self._problem}
        if version < classic_groups.MEMBERS_VERSION:
            asked = {"member_id": body["member_id"], "group_instance_id": None}
            return {"error_code": self._members.leave(body["group_id"], asked)}
        rows = [
            {
                "member_id": each["member_id"],
                "group_instance_id": each["group_instance_id"],
                "error_code": self._members.leave(body["group_id"], each),
            }
            for each in body["members"]
        ]
        return {"members": rows}

    def _expired(self) -> Iterator[bytes]:
        """Records that forget what nobody has needed for long."""
        now_ms = self._log.now.wall_ms
        keep_ms = self._topics.config.offsets_retention_minutes * _MS_PER_MINUTE
        for group_id, group in self._log.table.groups.items():
            if group_id in self._members.groups or group_id in self._consumers.groups:
                continue
            if group.protocol_type and group.empty_since_ms == group_table.NEVER_MS:
                # Its members were those of an earlier leader, and none has come back.
                yield group_table.changed_group(group_id, replace(group, empty_since_ms=now_ms))
                continue
            expired = {
                place: None for place, each in group.offsets.items() if now_ms - _kept_since_ms(group, each) >= keep_ms
            }
            if len(expired) == len(group.offsets):
                yield group_table.deleted_group(group_id)
            elif expired:
                yield group_table.changed_offsets(group_id, expired)


def coordinator_error(strict: StrictProfile) -> ErrorCode:
    """The code for a group where clients may write only what Kafka's replicas can read: try again, or never."""
    is_final = strict.code == ErrorCode.INVALID_RECORD
    return ErrorCode.UNSUPPORTED_VERSION if is_final else ErrorCode.COORDINATOR_NOT_AVAILABLE


def _kept_since_ms(group: KeptGroup, offset: CommittedOffset) -> int:
    return offset.commit_ms if group.empty_since_ms == group_table.NEVER_MS else group.empty_since_ms


def _no_offset(index: int, code: ErrorCode) -> Body:
    told = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}
    return {"partition_index": index, "error_code": code, **told}


def _set_codes(rows: list[Any], code: ErrorCode) -> None:
    """An error of the whole request counts for each of its partitions that is good."""
    for row in rows:
        for part in row["partitions"]:
            part["error_code"] = part["error_code"] or code


def _ignore(_: ErrorCode) -> None:
    """A later search finds what was not forgotten."""
