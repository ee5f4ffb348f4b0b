"""Requests of Kafka's own clients: one object that answers them all, on the listeners that the properties name.

It exists only on nodes that serve clients (``pykraft.client.listeners``); without it nothing is built, and nothing of
the log is read. Fetch is for replicas and for consumers, which have no id. Invariants: each request gets one answer,
now or later, except Produce with acks 0; a topic that does not exist is never created, and says so. The leader
coordinates all consumer groups (`pykraft.host.groups`); there are no transactions.

The first record of a time (ListOffsets) is searched from the log start, one bounded piece of the log after the other,
by the headers of its batches; only the batch that holds it is decoded. Invariant: no offset above the high watermark is
given as the end, except where an epoch ends.

Source: Kafka's ``KafkaApis``, ``BrokerServer``, ``ProducerStateManager``, ``UnifiedLog.fetchOffsetByTimestamp`` and
``ReplicaManager.lastOffsetForLeaderEpoch``; KIP-405, KIP-700, KIP-734, KIP-919; ours (ADR 065).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from pykraft.config import NodeConfig
from pykraft.core.log_view import LogView
from pykraft.core.messages import FetchRequest
from pykraft.core.status import Status
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.authorization import Guard
from pykraft.host.clients.client_rights import (
    GROUP_KEY_TYPE,
    ID_ALONE_VERSION,
    NO_TOPIC_ID,
    NODE_RESOURCE,
    TOPIC_RESOURCE,
    Screen,
)
from pykraft.host.clients.consumer_fetches import ConsumerFetches
from pykraft.host.clients.leader_questions import ProducerIds, VoterEndpoints
from pykraft.host.clients.produce_requests import ClientAnswer, ProduceRequests, refuse_too_large
from pykraft.host.clients.producer_states import ProducerStates
from pykraft.host.clients.records_profile import RecordsProfile, StrictProfile
from pykraft.host.clients.time_searches import NEWEST_TIME, NOT_FOUND, TimeSearches
from pykraft.host.clients.topics import NOBODY, ClientTopics, committed_end
from pykraft.host.fetch_read import FetchReads, HeaderAndBytes, ReadableLog, batches_up_to, read_durable
from pykraft.host.groups.group_log import GroupLog
from pykraft.host.groups.group_requests import GroupRequests, coordinator_error
from pykraft.host.inbound import Requester
from pykraft.host.inbox import Inbox
from pykraft.host.ports import Ports
from pykraft.host.producers import Producers
from pykraft.protocol.api import RequestHeader
from pykraft.protocol.cut_frame import CutFrame
from pykraft.protocol.messages import CLIENT_KEYS, GROUP_KEYS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.types import Epoch, NodeId, Offset, Uuid

LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
FIRST_VERSIONS: Final = {
    LATEST: 1,
    EARLIEST: 1,
    NEWEST_TIME: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The version from which on a request may ask for each of these; any other negative time asks for nothing."""


