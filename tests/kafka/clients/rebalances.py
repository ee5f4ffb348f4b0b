"""``python -m tests.kafka.clients.rebalances [MEMBER …] [--all]``: two members of a group of each client, and faults.

All groups read one topic of one quorum at the same time, with commits after processing, while records are appended.

1. The member that reads is killed with SIGKILL, and another one takes its place.
2. The quorum's leader is killed with SIGKILL and restarted.
3. The member that reads is stopped for longer than its session, and goes on.

Committed offsets, which are asked for all the time, never fall back.
Whoever follows begins at or behind what was committed. At the end every record of the log was processed by its group.
Exit status: 0; 1 when a promise was broken or a group did not go on; 2 for a client that is not installed.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from lab.nodes.cluster import Cluster
from lab.nodes.logs import read_stream
from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, QUICK
from tests.kafka.broker_calls import broker_calls, requests_of
from tests.kafka.clients.catalog import CLASSIC, CONTENDERS, Order
from tests.kafka.clients.kills import COUNT_MAX, TOPIC, Output, kill_leader, tail
from tests.kafka.clients.verdict import records_of

CONSUMER: Final = "consumer"
MEMBERS: Final[dict[str, tuple[str, str]]] = {
    "confluent-kafka": ("confluent-kafka", CLASSIC),
    "confluent-kafka, KIP-848": ("confluent-kafka", CONSUMER),
    "java": ("java", CLASSIC),
    "java, KIP-848": ("java", CONSUMER),
    "aiokafka": ("aiokafka", CLASSIC),
    "kafka-python": ("kafka-python", CLASSIC),
    "KafkaJS": ("KafkaJS", CLASSIC),
    "franz-go": ("franz-go", CLASSIC),
    "sarama": ("sarama", CLASSIC),
    "kafka-go": ("kafka-go", CLASSIC),
}
"""The client and the protocol of each group."""
FEW: Final = ("confluent-kafka, KIP-848", "java", "aiokafka", "KafkaJS", "franz-go")
"""One of each family, for CI."""
PRODUCER: Final = "confluent-kafka"
SESSION_MS: Final = 3_000
RATE: Final = 40.0
MORE: Final = 20
"""So many records more are committed after each fault."""
PHASE_TIMEOUT_S: Final = 60.0
PROPERTIES: Final = {
    **QUICK,
    "pykraft.client.listeners": "PLAINTEXT",
    "pykraft.client.topic": TOPIC,
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(SESSION_MS // 10),
}


class Group:
    """The group of one client."""

    def __init__(self, name: str, order: Order, children: Children) -> None:
        client, self.protocol = MEMBERS[name]
        self.stopped = 0
        self.id = name.replace(", ", "-")
        self.processed: dict[int, str] = {}
        self.committed = 0
        self.problems: list[str] = []
        self._contender = CONTENDERS[client]
        self._order = replace(order, group=self.id, protocol=self.protocol, session_ms=SESSION_MS)
        self._children = children
        self._started = 0
        self.members: list[Output] = []
        self._active: Output | None = None
        self._floor: int | None = None
        """What the next member must not go below; None once it has begun."""

    def start_member(self) -> None:
        self._started += 1
        name = f"{self.id}-{self._started}"
        path = self._order.folder / f"{name}.log"
        self.members.append(Output(self._children, name, self._contender.member(self._order), path))

    def read(self) -> None:
        """What the members have printed. Errors: LocalQuorumError when one has ended."""
        for member in self.members:
            new = member.read()
            if member.child.status is not None:
                assert member.child.log_path is not None
                raise LocalQuorumError(f"{member.child.name} ended:\n{tail(member.child.log_path)}")
            if not new:
                continue
            self.processed |= dict(new)
            if self._floor is not None and member is not self._active:
                if new[0][0] < self._floor:
                    self.problems.append(f"{member.child.name} begins at {new[0][0]}, {self._floor} was committed")
                self._floor = None
            if self._floor is None:
                self._active = member

    @property
    def active(self) -> Output:
        """The member that printed last."""
        assert self._active is not None
        return self._active

    def has_committed(self, offset: int) -> None:
        if offset < self.committed:
            self.problems.append(f"the committed offset of {self.id} falls from {self.committed} to {offset}")
        self.committed = max(self.committed, offset)

    @property
    def has_followed(self) -> bool:
        return self._floor is None

    def stop_active(self) -> Output:
        """It gets a SIGSTOP; the next one is another, and begins at what is committed by now or later."""
        self.stopped, self._floor = 1, self.committed
        self.active.child.pause()
        return self.active

    def kill_active(self) -> None:
        """It gets a SIGKILL; otherwise as above."""
        self._floor, killed = self.committed, self.active
        killed.child.kill()
        self.processed |= dict(killed.read())
        self.members.remove(killed)


class Life:
    """A quorum, its groups, and a producer."""

    def __init__(self, names: Sequence[str], children: Children, folder: Path, report: Callable[[str], None]) -> None:
        self._report = report
        self.cluster = Cluster(children, folder, throughput=0, properties=PROPERTIES)
        self.cluster.start()
        servers = ",".join(f"{HOST}:{node.port}" for node in self.cluster.nodes.values())
        order = Order(servers=servers, topic=TOPIC, count=COUNT_MAX, folder=folder, rate=RATE)
        self.groups = [Group(name, order, children) for name in names]
        self._producer = Output(children, "producer", CONTENDERS[PRODUCER].producer(order), folder / "producer.log")

    def play(self) -> list[str]:
        """All three faults; returns what was broken. Errors: LocalQuorumError when a group does not go on."""
        for group in self.groups:
            group.start_member()
            group.start_member()
        self._goes_on("begins")
        for group in self.groups:
            group.kill_active()
        self._another_follows("a member was killed")
        for group in self.groups:
            group.start_member()
        self._report(kill_leader(self.cluster))
        self._goes_on("the leader was killed")
        stopped = [group.stop_active() for group in self.groups]
        self._another_follows("a member is stopped")
        for group, member in zip(self.groups, stopped, strict=True):
            member.child.resume()
            group.stopped = 0
        self._goes_on("the stopped member goes on")
        self._producer.child.kill()
        self._judge()
        return [problem for group in self.groups for problem in group.problems]

    def _judge(self) -> None:
        """Every record of the log is processed by every group."""
        leader = self.cluster.nodes[self.cluster.journal.leader_id()]
        log: dict[int, str] = {}

        def is_done() -> bool:
            log.update(records_of(read_stream(leader.partition)))
            return self._observe() and all(group.committed > max(log) for group in self.groups)

        self._wait(is_done, "all is committed")
        for group in self.groups:
            lost = sorted(log.items() - group.processed.items())
            if lost:
                group.problems.append(f"{group.id} has not processed {lost[:3]} and {len(lost) - len(lost[:3])} more")

    def _another_follows(self, what: str) -> None:
        self._wait(lambda: self._observe() and all(group.has_followed for group in self.groups), what)
        self._goes_on(what)

    def _goes_on(self, what: str) -> None:
        """All are members, and more is committed: so none prints any more what it had read in an earlier generation."""
        self._wait(lambda: self._observe() and all(map(self._is_settled, self.groups)), f"{what}, settled")
        before = [group.committed for group in self.groups]
        pairs = list(zip(self.groups, before, strict=True))
        self._wait(lambda: self._observe() and all(each.committed >= known + MORE for each, known in pairs), what)

    def _wait(self, poll: Callable[[], bool], what: str) -> None:
        begun = time.monotonic()
        try:
            wait_until(poll, what, timeout_s=PHASE_TIMEOUT_S)
        except LocalQuorumError as error:
            where = ", ".join(f"{each.id} at {each.committed}" for each in self.groups)
            raise LocalQuorumError(f"{error}: {where}") from error
        where = ", ".join(str(each.committed) for each in self.groups)
        self._report(f"{what}: {time.monotonic() - begun:.1f} s, committed {where}")

    def _observe(self) -> bool:
        """Read what members print, and what is committed; true, since it is part of conditions."""
        for group in self.groups:
            group.read()
        for group, offset in self._committed().items():
            group.has_committed(offset)
        return True

    def _is_settled(self, group: Group) -> bool:
        """Whether the group is stable and has all members that run."""
        if group.protocol == CLASSIC:
            describe, asked = requests_of("describe_groups.v5").DescribeGroupsRequest, "groups"
        else:
            describe, asked = requests_of("consumer_group_describe.v0").ConsumerGroupDescribeRequest, "group_ids"
        request = describe(**{asked: (group.id,)}, include_authorized_operations=False)
        try:
            with broker_calls(self.cluster.nodes[self.cluster.journal.leader_id()].port) as calls:
                [told] = calls.ask(request).groups
        except OSError:
            return False
        return told.group_state == "Stable" and len(told.members) == len(group.members) - group.stopped

    def _committed(self) -> dict[Group, int]:
        """The committed offset of each group that has one; nothing while no node answers for them."""
        offset_fetch: Any = requests_of("offset_fetch.v8")
        topics = (offset_fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(0,)),)
        asked = tuple(offset_fetch.OffsetFetchRequestGroup(group_id=each.id, topics=topics) for each in self.groups)
        found: dict[Group, int] = {}
        try:
            with broker_calls(self.cluster.nodes[self.cluster.journal.leader_id()].port) as calls:
                answer = calls.ask(offset_fetch.OffsetFetchRequest(groups=asked))
        except OSError:
            return found
        for group, told in zip(self.groups, answer.groups, strict=True):
            for topic in told.topics:
                found[group] = max(0, topic.partitions[0].committed_offset)
        return found


def play(names: Sequence[str], report: Callable[[str], None]) -> list[str]:
    """One life of these groups; what was broken. Errors: LocalQuorumError, UsageError."""
    for name in names:
        CONTENDERS[MEMBERS[name][0]].version()
    with (
        tempfile.TemporaryDirectory(prefix="pykraft-members-", ignore_cleanup_errors=True) as folder,
        Children() as children,
    ):
        return Life(names, children, Path(folder), report).play()


def main(words: Sequence[str]) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka.clients.rebalances",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("members", nargs="*", choices=[[], *MEMBERS], metavar="MEMBER", help=", ".join(MEMBERS))
    parser.add_argument("--all", action="store_true", help=f"not only {', '.join(FEW)}")
    options = parser.parse_args(words)
    names = options.members or (list(MEMBERS) if options.all else FEW)
    try:
        problems = play(names, partial(print, file=sys.stderr, flush=True))
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    except LocalQuorumError as error:
        problems = [str(error)]
    for problem in problems:
        print(f"FAILED {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
