"""Snapshots of simulated leaders: a Fetch is answered with a snapshot id, FetchSnapshot with slices of its file.

A snapshot is decided by its id, so a leader that is asked again, and both nodes, are given the same bytes.

Invariant: a played leader names only snapshots that end behind the node's log and not behind its own epoch.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.types import ControlRecord, Epoch, Offset, SnapshotFooter, SnapshotHeader
from tests.kafka.differential.situation import Situation

TIMESTAMP_MS: Final = 1_700_000_000_000
NOT_FOUND: Final = 98


def content(end_offset: int, epoch: int) -> bytes:
    """The bytes of the snapshot with this id."""
    head, foot = SnapshotHeader(last_contained_log_timestamp=TIMESTAMP_MS), SnapshotFooter()
    values = [f"value {number} of {end_offset}-{epoch}".encode() for number in range(1 + end_offset % 3)]
    return b"".join(
        (
            _control(head, 0, epoch),
            encode_batch(values, base_offset=Offset(1), epoch=Epoch(epoch), timestamp_ms=TIMESTAMP_MS).data,
            _control(foot, 1 + len(values), epoch),
        )
    )


def _control(record: ControlRecord, offset: int, epoch: int) -> bytes:
    return encode_control_batch(
        [record], base_offset=Offset(offset), epoch=Epoch(epoch), timestamp_ms=TIMESTAMP_MS
    ).data


def end_offset_of(name: str) -> int:
    """Where the snapshot with this file name ends."""
    return int(name.partition("-")[0])


def new_id(dice: Random, now: Situation, fetch_offset: int, epoch: int) -> dict[str, int]:
    """Of a snapshot that a leader of this epoch may have instead of what is fetched."""
    return {"end_offset": fetch_offset + dice.randint(1, 6), "epoch": dice.randint(min(now.end[0], epoch), epoch)}


def answer(dice: Random, peer: int, body: dict[str, Any]) -> dict[str, Any]:
    """The body of an answer to FetchSnapshot: the rest, a part of it, or that there is none any more."""
    [topic] = body["topics"]
    asked = topic["partitions"][0]
    whole = content(asked["snapshot_id"]["end_offset"], asked["snapshot_id"]["epoch"])
    position = int(asked["position"])
    rest = whole[position:]
    part = rest[: dice.randint(1, len(rest))] if rest else b""
    kind = dice.choice(("rest", "rest", "part", "part", "not found"))
    partition = {
        "index": 0,
        "error_code": NOT_FOUND if kind == "not found" else 0,
        "snapshot_id": asked["snapshot_id"],
        "current_leader": {"leader_id": peer, "leader_epoch": asked["current_leader_epoch"]},
        "size": 0 if kind == "not found" else len(whole),
        "position": 0 if kind == "not found" else position,
        "unaligned_records": {"rest": rest, "part": part, "not found": b""}[kind],
    }
    return {"error_code": 0, "topics": [{"name": topic["name"], "partitions": [partition]}]}


def refusal(topic: Mapping[str, Any], error: int, leader: int) -> dict[str, Any]:
    """The body of an answer that nobody waits for any more."""
    [asked] = topic["partitions"]
    partition = {
        "index": 0,
        "error_code": error,
        "snapshot_id": asked["snapshot_id"],
        "current_leader": {"leader_id": leader, "leader_epoch": asked["current_leader_epoch"]},
        "size": 0,
        "position": 0,
        "unaligned_records": b"",
    }
    return {"error_code": 0, "topics": [{"name": topic["name"], "partitions": [partition]}]}
