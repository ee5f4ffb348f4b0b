"""Random sequences to Kafka and to us, for a minute: they answer, ask and write the same.

By hand, for hours: ``python -m tests.kafka.differential --seconds 7200``.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from pykraft.local.kafka.java import Kafka
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import scan
from tests.kafka.differential.__main__ import play_all
from tests.kafka.differential.deviations import DEVIATIONS, alike, plain
from tests.kafka.differential.run import first_disk
from tests.kafka.differential.steps import Answer, Request, Restart, Situation, next_step
from tests.kafka.differential.world import NODE, TOPIC
from tests.spark.logs import batch
from tests.tidy.repository import ROOT

SECONDS = 60
STEPS = 30


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_kafka_and_pykraft_are_alike(kafka: Kafka, tmp_path: Path) -> None:
    found = play_all(kafka, tmp_path, seeds=range(1_000), steps_count=STEPS, seconds=SECONDS)
    assert not found, str(found[0])


def test_differences_are_told_by_their_place() -> None:
    one = {"asks": {2: [{"epoch": 3, "error_message": "no"}]}, "log": [(0, 2, 1)]}
    other = {"asks": {2: [{"epoch": 4, "error_message": "nein"}]}, "log": [(0, 2, 1)]}
    assert alike(plain(one), plain(other)) == [".asks.2[0].epoch: Kafka 3, pykraft 4"]
    assert alike(plain(one), plain(one)) == []
    assert alike(plain({"log": []}), plain({"log": [(0, 2, 1)]})) == [".log: Kafka [], pykraft [[0, 2, 1]]"]


def test_records_are_compared_as_batches() -> None:
    data = batch([b"a", b"b"], base_offset=4)
    [(_, header)] = scan(data)
    assert plain({"records": memoryview(data)}) == {"records": [[4, 6, header.epoch, header.crc]]}
    assert plain({"records": None}) == {"records": []}
    assert plain({"records": b"x" * 100}) == {"records": "no batches"}


def test_a_seed_is_a_sequence() -> None:
    assert first_disk(Random(7)) == first_disk(Random(7)) != first_disk(Random(8))
    one, other, third = ([next_step(Random(seed), situation()) for _ in range(3)] for seed in (1, 1, 2))
    assert one == other != third


def test_every_kind_of_step_is_made() -> None:
    dice = Random(0)
    kinds = set()
    for _ in range(500):
        step = next_step(dice, situation())
        kinds.add(step.api_key if isinstance(step, Request | Answer) else type(step))
        if isinstance(step, Answer):
            assert step.peer in (0, 2)
    assert kinds == {
        *(ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH, Restart),
    }


def test_every_decision_that_is_named_is_there() -> None:
    for _, _, reason in DEVIATIONS:
        for number in re.findall(r"ADR (\d+)", reason):
            assert list((ROOT / "docs" / "adr").glob(f"{number}-*.md")), reason


def situation() -> Situation:
    """A follower of 2, and a candidate at the same time, so that every answer can be asked for."""
    fetched = {"partition": 0, "current_leader_epoch": 3, "fetch_offset": 5, "last_fetched_epoch": 2}
    voted = {"partition_index": 0, "replica_epoch": 3, "replica_id": NODE, "pre_vote": True}
    begun = {"partition_index": 0, "leader_epoch": 3}
    asks = {
        0: [{"api": "FETCH", "body": {"topics": [{"topic_id": bytes(16).hex(), "partitions": [fetched]}]}}],
        2: [
            {"api": "VOTE", "body": {"topics": [{"topic_name": TOPIC, "partitions": [voted]}]}},
            {"api": "BEGIN_QUORUM_EPOCH", "body": {"topics": [{"topic_name": TOPIC, "partitions": [begun]}]}},
            {"api": "END_QUORUM_EPOCH", "body": {"topics": [{"topic_name": TOPIC, "partitions": [begun]}]}},
        ],
    }
    told = {"current_leader": {"leader_id": 2, "leader_epoch": 3}}
    log = [(0, 1, 1, "control"), (1, 5, 2, 77)]
    return Situation({"told": told, "asks": asks, "log": log, "fetches from the leader": True})
