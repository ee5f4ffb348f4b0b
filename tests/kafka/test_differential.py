"""Random sequences for Kafka and pykraft: both answer, request and write the same.

By hand, for hours: ``python -m tests.kafka.differential --seconds 7200``.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeGuard

import pytest

from lab.kafka.java import Kafka
from pykraft.protocol.api import encode_response
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import scan
from tests.kafka.differential import snapshots
from tests.kafka.differential.__main__ import play_all
from tests.kafka.differential.deviations import DEVIATIONS, alike, plain
from tests.kafka.differential.planted import PLANTED, plant
from tests.kafka.differential.run import Finding, first_disk, situation_of
from tests.kafka.differential.shrink import shortest
from tests.kafka.differential.situation import NODE, Situation
from tests.kafka.differential.steps import Answer, Request, Restart, Step, next_step
from tests.kafka.differential.world import TOPIC, nothing_new
from tests.spark.logs import batch
from tests.tidy.repository import ROOT

SEEDS = (0, 2, 3, 4, 6, 7, 11, 22)
"""Always the same, and always all of them: a slow machine plays longer. Each planted bug is seen by one of them."""
STEPS = 30
JOBS = 3
"""A sequence mostly waits for its nodes to change no more."""


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_kafka_and_pykraft_are_alike(kafka: Kafka, tmp_path: Path) -> None:
    tally = play_all(kafka, tmp_path, seeds=SEEDS, steps_count=STEPS, jobs=JOBS)
    assert not tally.findings, str(tally.findings[0])
    assert tally.alike + tally.ended == len(SEEDS)
    assert tally.alike >= len(SEEDS) // 2, "Kafka's node ends too often: that is hardly a comparison"


def test_a_sequence_is_shortened_while_the_same_places_differ() -> None:
    steps = [Restart(is_kill=True, expires=bool(number % 2)) for number in range(9)]
    needed = [steps[2], steps[6]]

    def replay(some: Sequence[Step]) -> Finding | None:
        if [each for each in some if any(each is one for one in needed)] != needed:
            return finding(some, ".log: Kafka 1, pykraft 2") if len(some) == 4 else None
        return finding(some, ".told: Kafka 3, pykraft 4")

    found = finding(steps, ".told: Kafka 1, pykraft 2")
    short = shortest(found, replay)
    assert all(one is other for one, other in zip(short.steps, needed, strict=True))
    assert (short.number, short.differences) == (9, [".told: Kafka 3, pykraft 4"])
    assert shortest(found, replay, plays_max=0) is found
    assert "--seeds 5:6 --steps 9" in str(short)


def finding(steps: Sequence[Step], difference: str) -> Finding:
    return Finding(seed=5, number=len(steps), steps=steps, differences=[difference])


def test_an_answer_fits_what_it_answers() -> None:
    now = situation()
    [fetch] = now.look["asks"][0]
    fitting = Answer(peer=0, api_key=ApiKey.FETCH, body={}, asked=fetch["body"], of_leader=True)
    assert fitting.fits(now)
    assert not replace(fitting, of_leader=False).fits(now)
    assert not replace(fitting, asked={}).fits(now)
    assert not replace(fitting, peer=3).fits(now)


def test_old_requests_have_answers_of_their_own_kind() -> None:
    for api_key, version in ((ApiKey.VOTE, 2), (ApiKey.BEGIN_QUORUM_EPOCH, 1), (ApiKey.END_QUORUM_EPOCH, 1)):
        assert encode_response(api_key, version, 7, nothing_new(api_key, 3))


def test_planted_bugs_are_planted(tmp_path: Path) -> None:
    for bug in PLANTED:
        assert bug.seed in SEEDS, "the stage would see it"
        assert bug.edit.after in (plant(bug, tmp_path) / "pykraft" / bug.edit.path).read_text()
    gone = replace(PLANTED[1].edit, name="gone", before="no such text")
    with pytest.raises(ValueError, match="holds 'no such text' 0 times, expected once"):
        plant(replace(PLANTED[1], edit=gone), tmp_path)


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
    assert kinds == {*(ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH, Restart)}


def test_leaders_of_some_sequences_leave_often() -> None:
    now = replace(situation(), is_of_goodbyes=situation_of(3).is_of_goodbyes)
    dice = Random(0)
    left = [step for step in (next_step(dice, now) for _ in range(100)) if _is_goodbye(step)]
    assert len(left) > 10
    assert any(not each.body["topics"][0]["partitions"][0]["preferred_candidates"] for each in left)


def _is_goodbye(step: Step) -> TypeGuard[Request]:
    if not isinstance(step, Request) or step.api_key != ApiKey.END_QUORUM_EPOCH or step.version == 0:
        return False
    [partition] = step.body["topics"][0]["partitions"]
    return (partition["leader_id"], partition["leader_epoch"]) == (2, 3)


def test_a_snapshot_is_decided_by_its_id_and_comes_in_slices() -> None:
    assert situation_of(4).has_snapshots
    now = replace(situation(), has_snapshots=True)
    dice = Random(0)
    ids = [snapshots.new_id(dice, now, 5, 3) for _ in range(50)]
    assert {each["end_offset"] for each in ids} == set(range(6, 12))
    assert {each["epoch"] for each in ids} == {2, 3}
    whole = snapshots.content(7, 3)
    assert whole == snapshots.content(7, 3) != snapshots.content(7, 2)
    assert [header.is_control for _, header in scan(whole)] == [True, False, True]
    position, data = 0, b""
    while position < len(whole):
        asked = {"snapshot_id": {"end_offset": 7, "epoch": 3}, "position": position, "current_leader_epoch": 3}
        body = snapshots.answer(dice, 2, {"topics": [{"name": TOPIC, "partitions": [asked]}]})
        [found] = body["topics"][0]["partitions"]
        if not found["error_code"]:
            data += found["unaligned_records"]
        position = len(data)
    assert data == whole


def test_a_log_that_a_snapshot_has_replaced_ends_where_that_does() -> None:
    names = ["00000000000000000003-0000000001.checkpoint", "00000000000000000012-0000000002.checkpoint"]
    assert Situation({"log": [], "checkpoints": names}).end == (2, 12)
    assert Situation({"log": [], "checkpoints": []}).end == (0, 0)


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
