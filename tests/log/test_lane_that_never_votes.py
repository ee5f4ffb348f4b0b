"""The ordered lane of a node that can never vote: written at once, durable after a while (ADR 118).

Source: Kafka's ``KafkaRaftClient.appendAsFollower``, which syncs for voters and controllers only.
"""

from __future__ import annotations

from random import Random

import pytest

from pykraft.log.lane import UNSYNCED_SIZE_BYTES_MAX
from tests.disks import ScriptedDisk
from tests.log.logs import ONE, run_of
from tests.log.test_lane import LOG_0, Replica, append, random_jobs, write_election


def test_who_can_never_vote_syncs_after_many_bytes_and_before_any_other_job_and_when_idle() -> None:
    fs = ScriptedDisk()
    replica = Replica(fs, config=ONE, can_vote=False)
    replica.perform([append(1, run_of(0, 3))])
    fs.operations.clear()
    next_one = append(2, run_of(3, 1))
    assert replica.lane.only_writes(next_one)
    assert not replica.lane.only_writes(write_election(2, 1))
    replica.perform([next_one])
    replica.lane.relieve()
    assert fs.operations == [("pwrite", LOG_0)]
    replica.perform([append(3, run_of(4, 1)), write_election(4, 1)])
    steps = [("pwrite", LOG_0), ("sync", LOG_0), ("rename", "quorum-state")]
    assert [one for one in fs.operations[1:] if one in steps] == steps
    fs.operations.clear()
    large = append(5, run_of(5, 1, size_bytes=UNSYNCED_SIZE_BYTES_MAX + 1))
    assert not replica.lane.only_writes(large)
    replica.perform([large])
    replica.perform([append(6, run_of(6, 1))])
    assert [one for one in fs.operations if one[1] == LOG_0] == [*steps[:2], ("pwrite", LOG_0)]
    replica.lane.settle()
    assert fs.operations[-3:] == [("sync", LOG_0), ("pwrite", "recovery-point"), ("sync", "recovery-point")]
    replica.passed = replica.passed[-1:]
    fs.power_loss(Random(1))
    replica.restart()
    assert replica.end_offset == 7


@pytest.mark.parametrize("seed", range(100))
def test_who_can_never_vote_finds_a_prefix_after_a_power_loss(seed: int) -> None:
    random = Random(seed)
    fs = ScriptedDisk()
    replica = Replica(fs, can_vote=False)
    for _ in range(4):
        for _ in range(random.randint(1, 6)):
            replica.perform(random_jobs(random, replica))
        if random.random() < 0.5:
            replica.lane.settle()
            replica.passed = replica.passed[-1:]
        fs.power_loss(random)
        replica.restart()