class OffsetRequests:
    """Answers about offsets, from the core's status and the log."""

    def __init__(self, searches: TimeSearches, view: LogView, topics: ClientTopics) -> None:
        self._searches = searches
        self._view = view
        self._topics = topics

    def list_offsets(
        self, body: Body, version: int, is_wanted: Callable[[], bool], answer: Callable[[Body], None]
    ) -> None:
        """Answer ListOffsets, perhaps after a search."""
        topics: list[Any] = body["topics"]
        rows = [{"name": topic["name"], "partitions": [None] * len(topic["partitions"])} for topic in topics]
        asked = [
            (row, at, part)
            for row, topic in zip(rows, topics, strict=True)
            for at, part in enumerate(topic["partitions"])
        ]
        counts = Counter((row["name"], part["partition_index"]) for row, _, part in asked)
        unanswered = len(asked)

        def answer_part(row: Body, at: int, part: Body, fields: Body) -> None:
            nonlocal unanswered
            row["partitions"][at] = {"partition_index": part["partition_index"], "error_code": 0, **fields}
            unanswered -= 1
            if not unanswered:
                answer({"topics": rows})

        if not asked:
            answer({"topics": rows})
        for row, at, part in asked:
            then = partial(answer_part, row, at, part)
            # Kafka's answer, and so a request costs at most one search for each name of the topic.
            if counts[row["name"], part["partition_index"]] > 1:
                then({"error_code": ErrorCode.INVALID_REQUEST})
            elif part["timestamp"] < 0 and version < FIRST_VERSIONS.get(part["timestamp"], version + 1):
                then({"error_code": ErrorCode.UNSUPPORTED_VERSION})
            else:
                self._list_one(row["name"], part, is_wanted, then)

    def ends_of_epochs(self, body: Body) -> Body:
        return {
            "topics": [
                {
                    "topic": topic["topic"],
                    "partitions": [self._end_of_epoch(topic["topic"], part) for part in topic["partitions"]],
                }
                for topic in body["topics"]
            ]
        }

    def _end_of_epoch(self, name: str, part: Body) -> Body:
        told = {"partition": part["partition"], "error_code": ErrorCode.NONE}
        try:
            self._topics.check(name, part["partition"], epoch=part["current_leader_epoch"])
        except ProtocolError as error:
            return {**told, "error_code": error.code}
        asked = Epoch(part["leader_epoch"])
        if not 0 <= asked <= self._view.last_epoch:
            return told
        end = self._view.end_of_epoch(asked)
        return {**told, "leader_epoch": end.epoch, "end_offset": end.offset}

    def _list_one(self, name: str, part: Body, is_wanted: Callable[[], bool], then: Callable[[Body], None]) -> None:
        try:
            status = self._topics.check(name, part["partition_index"], epoch=part["current_leader_epoch"])
        except ProtocolError as error:
            then({"error_code": error.code})
            return
        timestamp: int = part["timestamp"]
        if timestamp == LATEST and status.high_watermark is None:
            # Consumers may have seen more than this leader knows to be committed: an end below that would be wrong.
            then({"error_code": ErrorCode.OFFSET_NOT_AVAILABLE})
        elif timestamp == LATEST:
            then({"offset": committed_end(status), "leader_epoch": status.epoch})
        elif timestamp in (EARLIEST, EARLIEST_LOCAL):
            then({"offset": status.log_start_offset, "leader_epoch": self._epoch_at(status)})
        elif timestamp >= 0 or timestamp == NEWEST_TIME:
            self._searches.find(timestamp, status.log_start_offset, committed_end(status), is_wanted, then)
        else:
            # There is no remote storage, and nothing waits for its upload.
            then(NOT_FOUND)

    def _epoch_at(self, status: Status) -> Epoch:
        epochs = self._view.epochs
        return epochs[0].epoch if epochs else status.epoch


BROKERS: Final = 1
_DEFAULT_CONFIG: Final = 5


def metadata(body: Body, version: int, listener: str, topics: ClientTopics) -> Body:
    """The nodes, and the topics that the request names; all without a list, and in version 0 with an empty one."""
    wanted: list[Any] | None = body["topics"]
    leader_id, _ = topics.leader(listener)
    if wanted is None or (version == 0 and not wanted):
        rows = [_topic_row(topics.name, listener, topics)]
    else:
        rows = [_asked_row(each, version, listener, topics) for each in wanted]
    return {
        "brokers": _node_rows("node_id", listener, topics),
        "cluster_id": topics.config.cluster_id,
        "controller_id": leader_id,
        "topics": rows,
    }


def describe_topic_partitions(body: Body, listener: str, topics: ClientTopics) -> Body:
    """The topics that the request names, all without names, in order; from the cursor's on, and so many at a time."""
    names = sorted({each["name"] for each in body["topics"]}) or [topics.name]
    cursor, limit = body["cursor"], body["response_partition_limit"]
    if cursor is not None:
        if cursor["partition_index"] < 0:
            row = {"error_code": ErrorCode.INVALID_REQUEST, "name": cursor["topic_name"], "topic_id": NO_TOPIC_ID}
            return {"topics": [row]}
        names = [name for name in names if name >= cursor["topic_name"]]
    rows: list[Body] = []
    for name in names:
        if sum(len(row["partitions"]) for row in rows) >= max(1, limit) and name in topics.ids:
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": 0}}
        row = _asked_row({"name": name, "topic_id": NO_TOPIC_ID}, ID_ALONE_VERSION, listener, topics)
        # Kafka's admin client fails on null, which the definition allows.
        parts = [{**part, "eligible_leader_replicas": [], "last_known_elr": []} for part in row["partitions"]]
        rows.append({**row, "partitions": parts})
    return {"topics": rows}


