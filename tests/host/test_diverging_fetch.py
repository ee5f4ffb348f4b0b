"""A leader names a diverging offset inside a batch: the follower's file and memory stay the same.

Source: ours (ADR 023); KIP-595 §Log reconciliation.
"""

from __future__ import annotations

from pykraft.core.effects import TruncateTo
from pykraft.host.ports import ConnectionId
from pykraft.log.lane import Job
from pykraft.protocol.api import ApiKey, decode_request_header, decode_response, encode_response
from pykraft.types import Offset
from tests.host.cluster import Cluster, Machine

FETCH_VERSION = 18


class Parting:
    """A leader and a follower with batches 0, 1-3 and 4-8, of which the last is committed for nobody."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.leader = self.cluster.leader()
        self.follower, other = self.cluster.others(self.leader)
        self.leader.propose(b"a", b"b", b"c")
        self.cluster.run_until_committed(4)
        self.cluster.cut(other)
        self.leader.is_disk_stalled = True
        self.leader.propose(b"d", b"e", b"f", b"g", b"h")
        self.cluster.run_until(lambda: self.follower.durable_end_offset == 9)
        self.at_offset: int | None = None
        self.cuts: list[Offset] = []
        self._submit = self.follower.submit
        self.follower.submit = self._note  # type: ignore[method-assign]
        self._send = self.cluster.send
        self.cluster.send = self._tamper  # type: ignore[method-assign]

    def part_at(self, offset: int, *, times: int = 1) -> None:
        """The next answers to the follower, so many, say that epoch 1 ends there."""
        for _ in range(times):
            self.at_offset = offset
            self.cluster.run_until(lambda: self.at_offset is None)
        self.cluster.run(10)

    def _note(self, job: Job) -> None:
        if isinstance(job, TruncateTo):
            self.cuts.append(job.end_offset)
        self._submit(job)

    def _tamper(self, sender: Machine, connection: ConnectionId, frame: bytes) -> None:
        wire = self.cluster._wires.get(connection)
        is_answer = wire is not None and wire.dialer is self.follower and sender is self.leader
        if is_answer and self.at_offset is not None and self._has_asked_to_fetch():
            correlation_id, body = decode_response(ApiKey.FETCH, FETCH_VERSION, frame)
            partition = body["responses"][0]["partitions"][0]
            partition["diverging_epoch"] = {"epoch": self.leader.running.status.epoch, "end_offset": self.at_offset}
            partition["records"] = b""
            self.at_offset = None
            frame = b"".join(bytes(part) for part in encode_response(ApiKey.FETCH, FETCH_VERSION, correlation_id, body))
        self._send(sender, connection, frame)

    def _has_asked_to_fetch(self) -> bool:
        return decode_request_header(self.follower.sent[-1][1]).api_key == ApiKey.FETCH

    def agree(self, end_offset: int) -> None:
        """All have the same log up to here in the end, in memory, in the files, and after a start."""
        self.leader.is_disk_stalled = False
        self.cluster.heal()
        self.cluster.run_until_committed(9)
        self.cluster.settle()
        assert self.follower.log_bytes() == self.leader.log_bytes()
        self.follower.crash()
        self.follower.start()
        assert self.follower.running.status.log_end_offset == end_offset


def test_a_log_that_parts_within_a_batch_is_cut_before_it() -> None:
    parting = Parting()
    parting.follower.crash()
    parting.follower.start()
    parting.part_at(7)
    assert parting.cuts == [4]
    parting.agree(9)


def test_a_log_that_parts_below_what_is_committed_is_not_cut_and_the_leader_is_given_up() -> None:
    parting = Parting()
    parting.part_at(2, times=2)  # Once may be a flipped bit.
    assert (parting.follower.stops, parting.cuts) == ([], [])
    (alarm,) = parting.follower.alarms
    asked = "it asks to truncate the log to 1, but everything below 4 is committed"
    assert f"given up as the leader of epoch 1: {asked}" in alarm
    parting.follower.crash()
    parting.follower.start()
    parting.agree(10)  # Another one was elected meanwhile.
