"""The cluster as the records of the metadata log describe it, up to some offset.

Kafka calls this the metadata image. Records are applied in the order of the log; a snapshot's records come first.
Invariant: the image after the records below an offset equals the image from a snapshot with that end offset. Its size
is that of the cluster, whatever the length of the log.

- A record of a transaction counts from the end of its transaction on, and never if that is aborted.
- A removed topic takes its partitions and configurations with it.
- A partition's leader epoch grows with each change that names a leader; its partition epoch with each change.

`LeaderHistory` has a row for each change of the leader or the in-sync replicas of a partition:

| column | type | meaning |
|---|---|---|
| topic, topic_id | string | |
| partition_id | int | |
| offset | bigint | of the record; null for the state in a snapshot, from which the history begins |
| wall_ms | bigint | time of its append |
| leader | int | -1: none |
| leader_epoch | int | |
| isr | array<int> | |

Source: KIP-630, KIP-631, KIP-841, KIP-868 (transactions), KIP-966 (eligible leader replicas); Kafka's
``MetadataDelta``, ``PartitionRegistration.merge``, ``ClusterDelta``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pykraft.errors import ProtocolError
from pykraft.protocol.metadata.record import MetadataRecord, read_metadata_record
from pykraft.protocol.records import Record
from pykraft.types import Offset, Uuid, uuid_text

NO_LEADER_CHANGE: Final = -2
NO_STATE_CHANGE: Final = -1
TOPIC_RESOURCE: Final = 2
_KEPT_IF_NULL: Final = ("isr", "replicas", "removing_replicas", "adding_replicas", "directories")
_ELR: Final = ("eligible_leader_replicas", "last_known_elr")
Key = tuple[Any, ...]
TableRow = dict[str, Any]
_TYPES: Final = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD")
_TOLD: Final = ("leader", "leader_epoch", "isr")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRecord:
    """A record and its place; ``offset`` is None for a record of a snapshot, whose place in the log is forgotten.

    Units: ``end_offset`` is exclusive: one more than ``offset``, or the end of the snapshot. ``timestamp_ms`` is the
    wall time of the append, or of the newest record that the snapshot stands for.
    """

    offset: Offset | None
    end_offset: Offset
    timestamp_ms: int
    record: MetadataRecord


def logged_record(where: object, record: Record) -> LoggedRecord:
    """A data record of the log, decoded. Errors: ProtocolError that names the place."""
    try:
        decoded = read_metadata_record(record.value)
    except ProtocolError as error:
        raise ProtocolError(f"{where}: offset {record.offset}: {error}", error.code) from error
    end_offset = Offset(record.offset + 1)
    return LoggedRecord(offset=record.offset, end_offset=end_offset, timestamp_ms=record.timestamp_ms, record=decoded)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageEntry:
    """Something that exists in the cluster: its fields, and the record that last changed it."""

    body: dict[str, Any]
    changed: LoggedRecord


Table = dict[Key, ImageEntry]


class MetadataImage:
    """The tables of a cluster, by the keys of their rows."""

    def __init__(self) -> None:
        self.brokers: Table = {}
        self.controllers: Table = {}
        self.topics: Table = {}
        """By topic id, as are the first parts of the keys of ``partitions``."""
        self.partitions: Table = {}
        self.features: Table = {}
        self.configs: Table = {}
        self.acls: Table = {}
        self.quotas: Table = {}
        self.credentials: Table = {}
        self.tokens: Table = {}
        self.producer_ids: Table = {}
        self.end_offset = Offset(0)
        """The offset after the last record that was taken; exclusive."""
        self.last_timestamp_ms: int | None = None
        """Wall time of the last of them."""
        self._transaction: list[LoggedRecord] | None = None

    def apply(self, logged: LoggedRecord) -> Sequence[LoggedRecord]:
        """Take one record; those that now took effect: it, or all of a transaction, or none.

        Types that describe no state, such as NO_OP_RECORD, change nothing. The records of one transaction are in memory
        at one time, as they are in Kafka.
        """
        self.end_offset = logged.end_offset
        self.last_timestamp_ms = logged.timestamp_ms
        match logged.record.type:
            case "BEGIN_TRANSACTION_RECORD":
                self._transaction = []
                return ()
            case "ABORT_TRANSACTION_RECORD":
                self._transaction = None
                return ()
            case "END_TRANSACTION_RECORD":
                effective, self._transaction = self._transaction or [], None
            case _ if self._transaction is not None:
                self._transaction.append(logged)
                return ()
            case _:
                effective = [logged]
        for each in effective:
            act = _ACTIONS.get(each.record.type)
            if act is not None:
                act(self, each)
        return effective

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self.topics.get((topic_id,))
        return None if topic is None else topic.body["name"]

    def remove_topic(self, topic_id: bytes) -> None:
        topic = self.topics.pop((topic_id,), None)
        for key in [key for key in self.partitions if key[0] == topic_id]:
            del self.partitions[key]
        if topic is not None:
            for key in [key for key in self.configs if key[:2] == (TOPIC_RESOURCE, topic.body["name"])]:
                del self.configs[key]


def _put(name: str, *key: str) -> Callable[[MetadataImage, LoggedRecord], None]:
    def act(image: MetadataImage, logged: LoggedRecord) -> None:
        body = logged.record.body
        getattr(image, name)[tuple(body[each] for each in key)] = ImageEntry(body=body, changed=logged)

    return act


def _remove(name: str, *key: str) -> Callable[[MetadataImage, LoggedRecord], None]:
    def act(image: MetadataImage, logged: LoggedRecord) -> None:
        getattr(image, name).pop(tuple(logged.record.body[each] for each in key), None)

    return act


def _change(table: Table, key: Key, logged: LoggedRecord, **fields: object) -> None:
    """Change fields of a row, if there is such a row and any field."""
    known = table.get(key)
    if known is not None and fields:
        table[key] = ImageEntry(body=known.body | fields, changed=logged)


def _change_partition(image: MetadataImage, logged: LoggedRecord) -> None:
    change = logged.record.body
    key = (change["topic_id"], change["partition_id"])
    known = image.partitions.get(key)
    if known is None:
        return
    fields = {name: change[name] for name in (*_KEPT_IF_NULL, *_ELR) if change.get(name) is not None}
    fields["partition_epoch"] = known.body["partition_epoch"] + 1
    if change["leader"] != NO_LEADER_CHANGE:
        fields |= {"leader": change["leader"], "leader_epoch": known.body["leader_epoch"] + 1}
    if change["leader_recovery_state"] != NO_STATE_CHANGE:
        fields["leader_recovery_state"] = change["leader_recovery_state"]
    _change(image.partitions, key, logged, **fields)


def _change_broker(image: MetadataImage, logged: LoggedRecord) -> None:
    change = logged.record.body
    fields: dict[str, Any] = {}
    if change["fenced"]:
        fields["fenced"] = change["fenced"] > 0  # -1 ends the fencing
    if change.get("in_controlled_shutdown"):
        fields["in_controlled_shutdown"] = True
    if change.get("log_dirs"):
        fields["log_dirs"] = change["log_dirs"]
    if change.get("cordoned_log_dirs") is not None:
        fields["cordoned_log_dirs"] = change["cordoned_log_dirs"]
    _change(image.brokers, (change["broker_id"],), logged, **fields)


def _fence(*, fenced: bool) -> Callable[[MetadataImage, LoggedRecord], None]:
    def act(image: MetadataImage, logged: LoggedRecord) -> None:
        _change(image.brokers, (logged.record.body["id"],), logged, fenced=fenced)

    return act


def _set_feature(image: MetadataImage, logged: LoggedRecord) -> None:
    body = logged.record.body
    if body["feature_level"] == 0:  # a level of 0 turns it off
        image.features.pop((body["name"],), None)
    else:
        image.features[(body["name"],)] = ImageEntry(body=body, changed=logged)


def _set_config(image: MetadataImage, logged: LoggedRecord) -> None:
    body = logged.record.body
    key = (body["resource_type"], body["resource_name"], body["name"])
    if body["value"] is None:
        image.configs.pop(key, None)
    else:
        image.configs[key] = ImageEntry(body=body, changed=logged)


def _set_quota(image: MetadataImage, logged: LoggedRecord) -> None:
    body = logged.record.body
    entity = tuple(
        sorted((each["entity_type"], each["entity_name"] is None, each["entity_name"] or "") for each in body["entity"])
    )
    if body["remove"]:
        image.quotas.pop((entity, body["key"]), None)
    else:
        image.quotas[(entity, body["key"])] = ImageEntry(body=body, changed=logged)


def _remove_topic(image: MetadataImage, logged: LoggedRecord) -> None:
    image.remove_topic(logged.record.body["topic_id"])


def _clear_elr(image: MetadataImage, logged: LoggedRecord) -> None:
    """Of all topics, if the record names none."""
    name = logged.record.body["topic_name"]
    for key, entry in list(image.partitions.items()):
        has_any = any(entry.body.get(field) for field in _ELR)
        if has_any and name in ("", image.topic_name(key[0])):
            _change(image.partitions, key, logged, **{field: [] for field in _ELR})


_ACTIONS: Final[dict[str, Callable[[MetadataImage, LoggedRecord], None]]] = {
    "REGISTER_BROKER_RECORD": _put("brokers", "broker_id"),
    "UNREGISTER_BROKER_RECORD": _remove("brokers", "broker_id"),
    "BROKER_REGISTRATION_CHANGE_RECORD": _change_broker,
    "FENCE_BROKER_RECORD": _fence(fenced=True),
    "UNFENCE_BROKER_RECORD": _fence(fenced=False),
    "REGISTER_CONTROLLER_RECORD": _put("controllers", "controller_id"),
    "UNREGISTER_CONTROLLER_RECORD": _remove("controllers", "controller_id"),
    "TOPIC_RECORD": _put("topics", "topic_id"),
    "REMOVE_TOPIC_RECORD": _remove_topic,
    "PARTITION_RECORD": _put("partitions", "topic_id", "partition_id"),
    "PARTITION_CHANGE_RECORD": _change_partition,
    "CLEAR_ELR_RECORD": _clear_elr,
    "FEATURE_LEVEL_RECORD": _set_feature,
    "CONFIG_RECORD": _set_config,
    "ACCESS_CONTROL_ENTRY_RECORD": _put("acls", "id"),
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": _remove("acls", "id"),
    "CLIENT_QUOTA_RECORD": _set_quota,
    "USER_SCRAM_CREDENTIAL_RECORD": _put("credentials", "name", "mechanism"),
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": _remove("credentials", "name", "mechanism"),
    "DELEGATION_TOKEN_RECORD": _put("tokens", "token_id"),
    "REMOVE_DELEGATION_TOKEN_RECORD": _remove("tokens", "token_id"),
    "PRODUCER_IDS_RECORD": _put("producer_ids"),
}


class LeaderHistory:
    """Follows an image, and tells the changes."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._last: dict[tuple[bytes, int], tuple[object, ...]] = {}

    def take(self, logged: LoggedRecord) -> Iterator[TableRow]:
        """Apply a record to the image; a row for each partition whose leader, leader epoch or ISR it changed.

        The changes of a transaction are told when it ends, and each partition once.
        """
        effective = self._image.apply(logged)
        return (row for each in effective if each.record.type in _TYPES for row in self._changes(each))

    def _changes(self, logged: LoggedRecord) -> Iterator[TableRow]:
        topic_id, partition_id = key = (logged.record.body["topic_id"], logged.record.body["partition_id"])
        entry = self._image.partitions.get(key)
        now = None if entry is None else tuple(entry.body[name] for name in _TOLD)
        if now is None or self._last.get(key) == now:
            return
        self._last[key] = now
        yield {
            "topic": self._image.topic_name(topic_id),
            "topic_id": uuid_text(Uuid(topic_id)),
            "partition_id": partition_id,
            "offset": logged.offset,
            "wall_ms": logged.timestamp_ms,
            **dict(zip(_TOLD, now, strict=True)),
        }
