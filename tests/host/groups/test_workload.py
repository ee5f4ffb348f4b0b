"""Drawn lives of a group: members read, commit, fall silent and die while the leader changes, and an oracle watches.

Whatever happens: a committed offset that was acknowledged never falls back, a member that gets the partition begins at
or after it, one member has it in each generation, and once all is calm every record is processed.

    python -m tests.host.groups.test_workload 10000

plays so many lives. Source: ours; KIP-848's list of what a group promises.
"""

import sys
from random import Random
from typing import Any

import pytest

from pykraft.core.effects import NotifyLeaderChange
from pykraft.errors import ErrorCode
from pykraft.protocol.messages import ApiKey
from pykraft.types import Epoch, NodeId, Offset
from tests.host.clients.world import FOLLOWS, LEADS
from tests.host.fakes import TOPIC_NAME
from tests.host.groups.test_classic_groups import SESSION_MS, Coordinator

RECORDS = 60
STEPS = 150


class Life:
    """One group, its members, and the leaders one after the other; ``acknowledged`` is the greatest commit."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.leader = Coordinator()
        self.epoch = 4
        self.members = [MemberOfLife(self, f"m{number}") for number in range(3)]
        self.acknowledged = 0
        self.processed: set[int] = set()
        self.owners: dict[int, str] = {}

    def committed(self) -> int:
        topics = [{"name": TOPIC_NAME, "partition_indexes": [0]}]
        self.leader.call("fetch", ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": "g", "topics": topics}]})
        [group] = self.leader.told["fetch"]["groups"]
        assert group["error_code"] == 0
        offset: int = group["topics"][0]["partitions"][0]["committed_offset"]
        return max(0, offset)

    def change_leader(self) -> None:
        """Another node, which has all that was committed, leads the next epoch."""
        old, self.epoch = self.leader, self.epoch + 1
        old.lose()
        node = Coordinator()
        node.status = FOLLOWS._replace(epoch=Epoch(self.epoch))
        node.append(*old.recent.take(Offset(0), old.recent.end_offset, 2**31 - 1) if old.recent.end_offset else ())
        start = Offset(node.recent.end_offset - 1)
        news = NotifyLeaderChange(epoch=Epoch(self.epoch), leader_id=NodeId(1), epoch_start_offset=start)
        node.delivery.leader_changed(news)
        node.status = LEADS._replace(
            epoch=Epoch(self.epoch), log_end_offset=node.recent.end_offset, high_watermark=node.recent.end_offset
        )
        node.clients.after_step(node.status)
        node.pass_time(old.ms)
        self.leader = node
        assert self.committed() >= self.acknowledged, "a commit fell back"

    def play(self) -> None:
        for _ in range(STEPS):
            what = self.random.random()
            if what < 0.04:
                self.change_leader()
            elif what < 0.1:
                self.leader.pass_time(self.random.choice((1_000, SESSION_MS // 2, SESSION_MS)))
            elif what < 0.13:
                # It is killed, and another process takes its place.
                self.members[self.random.randrange(3)] = MemberOfLife(self, f"m{self.random.random()}")
            elif (member := self.random.choice(self.members)).is_awake():
                member.act()
            assert self.committed() >= self.acknowledged, "a commit fell back"
        for _ in range(400):
            self.leader.pass_time(500)
            for member in self.members:
                member.act()
        assert self.processed == set(range(RECORDS)), f"lost: {set(range(RECORDS)) - self.processed}"
        assert self.committed() == RECORDS


class MemberOfLife:
    """A consumer as clients are: it joins, gets an assignment, reads from the committed offset, commits afterwards."""

    def __init__(self, life: Life, name: str) -> None:
        self.life = life
        self.name = name
        self.id = ""
        self.state = "new"
        self.generation = -1
        self.position: int | None = None
        self.sleeps = 0

    def is_awake(self) -> bool:
        if not self.sleeps and self.life.random.random() < 0.03:
            self.sleeps = 10
        self.sleeps = max(0, self.sleeps - 1)
        return not self.sleeps

    def act(self) -> None:
        {"new": self.join, "joining": self.joined, "syncing": self.synced, "reads": self.read}[self.state]()

    def join(self) -> None:
        self.position, self.state = None, "joining"
        self.life.leader.join(self.name, id_=self.id)

    def joined(self) -> None:
        told = self.life.leader.told.get(self.name)
        if told is None:
            # The leader may be another one: ask again, as after a broken connection.
            self.join()
            return
        if told["error_code"]:
            self.id = told["member_id"] if told["error_code"] == ErrorCode.MEMBER_ID_REQUIRED else ""
            self.join()
            return
        self.generation, self.state = told["generation_id"], "syncing"
        assigned = {each["member_id"]: b"" for each in told["members"]}
        if assigned:
            assigned[self.life.random.choice(list(assigned))] = b"all"
        self.life.leader.sync(self.name, self.id, self.generation, assigned)

    def synced(self) -> None:
        told = self.life.leader.told.get(self.name)
        if told is None or told["error_code"]:
            self.forget(told)
            return
        self.state = "reads"
        if told["assignment"]:
            owner = self.life.owners.setdefault(self.generation, self.id)
            assert owner == self.id, "two members have the partition in one generation"
            self.position = self.life.committed()
            assert self.position >= self.life.acknowledged, "it reads again what is committed"

    def read(self) -> None:
        code = self.life.leader.beat(self.id, self.generation)
        if code:
            self.forget({"error_code": code})
        elif self.position is not None:
            end = min(RECORDS, self.position + self.life.random.randint(1, 3))
            self.life.processed |= set(range(self.position, end))
            self.position = end
            code = self.life.leader.commit_offset(self.id, self.generation, end)
            if code:
                self.forget({"error_code": code})
            else:
                self.life.acknowledged = max(self.life.acknowledged, end)

    def forget(self, told: Any) -> None:
        if told is not None and told["error_code"] != ErrorCode.REBALANCE_IN_PROGRESS:
            self.id = ""
        self.state = "new"


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_and_no_commit_falls_back(seed: int) -> None:
    Life(seed).play()


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        Life(number).play()
    print(sys.argv[1], "lives")