def describe_brokers(listener: str, topics: ClientTopics) -> Body:
    """DescribeCluster for a client of this listener, to whom every node is a broker."""
    leader_id, _ = topics.leader(listener)
    return {
        "endpoint_type": BROKERS,
        "cluster_id": topics.config.cluster_id,
        "controller_id": leader_id,
        "brokers": _node_rows("broker_id", listener, topics),
    }


def describe_configs(body: Body, topics: ClientTopics) -> Body:
    """The settings of a topic that Kafka's tools look at; a node names none."""
    return {"results": [_config_row(each, topics) for each in body["resources"]]}


TRANSACTION_KEY_TYPE: Final = 1
SEVERAL_KEYS_VERSION: Final = 4
"""The first version of FindCoordinator that asks for several keys."""


def find_coordinator(
    body: Body, version: int, listener: str, topics: ClientTopics, strict: StrictProfile | None
) -> Body:
    """The leader, for every group; UNSUPPORTED_VERSION for what nobody keeps, since clients repeat softer errors."""
    code, text = ErrorCode.NONE, None
    leader_id, _ = topics.leader(listener)
    endpoint = topics.nodes(listener).get(NodeId(leader_id))
    if body["key_type"] == TRANSACTION_KEY_TYPE:
        # Librdkafka repeats the question after any other error.
        code, text = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "this quorum has no transactions"
    elif body["key_type"] != GROUP_KEY_TYPE:
        code, text = ErrorCode.UNSUPPORTED_VERSION, "this quorum keeps consumer groups only"
    elif strict is not None and coordinator_error(strict) == ErrorCode.UNSUPPORTED_VERSION:
        code = ErrorCode.UNSUPPORTED_VERSION
        text = f"this quorum keeps no consumer groups now: {strict.why}"
    elif endpoint is None:
        code, text = ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody leads, or clients of this listener cannot reach it"
    node: Body = {"node_id": -1, "host": "", "port": -1}
    if not code and endpoint is not None:
        node = {"node_id": leader_id, "host": endpoint.host, "port": endpoint.port}
    told: Body = {"error_code": code, "error_message": text, **node}
    if version < SEVERAL_KEYS_VERSION:
        return told
    return {"coordinators": [{"key": key, **told} for key in body["coordinator_keys"]]}


def _node_rows(id_name: str, listener: str, topics: ClientTopics) -> list[Body]:
    nodes = topics.nodes(listener).items()
    return [{id_name: node_id, "host": endpoint.host, "port": endpoint.port} for node_id, endpoint in nodes]


def _asked_row(asked: Body, version: int, listener: str, topics: ClientTopics) -> Body:
    asked_name: str | None = asked["name"]
    if asked_name is None and version < ID_ALONE_VERSION:
        # A request may say so in versions whose answer cannot: it has to name each topic.
        return {"error_code": ErrorCode.INVALID_REQUEST, "name": "", "topic_id": Uuid(asked["topic_id"])}
    name = topics.name_of(asked["topic_id"]) if asked_name is None else asked_name
    if name is not None and name in topics.ids:
        return _topic_row(name, listener, topics)
    code = ErrorCode.UNKNOWN_TOPIC_ID if asked_name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {"error_code": code, "name": asked_name, "topic_id": Uuid(asked["topic_id"]), "partitions": []}


def _topic_row(name: str, listener: str, topics: ClientTopics) -> Body:
    leader_id, epoch = topics.leader(listener)
    voters = sorted(topics.status().voters.ids)
    partition = {
        "error_code": ErrorCode.NONE if leader_id != NOBODY else ErrorCode.LEADER_NOT_AVAILABLE,
        "partition_index": 0,
        "leader_id": leader_id,
        "leader_epoch": epoch,
        "replica_nodes": voters,
        "isr_nodes": voters,
    }
    return {"error_code": ErrorCode.NONE, "name": name, "topic_id": topics.ids[name], "partitions": [partition]}


