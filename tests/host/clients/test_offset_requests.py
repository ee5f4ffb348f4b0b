"""ListOffsets and OffsetForLeaderEpoch.

Source: Kafka's ``UnifiedLog.fetchOffsetByTimestamp``; KIP-734, KIP-101.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.config import METADATA_TOPIC_NAME
from pykraft.errors import ErrorCode
from pykraft.protocol.messages import ApiKey
from pykraft.types import Epoch, Offset
from tests.host.clients.test_records_profile import CONTROL
from tests.host.clients.world import FOLLOWS, LEADS, Leader, batch_of, with_header
from tests.host.fakes import TOPIC_NAME


def list_offsets(leader: Leader, timestamp: int, *, name: str = TOPIC_NAME, version: int = 11) -> tuple[int, int, int]:
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    leader.ask(ApiKey.LIST_OFFSETS, version, {"topics": [{"name": name, "partitions": [part]}]})
    [topic] = leader.answer()["topics"]
    [told] = topic["partitions"]
    return told["error_code"], told["offset"], told["timestamp"]


def filled() -> Leader:
    leader = Leader()
    leader.append(with_header(CONTROL))
    leader.append(batch_of([b"a", b"b"], timestamp_ms=10), batch_of([b"c"], timestamp_ms=30))
    leader.append(batch_of([b"d"], timestamp_ms=20))
    leader.append(batch_of([b"not committed"], timestamp_ms=50), is_committed=False)
    return leader


@pytest.mark.parametrize(
    ("timestamp", "told"),
    [
        (-1, (0, 5, -1)),
        (-2, (0, 0, -1)),
        (-4, (0, 0, -1)),
        (-3, (0, 3, 30)),
        (-5, (0, -1, -1)),
        (-6, (0, -1, -1)),
        (-7, (ErrorCode.UNSUPPORTED_VERSION, -1, -1)),
        (0, (0, 1, 10)),
        (11, (0, 3, 30)),
        (31, (0, -1, -1)),
    ],
)
def test_offsets(timestamp: int, told: tuple[int, int, int]) -> None:
    assert list_offsets(filled(), timestamp) == told


def test_a_partition_that_is_named_twice_is_refused_and_not_searched() -> None:
    leader = filled()
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": 0}
    others = [part | {"partition_index": index} for index in range(1, 16)]
    wanted = [{"name": TOPIC_NAME, "partitions": [part] * 16}, {"name": METADATA_TOPIC_NAME, "partitions": [part]}]
    wanted += [{"name": f"t{number}", "partitions": [part, *others]} for number in range(14)]
    leader.ask(ApiKey.LIST_OFFSETS, 7, {"topics": wanted})
    told = leader.answer()["topics"]
    assert {each["error_code"] for each in told[0]["partitions"]} == {ErrorCode.INVALID_REQUEST}
    assert [each["offset"] for each in told[1]["partitions"]] == [1]
    assert {each["error_code"] for row in told[2:] for each in row["partitions"]} == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    leader.ask(ApiKey.LIST_OFFSETS, 7, {"topics": []})
    assert leader.answer()["topics"] == []


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_a_version_may_ask_only_for_what_it_knows(timestamp: int, first: int) -> None:
    assert list_offsets(filled(), timestamp, version=first)[0] == ErrorCode.NONE
    assert list_offsets(filled(), timestamp, version=first - 1)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_the_epoch_of_the_first_offset() -> None:
    assert list_offsets(Leader(), -2) == (0, 0, -1)
    assert list_offsets(Leader(), -3) == (0, -1, -1)


def test_errors() -> None:
    assert list_offsets(Leader(), -1, name="other")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offsets(Leader(FOLLOWS), -1)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert list_offsets(Leader(LEADS._replace(high_watermark=None)), -1)[0] == ErrorCode.OFFSET_NOT_AVAILABLE


def test_a_time_that_only_a_header_claims_is_not_found() -> None:
    leader = Leader()
    header, data = batch_of([b"a"], timestamp_ms=10)
    leader.append(with_header(data, max_timestamp=header.max_timestamp + 90))
    assert list_offsets(leader, 50) == (0, -1, -1)


def test_a_search_that_meets_a_truncation_is_asked_for_again() -> None:
    leader = Leader(LEADS._replace(high_watermark=Offset(1), log_end_offset=Offset(1)))
    leader.recent.begin_anew_at(Offset(1))
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": 5}
    leader.ask(ApiKey.LIST_OFFSETS, 7, {"topics": [{"name": TOPIC_NAME, "partitions": [part]}]})
    leader.reads.truncated()
    [(_, then)] = leader.ports.reads
    then(b"")
    assert leader.answer()["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def ends(leader: Leader, epoch: int, *, name: str = TOPIC_NAME) -> Any:
    part = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
    leader.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"topics": [{"topic": name, "partitions": [part]}]})
    [told] = leader.answer()["topics"][0]["partitions"]
    return told["error_code"], told["leader_epoch"], told["end_offset"]


def test_where_epochs_end() -> None:
    leader = filled()
    assert ends(leader, 4) == (0, 4, 6)
    leader.status = leader.status._replace(epoch=Epoch(7))
    leader.append(batch_of())
    assert ends(leader, 4) == (0, 4, 6)
    assert ends(leader, 5) == (0, 4, 6)
    assert ends(leader, 7) == (0, 7, 7)
    assert ends(leader, 8) == (0, -1, -1)
    assert ends(leader, -1) == (0, -1, -1)
    assert ends(leader, 4, name="other")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
