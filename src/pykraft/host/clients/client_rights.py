"""What a client may do with the topics and groups that its request names: the parts that it may not are refused.

A request goes on with what is left of it, and the refused rows are added to its answer, as on Kafka's brokers. Lists of
all topics and groups have only what the client may describe. Invariants: nothing of a refused part reaches a handler;
however many names of a request are refused, that is one line for the operator, with their number.

Source: Kafka's ``KafkaApis``; the codes are TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.authorization import NEEDS, Asker, Guard, in_words
from pykraft.host.clients.produce_requests import ClientAnswer
from pykraft.host.clients.topics import ClientTopics
from pykraft.host.groups.classic_groups import not_joined
from pykraft.host.groups.group_requests import GROUP_ERROR_VERSION, SEVERAL_GROUPS_VERSION
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.security.acls import CLUSTER_NAME, ResourceType
from pykraft.types import Uuid

R = TypeVar("R")
TOPIC_RESOURCE: Final = 2
NODE_RESOURCE: Final = 4
GROUP_RESOURCE: Final = 32
"""Kinds of resources in DescribeConfigs."""
GROUP_KEY_TYPE: Final = 0
ID_ALONE_VERSION: Final = 12
"""Metadata's first version that may ask for a topic by its id alone."""
NO_TOPIC_ID: Final = Uuid(bytes(16))
_NOBODY: Final = {"node_id": -1, "host": "", "port": -1}


@dataclass(frozen=True, slots=True, kw_only=True)
class _TopicRows:
    """Where a request has its topics and their partitions, and where its answer has them."""

    name: str = "name"
    asked: str = "topics"
    answered: str = "topics"
    asked_parts: str | None = "partitions"
    answered_parts: str = "partitions"
    asked_index: str = "partition_index"
    index: str = "partition_index"
    more: tuple[tuple[str, object], ...] = ()
    """What else the answer says of a partition."""

    def refused(self, row: Body, code: ErrorCode) -> Body:
        """The row of the answer for this row of the request."""
        if self.asked_parts is None:
            # An id is no secret, but that of a name might be.
            told = {self.name: row[self.name], "topic_id": NO_TOPIC_ID if row[self.name] else Uuid(row["topic_id"])}
            return {**told, "error_code": code, "partitions": []}
        told = {self.name: row[self.name]} if row[self.name] else {"topic_id": Uuid(row["topic_id"])}
        asked = row[self.asked_parts]
        indexes = [part if isinstance(part, int) else part[self.asked_index] for part in asked]
        parts = [{self.index: index, "error_code": code, **dict(self.more)} for index in indexes]
        return {**told, self.answered_parts: parts}


