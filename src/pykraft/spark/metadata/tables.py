"""The tables of a metadata image: rows of named, typed columns, in the order of their keys, without secrets.

| table | a row is |
|---|---|
| brokers, controllers | a registration |
| topics | a topic |
| partitions | a partition with its leader and ISR |
| features | a finalized feature |
| configs | a configuration of a topic, a broker or all brokers; the values of secrets are masked |
| acls | an access rule |
| quotas | a value for an entity |
| credentials | that a user has a SCRAM credential; never the credential |
| tokens | a delegation token's id, owner and times; never its HMAC, which no record has |
| producer_ids | the next producer id that a broker will be given |

Each row ends with ``changed_offset``, the record that changed it last (null if a snapshot holds it), and
``changed_ms``, the wall time of that record.

Two images differ by rows with the same key, compared without these two columns; a difference names each row once.

Source: KIP-631; Kafka's ``ResourceType``, ``ConfigResource.Type``, ``AclOperation``, ``ScramMechanism``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pykraft.protocol.metadata.record import without_secrets
from pykraft.spark.metadata.image import ImageEntry, MetadataImage, TableRow
from pykraft.types import Uuid, uuid_text

_CHANGED: Final = {"changed_offset": "bigint", "changed_ms": "bigint"}
_ENDPOINTS: Final = "array<struct<name:string,host:string,port:int,security_protocol:int>>"
_RANGES: Final = "array<struct<name:string,min_supported_version:int,max_supported_version:int>>"
COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    name: dict(column.split() for column in columns.split(", "))
    for name, columns in {
        "brokers": (
            "broker_id int, broker_epoch bigint, incarnation_id string, rack string, fenced boolean, "
            f"in_controlled_shutdown boolean, end_points {_ENDPOINTS}, features {_RANGES}, log_dirs array<string>, "
            "cordoned_log_dirs array<string>"
        ),
        "controllers": f"controller_id int, incarnation_id string, end_points {_ENDPOINTS}, features {_RANGES}",
        "topics": "name string, topic_id string, partitions int",
        "partitions": (
            "topic string, topic_id string, partition_id int, leader int, leader_epoch int, partition_epoch int, "
            "replicas array<int>, isr array<int>, eligible_leader_replicas array<int>, last_known_elr array<int>, "
            "adding_replicas array<int>, removing_replicas array<int>, leader_recovery_state int, directories "
            "array<string>"
        ),
        "features": "name string, feature_level int",
        "configs": "resource_type string, resource_name string, name string, value string",
        "acls": (
            "id string, resource_type string, resource_name string, pattern_type string, principal string, host "
            "string, operation string, permission_type string"
        ),
        "quotas": "entity array<struct<entity_type:string,entity_name:string>>, key string, value double",
        "credentials": "name string, mechanism string, iterations int",
        "tokens": (
            "token_id string, owner string, requester string, renewers array<string>, issue_timestamp bigint, "
            "max_timestamp bigint, expiration_timestamp bigint"
        ),
        "producer_ids": "next_producer_id bigint",
    }.items()
}
"""The columns of each table, with Spark's types; `_CHANGED` follow in each."""
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "brokers": ("broker_id",),
    "controllers": ("controller_id",),
    "topics": ("name", "topic_id"),
    "partitions": ("topic", "topic_id", "partition_id"),
    "features": ("name",),
    "configs": ("resource_type", "resource_name", "name"),
    "acls": ("id",),
    "quotas": ("entity", "key"),
    "credentials": ("name", "mechanism"),
    "tokens": ("token_id",),
    "producer_ids": (),
}
"""The columns that name a row of each table, in the order in which rows are sorted."""
_WORDS: Final[Mapping[tuple[str, str], Mapping[int, str]]] = {
    ("configs", "resource_type"): {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"},
    ("acls", "resource_type"): dict(
        enumerate(("topic", "group", "cluster", "transactional_id", "delegation_token", "user"), start=2)
    ),
    ("acls", "pattern_type"): {3: "literal", 4: "prefixed"},
    ("acls", "operation"): dict(
        enumerate(
            (
                *("all", "read", "write", "create", "delete", "alter", "describe", "cluster_action"),
                *("describe_configs", "alter_configs", "idempotent_write", "create_tokens", "describe_tokens"),
                "two_phase_commit",
            ),
            start=2,
        )
    ),
    ("acls", "permission_type"): {2: "deny", 3: "allow"},
    ("credentials", "mechanism"): {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"},
}
"""Kafka's words for its numbers; a number that has none here is shown as it is."""


def columns_of_table(name: str) -> dict[str, str]:
    return {**COLUMNS[name], **_CHANGED}


def ddl_of(name: str) -> str:
    """The same for Spark, such as ``name string, feature_level int``."""
    return ", ".join(f"{column} {kind}" for column, kind in columns_of_table(name).items())


def rows_of(image: MetadataImage, name: str) -> list[TableRow]:
    """The rows of one table of `COLUMNS`, sorted by its keys."""
    entries: Mapping[Any, ImageEntry] = getattr(image, name)
    more = _MORE.get(name)
    rows = [_row(name, entry, more(image, entry) if more else {}) for entry in entries.values()]
    return sorted(rows, key=lambda row: [_sortable(row[column]) for column in KEYS[name]])


def _row(name: str, entry: ImageEntry, more: TableRow) -> TableRow:
    body = without_secrets(entry.changed.record).body if name == "configs" else entry.body
    found = {column: _shown(name, column, (more | body).get(column)) for column in COLUMNS[name]}
    return found | {"changed_offset": entry.changed.offset, "changed_ms": entry.changed.timestamp_ms}


def _of_partition(image: MetadataImage, entry: ImageEntry) -> TableRow:
    return {"topic": image.topic_name(entry.body["topic_id"])}


def _of_topic(image: MetadataImage, entry: ImageEntry) -> TableRow:
    return {"partitions": sum(topic_id == entry.body["topic_id"] for topic_id, _ in image.partitions)}


_MORE: Final[Mapping[str, Callable[[MetadataImage, ImageEntry], TableRow]]] = {
    "partitions": _of_partition,
    "topics": _of_topic,
}
"""Columns that are not in the record."""


def _shown(name: str, column: str, value: Any) -> Any:  # noqa: ANN401 - any value of a record
    match value:
        case bytes():  # no other field of a table has bytes
            return uuid_text(Uuid(value))
        case [{"name": _}, *_]:  # a broker lists its endpoints and features in any order
            return sorted(value, key=lambda one: one["name"])
        case list():
            return [_shown(name, column, each) for each in value]
        case int() if (name, column) in _WORDS:
            return _WORDS[name, column].get(value, str(value))
    return value


def _sortable(value: object) -> tuple[bool, Any]:
    if isinstance(value, list):
        value = [sorted((key, each or "") for key, each in one.items()) for one in value]
    return value is None, "" if value is None else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A row that is not the same; ``before`` and ``after`` have the columns that differ."""

    table: str
    change: Literal["added", "removed", "changed"]
    key: TableRow
    before: TableRow | None
    after: TableRow | None


def differences(before: MetadataImage, after: MetadataImage) -> Iterator[Difference]:
    """The rows that differ, table by table, in the order of their keys."""
    for table in COLUMNS:
        old, new = _by_key(before, table), _by_key(after, table)
        for key in [*old, *(key for key in new if key not in old)]:
            found = _compared(table, old.get(key), new.get(key))
            if found is not None:
                yield found


def _by_key(image: MetadataImage, table: str) -> dict[str, TableRow]:
    rows = ({column: row[column] for column in COLUMNS[table]} for row in rows_of(image, table))
    return {repr([row[column] for column in KEYS[table]]): row for row in rows}


def _compared(table: str, old: TableRow | None, new: TableRow | None) -> Difference | None:
    there = new if old is None else old
    assert there is not None
    key = {column: there[column] for column in KEYS[table]}
    if old is None or new is None:
        change: Literal["added", "removed"] = "added" if old is None else "removed"
        return Difference(table=table, change=change, key=key, before=old, after=new)
    other = [column for column in COLUMNS[table] if old[column] != new[column]]
    if not other:
        return None
    before, after = ({column: row[column] for column in other} for row in (old, new))
    return Difference(table=table, change="changed", key=key, before=before, after=after)