def _config_row(resource: Body, topics: ClientTopics) -> Body:
    kind, name = resource["resource_type"], resource["resource_name"]
    row = {"error_code": ErrorCode.NONE, "error_message": None, "resource_type": kind, "resource_name": name}
    configs: list[Body] = []
    if kind == TOPIC_RESOURCE and name not in topics.ids:
        row["error_code"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif kind == TOPIC_RESOURCE:
        size_bytes = topics.config.raft.batch_size_bytes_max
        settings = {
            "cleanup.policy": "delete",
            "max.message.bytes": str(size_bytes),
            "message.timestamp.type": "CreateTime",
        }
        configs = [_setting(key, value) for key, value in settings.items()]
    elif kind != NODE_RESOURCE:
        row |= {"error_code": ErrorCode.INVALID_REQUEST, "error_message": f"resources of type {kind} have no settings"}
    wanted: list[str] | None = resource["configuration_keys"]
    return {**row, "configs": [each for each in configs if wanted is None or each["name"] in wanted]}


def _setting(name: str, value: str) -> Body:
    return {
        "name": name,
        "value": value,
        "read_only": True,
        "config_source": _DEFAULT_CONFIG,
        "is_sensitive": False,
        "documentation": None,
    }


class ClientRequests:
    """All that a node does for clients."""

    def __init__(  # noqa: PLR0913, PLR0917 - each is a neighbor of its own
        self,
        config: NodeConfig,
        status: Callable[[], Status],
        ports: Ports,
        inbox: Inbox,
        producers: Producers,
        groups: GroupLog,
        rng: Random,
        *,
        reads: FetchReads,
        view: LogView,
        log: ReadableLog,
        guard: Guard | None = None,
    ) -> None:
        """The recovered ``log`` shows what is known of producers; ``rng`` makes the ids of members of groups."""
        self._guard = guard
        self._endpoints = VoterEndpoints(ports, config)
        self._topics = topics = ClientTopics(config=config, status=status, endpoints=self._endpoints.known)
        self._states = states = ProducerStates(producers_max=config.client_producers_max)
        self.profile = RecordsProfile(ports, config)
        """What clients may write; hears which software each replica is."""
        self._fetches = ConsumerFetches(ports, reads, topics)
        recover(self, view, log)
        self._offsets = OffsetRequests(TimeSearches(reads, log), view, topics)
        self._groups = GroupRequests(groups, topics, lambda: self.profile.strict(status()), rng)
        self._produce = ProduceRequests(
            ports=ports,
            inbox=inbox,
            producers=producers,
            states=states,
            topics=topics,
            strict=lambda: self.profile.strict(status()),
        )
        self.producer_ids = ProducerIds(ports, topics, states)
        self.dialers = (self.producer_ids, self._endpoints)
        """They own the connections to the leader that clients' questions need."""

    def serves(self, api_key: int, body: Body) -> bool:
        """True for a request of a client, false for one of a replica."""
        if api_key != ApiKey.FETCH:
            return api_key in CLIENT_KEYS
        if body["replica_id"] >= 0 or body["replica_state"]["replica_id"] >= 0:
            return False
        # An observer without an id tells the epoch of its last record; the core refuses one that does not.
        told = [part["last_fetched_epoch"] for topic in body["topics"] for part in topic["partitions"]]
        if all(epoch < 0 for epoch in told):
            return True
        # So does kafka-python's consumer. But a replica knows no sessions and leaves min_bytes 0, or names its cluster.
        return body["cluster_id"] is None and (body["session_epoch"] >= 0 or body["min_bytes"] > 0)

    def handle(
        self,
        api_key: int,
        version: int,
        body: Body,
        requester: Requester,
        is_wanted: Callable[[], bool],
        answer: ClientAnswer,
    ) -> Callable[[], object] | None:
        listener = requester.listener
        if self._guard is not None:
            screened = Screen(self._guard, requester, api_key, version, self._topics).pass_on(body, answer)
            if screened is None:
                return None
            body, answer = screened
        match api_key:
            case ApiKey.FETCH:
                return self._fetches.handle(body, version, listener, is_wanted, answer)
            case ApiKey.PRODUCE:
                return self._produce.handle(body, version, requester, answer)
            case ApiKey.LIST_OFFSETS:
                self._offsets.list_offsets(body, version, is_wanted, answer)
            case ApiKey.OFFSET_FOR_LEADER_EPOCH:
                answer(self._offsets.ends_of_epochs(body))
            case ApiKey.METADATA:
                answer(metadata(body, version, listener, self._topics))
            case ApiKey.DESCRIBE_TOPIC_PARTITIONS:
                answer(describe_topic_partitions(body, listener, self._topics))
            case ApiKey.DESCRIBE_CONFIGS:
                answer(describe_configs(body, self._topics))
            case ApiKey.FIND_COORDINATOR:
                strict = self.profile.strict(self._topics.status())
                answer(find_coordinator(body, version, listener, self._topics, strict))
            case _ if api_key in GROUP_KEYS:
                self._groups.handle(api_key, version, body, requester.client_id, answer)
            case _:
                assert api_key == ApiKey.INIT_PRODUCER_ID, f"`serves` passed API {api_key}"
                self.producer_ids.handle(body, listener, is_wanted, answer)
        return None

    def refuse_too_large(self, header: RequestHeader, data: CutFrame) -> Body:
        return refuse_too_large(header, data)

    def describe_brokers(self, listener: str) -> Body:
        return describe_brokers(listener, self._topics)

    def replica_fetched(self, request: FetchRequest, software: str | None) -> None:
        """A replica fetches from this node; ``software`` is its name in ApiVersions."""
        self.profile.replica_fetched(request, software)

    def appended(self, batches: Sequence[HeaderAndBytes]) -> None:
        for header, _ in batches:
            self._states.appended(header)
        self.profile.appended(batches)
        self._fetches.control_runs.appended(batches)

    def truncated(self, end_offset: Offset) -> None:
        self._states.truncate_to(end_offset)
        self.profile.truncated(end_offset)
        self._fetches.control_runs.truncated(end_offset)

    def begun_anew(self, epoch: Epoch) -> None:
        """A snapshot that ends in this epoch replaced the log."""
        self._states.begin_anew(epoch)
        self._fetches.control_runs.begin_anew()

    def after_step(self, status: Status) -> None:
        """After a step: answer what waited for it."""
        self.profile.after_step(status)
        self._endpoints.after_step(status)
        self._produce.poll(status)
        self._produce.committed()
        self._fetches.answer_ready()
        self._groups.after_step(status)
        self.producer_ids.after_step()

    def poll(self, mono_ms: int, wall_ms: int | None = None) -> None:
        """``wall_ms`` is None for a clock that does not know the time of day."""
        self._produce.wall_ms = wall_ms
        self.profile.poll(mono_ms)
        self._endpoints.poll(mono_ms)
        self._fetches.poll(mono_ms)
        self._groups.poll(mono_ms)
        self.producer_ids.poll(mono_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        parts = (self._fetches, self.producer_ids, self._endpoints, self._groups)
        found = (each.next_deadline_ms for each in parts)
        return min((each for each in found if each is not None), default=None)


PIECE_SIZE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of the log that a start reads at a time."""


def recover(clients: ClientRequests, view: LogView, log: ReadableLog) -> None:
    """Show the batches of the whole log: to the producers' state, and to the profile."""
    offset, end = view.start_offset, view.end_offset
    if offset > 0:
        # A snapshot stands for the records before: whoever wrote them is unknown.
        clients.begun_anew(view.epochs[0].epoch if view.epochs else view.last_epoch)
    while offset < end:
        data = read_durable(log, offset, PIECE_SIZE_BYTES_MAX)
        found = [] if data is None or isinstance(data, Exception) else batches_up_to(end, data)
        if not found:
            # Damage, or a file that was just replaced: who wrote there is unknown.
            clients.begun_anew(view.last_epoch)
            return
        clients.appended(found)
        offset = found[-1][0].end_offset