_TOPIC_ROWS: Final = {
    ApiKey.PRODUCE: _TopicRows(
        asked="topic_data",
        answered="responses",
        asked_parts="partition_data",
        answered_parts="partition_responses",
        asked_index="index",
        index="index",
        more=(("base_offset", -1),),
    ),
    ApiKey.FETCH: _TopicRows(
        name="topic", answered="responses", asked_index="partition", more=(("high_watermark", -1), ("records", b""))
    ),
    ApiKey.LIST_OFFSETS: _TopicRows(),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _TopicRows(name="topic", asked_index="partition", index="partition"),
    ApiKey.OFFSET_COMMIT: _TopicRows(),
    ApiKey.OFFSET_DELETE: _TopicRows(),
    ApiKey.METADATA: _TopicRows(asked_parts=None),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _TopicRows(asked_parts=None),
}
_OFFSETS: Final = _TopicRows(asked_parts="partition_indexes", more=(("committed_offset", -1), ("metadata", "")))
_GROUP_ROWS: Final = {
    ApiKey.DELETE_GROUPS: ("groups_names", "results"),
    ApiKey.DESCRIBE_GROUPS: ("groups", "groups"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("group_ids", "groups"),
}


@dataclass(slots=True)
class _Refused:
    """What was refused first of a request, and how much was."""

    first: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Screen:
    """One request of a client and its rights."""

    guard: Guard
    asker: Asker
    api_key: int
    version: int
    topics: ClientTopics
    refused: _Refused = field(default_factory=_Refused)

    def pass_on(self, body: Body, answer: ClientAnswer) -> tuple[Body, ClientAnswer] | None:
        """What is left of the request, and where its answer goes; None if it is answered, since nothing is left."""
        left = self._without_refused(body, answer)
        if self.refused.count:
            self.guard.refuse(self.asker, self.api_key, self.refused.first, self.refused.count)
        return left

    def _without_refused(self, body: Body, answer: ClientAnswer) -> tuple[Body, ClientAnswer] | None:
        key = self.api_key
        whole = self._refused_whole(body)
        if whole is not None:
            answer(whole)
            return None
        if key == ApiKey.OFFSET_FETCH:
            return self._pass_on_offsets(body, answer)
        if key == ApiKey.DESCRIBE_CONFIGS:
            return self._pass_on_configs(body, answer)
        if key == ApiKey.FIND_COORDINATOR and body["coordinator_keys"]:
            return self._pass_on_keys(body, answer)
        if key in _GROUP_ROWS:
            return self._pass_on_groups(body, answer)
        if key == ApiKey.LIST_GROUPS:
            return body, partial(self._list_groups, answer)
        rows = _TOPIC_ROWS.get(ApiKey(key))
        return (body, answer) if rows is None else self._pass_on_topics(body, answer, rows)

    def _may(self, resource: ResourceType, name: str = CLUSTER_NAME, *, is_told: bool = True) -> bool:
        need = NEEDS[self.api_key]
        if resource is ResourceType.CLUSTER:
            operation = need.cluster
        else:
            operation = need.topic if resource is ResourceType.TOPIC else need.group
        may = self.guard.allows(self.asker, self.api_key, operation, resource, name, is_told=False)
        if not may and is_told:
            self.refused.first = self.refused.first or in_words(operation, resource, name)
            self.refused.count += 1
        return may

    def _refused_whole(self, body: Body) -> Body | None:
        """The answer to a request of which nothing may be done, because of its one group or because of the cluster."""
        key, version = self.api_key, self.version
        group_id: str | None = body.get("group_id")
        if key == ApiKey.FIND_COORDINATOR and body["key_type"] == GROUP_KEY_TYPE and not body["coordinator_keys"]:
            group_id = body["key"]
        if key == ApiKey.OFFSET_FETCH and version >= SEVERAL_GROUPS_VERSION:
            group_id = None
        if group_id is not None and not self._may(ResourceType.GROUP, group_id):
            return self._without_group(body, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if key == ApiKey.INIT_PRODUCER_ID:
            may_write = any(self._may(ResourceType.TOPIC, name, is_told=False) for name in self.topics.ids)
            if not may_write and not self._may(ResourceType.CLUSTER):
                return {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
        if key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            names = list(body["subscribed_topic_names"] or ())
            names += [self.topics.name] if body["subscribed_topic_regex"] else []
            if not all(self._may(ResourceType.TOPIC, name) for name in names):
                return {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        return None

    def _without_group(self, body: Body, code: ErrorCode) -> Body:
        key, version = self.api_key, self.version
        match key:
            case ApiKey.JOIN_GROUP:
                return not_joined(code, body["member_id"], version)
            case ApiKey.OFFSET_COMMIT:
                return {"topics": [_TOPIC_ROWS[ApiKey.OFFSET_COMMIT].refused(row, code) for row in body["topics"]]}
            case ApiKey.OFFSET_FETCH if version < GROUP_ERROR_VERSION:
                return {"topics": [_OFFSETS.refused(row, code) for row in body["topics"]]}
            case ApiKey.FIND_COORDINATOR:
                return {"error_code": code, "error_message": None, **_NOBODY}
            case _:
                return {"error_code": code}

    def _pass_on_topics(self, body: Body, answer: ClientAnswer, rows: _TopicRows) -> tuple[Body, ClientAnswer] | None:
        asked: list[Body] | None = body[rows.asked]
        if asked is None or (not asked and rows.asked_parts is None):
            return body, partial(self._list_topics, answer)
        left, refused = self._split_topics(asked, rows)
        if not refused:
            return body, answer
        if self.api_key == ApiKey.PRODUCE and body["acks"] == 0:
            answer(ProtocolError("a Produce request with acks 0 failed: TOPIC_AUTHORIZATION_FAILED"))
            return None
        if left:
            return {**body, rows.asked: left}, _with_rows(answer, rows.answered, refused)
        if self.api_key != ApiKey.METADATA:
            answer({rows.answered: refused})
            return None

        def without_topics(told: Body | ProtocolError | None) -> None:
            # In version 0 no topics are all topics. Everybody hears of the nodes.
            answer({**told, rows.answered: refused} if isinstance(told, dict) else told)

        return {**body, rows.asked: []}, without_topics

    def _split_topics(self, asked: list[Body], rows: _TopicRows) -> tuple[list[Body], list[Body]]:
        """The rows that may go on, and the answers of the others."""
        left, refused = [], []
        for row in asked:
            name = row[rows.name] or self.topics.name_of(row["topic_id"])
            # An id that is unknown here is the handler's to refuse, and one where a name has to be.
            if name is None or _lacks_name(row, rows, self.version) or self._may(ResourceType.TOPIC, name):
                left.append(row)
            else:
                refused.append(rows.refused(row, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        return left, refused

    def _list_topics(self, answer: ClientAnswer, body: Body | ProtocolError | None) -> None:
        if isinstance(body, dict):
            body["topics"] = [
                row for row in body["topics"] if self._may(ResourceType.TOPIC, row["name"], is_told=False)
            ]
        answer(body)

    def _list_groups(self, answer: ClientAnswer, body: Body | ProtocolError | None) -> None:
        if isinstance(body, dict) and not self._may(ResourceType.CLUSTER, is_told=False):
            found = body.get("groups", ())
            body["groups"] = [row for row in found if self._may(ResourceType.GROUP, row["group_id"], is_told=False)]
        answer(body)

    def _pass_on_groups(self, body: Body, answer: ClientAnswer) -> tuple[Body, ClientAnswer] | None:
        asked, answered = _GROUP_ROWS[ApiKey(self.api_key)]
        left, others = self._split_groups(body[asked], lambda group_id: group_id)
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        refused: list[Body] = [{"group_id": each, "error_code": code} for each in others]
        if self.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE:
            answer = partial(self._describe_groups, answer)
        return _left(body, asked, left, answer, answered, refused)

    def _split_groups(self, asked: list[R], name_of: Callable[[R], str]) -> tuple[list[R], list[R]]:
        """Those that may go on, and the others, each looked at once: a request may name hundreds of thousands."""
        left: list[R] = []
        others: list[R] = []
        for each in asked:
            (left if self._may(ResourceType.GROUP, name_of(each)) else others).append(each)
        return left, others

    def _describe_groups(self, answer: ClientAnswer, body: Body | ProtocolError | None) -> None:
        """The members of a group tell which topics they read."""
        rows = [row for row in body["groups"] if row.get("members")] if isinstance(body, dict) else []
        key, name = self.api_key, self.topics.name
        if rows and not self.guard.allows(self.asker, key, NEEDS[key].topic, ResourceType.TOPIC, name):
            for row in rows:
                row |= {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "members": []}
        answer(body)

    def _pass_on_keys(self, body: Body, answer: ClientAnswer) -> tuple[Body, ClientAnswer] | None:
        if body["key_type"] != GROUP_KEY_TYPE:
            return body, answer
        left, others = self._split_groups(body["coordinator_keys"], lambda key: key)
        told = {"error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED, **_NOBODY}
        refused: list[Body] = [{"key": each, "error_message": None, **told} for each in others]
        return _left(body, "coordinator_keys", left, answer, "coordinators", refused)

    def _pass_on_configs(self, body: Body, answer: ClientAnswer) -> tuple[Body, ClientAnswer] | None:
        left, refused = [], []
        for row in body["resources"]:
            kind, name = row["resource_type"], row["resource_name"]
            code = self._config_problem(kind, name)
            if code is None:
                left.append(row)
            else:
                told = {"resource_type": kind, "resource_name": name, "configs": []}
                refused.append({"error_code": code, "error_message": None, **told})
        return _left(body, "resources", left, answer, "results", refused)

    def _config_problem(self, kind: int, name: str) -> ErrorCode | None:
        if kind == TOPIC_RESOURCE and not self._may(ResourceType.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if kind == GROUP_RESOURCE and not self._may(ResourceType.GROUP, name):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        if kind == NODE_RESOURCE and not self._may(ResourceType.CLUSTER):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return None

    def _pass_on_offsets(self, body: Body, answer: ClientAnswer) -> tuple[Body, ClientAnswer] | None:
        """OffsetFetch: groups, and the topics of each; without topics it asks for all that the group has."""
        if self.version < SEVERAL_GROUPS_VERSION:
            left, add = self._offsets_of(body)
            return left, partial(self._add_offsets, answer, [add])
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        groups, others = self._split_groups(body["groups"], lambda group: group["group_id"])
        refused: list[Body] = [{"group_id": each["group_id"], "error_code": code} for each in others]
        found = [self._offsets_of(group) for group in groups]
        then = partial(self._add_offsets, answer, [add for _, add in found])
        return _left(body, "groups", [each for each, _ in found], then, "groups", refused)

    def _offsets_of(self, group: Body) -> tuple[Body, list[Body] | None]:
        """What is left of the question about a group, and the refused rows; None to filter the answer."""
        if group["topics"] is None:
            return group, None
        left, refused = self._split_topics(group["topics"], _OFFSETS)
        return {**group, "topics": left}, refused

    def _add_offsets(
        self, answer: ClientAnswer, more: list[list[Body] | None], body: Body | ProtocolError | None
    ) -> None:
        if isinstance(body, dict):
            answered = body["groups"] if self.version >= SEVERAL_GROUPS_VERSION else [body]
            # The rows of refused groups, which have no topics, are behind those of the others.
            for row, refused in zip(answered, more, strict=False):
                if refused is not None and not row["error_code"]:
                    row["topics"] += refused
                elif refused is None:
                    row["topics"] = [each for each in row["topics"] if self._may_see(each)]
        answer(body)

    def _may_see(self, row: Body) -> bool:
        name = row.get("name") or self.topics.name_of(row["topic_id"])
        return name is None or self._may(ResourceType.TOPIC, name, is_told=False)


def _lacks_name(row: Body, rows: _TopicRows, version: int) -> bool:
    return rows.asked_parts is None and row[rows.name] is None and version < ID_ALONE_VERSION


def _left(
    body: Body, asked: str, left: list[Any], answer: ClientAnswer, answered: str, refused: list[Body]
) -> tuple[Body, ClientAnswer] | None:
    """The rest of a request if there is any; else its answer."""
    if refused and not left:
        answer({answered: refused})
        return None
    return {**body, asked: left}, _with_rows(answer, answered, refused)


def _with_rows(answer: ClientAnswer, answered: str, refused: list[Body]) -> ClientAnswer:
    def added(body: Body | ProtocolError | None) -> None:
        if isinstance(body, dict):
            body[answered] = [*body.get(answered, ()), *refused]
        answer(body)

    return added if refused else answer
