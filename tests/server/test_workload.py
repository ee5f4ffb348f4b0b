"""The load of a leader: its records, its rate, and its reports of their outcomes.

A leader's printout, in the words of Kafka's test server.
"""

import errno
import hashlib
import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from pykraft.errors import BufferFullError, NotLeaderError, UsageError
from pykraft.host.producers import Committed, OutcomeUnknown, ProposalOutcome, Rejected
from pykraft.server.workload import (
    IN_FLIGHT_RECORDS_MAX,
    IN_FLIGHT_SIZE_BYTES_MAX,
    LATENCY_MS_MAX,
    PERIOD_S,
    PROPOSAL_SIZE_BYTES_MAX,
    RECORD_HEAD,
    RECORD_SIZE_BYTES_MAX,
    Load,
    Stats,
    Workload,
)
from pykraft.types import Epoch, Instant, NodeId, Offset
from tests.server.manual_loop import ManualLoop

NODE = NodeId(1)
EPOCH = Epoch(7)
RUN_ID = bytes(range(1, 9))
BATCH_SIZE_BYTES_MAX = 8 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Proposal:
    """What the host was asked to append."""

    values: list[bytes]
    epoch: Epoch
    on_outcome: Callable[[ProposalOutcome], None]

    @property
    def first_sequence(self) -> int:
        return int(RECORD_HEAD.unpack_from(self.values[0])[2])


class FakeHost:
    """Takes proposals, and refuses them while it has an error."""

    def __init__(self) -> None:
        self.node_id: NodeId | None = NODE
        self.proposals: list[Proposal] = []
        self.error: Exception | None = None
        self.end_offset = 100

    @property
    def records(self) -> list[bytes]:
        return [value for proposal in self.proposals for value in proposal.values]

    def propose(
        self, values: Sequence[bytes], *, epoch: Epoch, now: Instant, on_outcome: Callable[[ProposalOutcome], None]
    ) -> int:
        if self.error is not None:
            on_outcome(Rejected(error=self.error))
        else:
            self.proposals.append(Proposal(values=list(values), epoch=epoch, on_outcome=on_outcome))
        return 0

    def commit(self) -> None:
        """Everything that was proposed so far."""
        proposals, self.proposals = self.proposals, []
        for proposal in proposals:
            count = len(proposal.values)
            base_offset, self.end_offset = Offset(self.end_offset), self.end_offset + count
            proposal.on_outcome(Committed(base_offset=base_offset, epoch=proposal.epoch, count=count))


@dataclass(slots=True, kw_only=True)
class World:
    """A workload with everything around it."""

    load: Load
    batch_size_bytes_max: int = BATCH_SIZE_BYTES_MAX
    loop: ManualLoop = field(default_factory=ManualLoop)
    host: FakeHost = field(default_factory=FakeHost)
    told: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    workload: Workload = field(init=False)

    def __post_init__(self) -> None:
        self.workload = Workload(
            self.host,
            self.loop.as_loop,
            self.load,
            run_id=RUN_ID,
            batch_size_bytes_max=self.batch_size_bytes_max,
            write=lambda event, **fields: self.told.append((event, fields)),
            failed=self.failures.append,
        )

    def lead(self, epoch: Epoch = EPOCH) -> None:
        self.workload.on_leader_change(epoch, NODE)

    def acks(self) -> list[dict[str, object]]:
        return [fields for event, fields in self.told if event == "ack"]


def leading(*, records_per_s: int = 1_000, record_size_bytes: int = 100, until_s: float | None = None) -> World:
    """The world of a leader with this load, at this time."""
    world = World(load=Load(records_per_s=records_per_s, record_size_bytes=record_size_bytes))
    world.lead()
    if until_s is not None:
        world.loop.run_until(until_s)
    return world


@pytest.mark.conformance("H19")
def test_a_record_says_which_it_is() -> None:
    world = leading(until_s=0.1)
    count = len(world.host.records)
    assert count == pytest.approx(100, abs=5)
    for sequence, record in enumerate(world.host.records):
        assert len(record) == 100
        assert RECORD_HEAD.unpack_from(record) == (RUN_ID, EPOCH, sequence)
    rests = [{record[RECORD_HEAD.size :] for record in proposal.values} for proposal in world.host.proposals]
    # The same random bytes in all records of a proposal, others in the next.
    assert {len(each) for each in rests} == {1}
    assert len(set().union(*rests)) == len(rests) > 1
    assert {proposal.epoch for proposal in world.host.proposals} == {EPOCH}


def test_the_smallest_record_is_its_head() -> None:
    world = leading(record_size_bytes=RECORD_HEAD.size, until_s=0.01)
    assert {len(record) for record in world.host.records} == {RECORD_HEAD.size}


@pytest.mark.parametrize("size_bytes", [1, 2, 10, RECORD_HEAD.size - 1])
def test_a_smaller_record_is_a_hash_of_the_head_of_its_proposal(size_bytes: int) -> None:
    world = leading(record_size_bytes=size_bytes, until_s=0.3)
    assert len(world.host.records) == pytest.approx(300, abs=5)
    sequence = 0
    for proposal in world.host.proposals:
        head = RECORD_HEAD.pack(RUN_ID, EPOCH, sequence)
        assert set(proposal.values) == {hashlib.blake2b(head, digest_size=size_bytes).digest()}
        sequence += len(proposal.values)
    world.host.commit()
    assert world.acks()[0]["first_sequence"] == 0
    assert sum(int(str(ack["count"])) for ack in world.acks()) == sequence


def test_small_records_in_flight_are_bounded_by_their_number() -> None:
    world = leading(records_per_s=-1, record_size_bytes=1, until_s=0.001)
    assert len(world.host.records) == IN_FLIGHT_RECORDS_MAX
    world.host.commit()
    world.loop.run_until(0.002)
    assert len(world.host.records) == IN_FLIGHT_RECORDS_MAX


@pytest.mark.conformance("H19")
@pytest.mark.parametrize("records_per_s", [1, 250, 5_000, 100_000])
def test_the_rate_follows_the_time_since_the_claim(records_per_s: int) -> None:
    world = World(load=Load(records_per_s=records_per_s, record_size_bytes=20))
    world.loop.run_until(50.0)
    world.lead()
    for step in range(1, 5):
        world.loop.run_until(50.0 + step / 2)
        count = sum(len(proposal.values) for proposal in world.host.proposals) + world.host.end_offset - 100
        assert count == pytest.approx(records_per_s * step / 2, abs=1 + records_per_s * 2 * PERIOD_S)
        world.host.commit()


@pytest.mark.conformance("H45")
def test_nobody_writes_without_leading() -> None:
    world = World(load=Load())
    world.workload.on_leader_change(EPOCH, NodeId(2))
    world.loop.run_until(1.0)
    world.workload.on_leader_change(EPOCH, None)
    world.loop.run_until(2.0)
    assert world.host.records == []
    assert world.told == []
    assert world.loop.is_idle
    world.workload.on_commit([])


def test_an_observer_without_an_id_never_leads() -> None:
    world = World(load=Load())
    world.host.node_id = None
    world.workload.on_leader_change(EPOCH, None)
    world.loop.run_until(1.0)
    assert world.told == []


def test_a_rate_of_zero_is_no_load() -> None:
    world = leading(records_per_s=0, until_s=1.0)
    assert world.host.records == []


def test_what_is_in_flight_is_bounded_and_made_up_for() -> None:
    world = leading(records_per_s=1_000_000, record_size_bytes=1_024, until_s=1.0)
    assert sum(map(len, world.host.records)) == IN_FLIGHT_SIZE_BYTES_MAX
    world.host.commit()
    world.loop.run_until(1.0 + PERIOD_S)
    assert sum(map(len, world.host.records)) == IN_FLIGHT_SIZE_BYTES_MAX


def test_proposals_are_of_moderate_size() -> None:
    world = leading(records_per_s=-1, until_s=0.0)
    assert len(world.host.proposals) > 1
    assert all(sum(map(len, each.values)) <= PROPOSAL_SIZE_BYTES_MAX for each in world.host.proposals)
    assert [each.first_sequence for each in world.host.proposals] == sorted(
        each.first_sequence for each in world.host.proposals
    )


def test_a_load_without_limit_goes_on_as_soon_as_there_is_room() -> None:
    world = leading(records_per_s=-1, record_size_bytes=1_024, until_s=0.001)
    for _ in range(3):
        world.host.commit()
        assert world.host.proposals == []
        world.loop.run_until(0.001)
        assert sum(map(len, world.host.records)) == IN_FLIGHT_SIZE_BYTES_MAX


def test_a_resting_load_writes_nothing_and_reports_what_was_in_flight() -> None:
    world = leading(until_s=0.1)
    count = len(world.host.records)
    world.workload.rest()
    world.loop.run_until(0.2)
    assert len(world.host.records) == count
    world.host.commit()
    assert sum(int(str(ack["count"])) for ack in world.acks()) == count
    world.lead(Epoch(EPOCH + 1))
    world.loop.run_until(0.3)
    assert world.host.records == []


def test_each_commit_is_acknowledged_with_its_place() -> None:
    world = leading(until_s=0.02)
    count = len(world.host.records)
    world.host.commit()
    acks = world.acks()
    assert world.told[0] == ("leader", {"node": NODE, "run": RUN_ID.hex(), "epoch": EPOCH})
    assert sum(int(str(ack["count"])) for ack in acks) == count == pytest.approx(20, abs=1_000 * PERIOD_S)
    next_sequence, next_offset = 0, 100
    for ack in acks:
        assert (ack["first_sequence"], ack["base_offset"]) == (next_sequence, next_offset)
        assert (ack["node"], ack["run"], ack["epoch"]) == (NODE, RUN_ID.hex(), EPOCH)
        assert float(str(ack["latency_ms"])) >= 0
        assert int(str(ack["wall_ms"])) > 1_700_000_000_000
        next_sequence += int(str(ack["count"]))
        next_offset += int(str(ack["count"]))


def test_what_may_or_may_not_be_committed_is_not_acknowledged() -> None:
    world = leading(until_s=0.02)
    for proposal in world.host.proposals:
        proposal.on_outcome(OutcomeUnknown(base_offset=Offset(0), epoch=EPOCH))
    assert world.acks() == []


def test_the_end_of_a_claim_is_told_and_the_next_begins_at_zero() -> None:
    world = leading(until_s=0.1)
    world.workload.on_leader_change(Epoch(8), None)
    before = len(world.host.records)
    world.loop.run_until(1.0)
    assert len(world.host.records) == before
    assert world.told[-1] == ("resigned", {"node": NODE, "epoch": EPOCH})
    world.host.proposals.clear()
    world.lead(Epoch(9))
    world.loop.run_until(1.1)
    assert world.told[-1] == ("leader", {"node": NODE, "run": RUN_ID.hex(), "epoch": 9})
    assert RECORD_HEAD.unpack_from(world.host.records[0]) == (RUN_ID, 9, 0)
    assert len(world.host.records) == pytest.approx(100, abs=10)


def test_the_next_own_claim_ends_the_one_before() -> None:
    world = World(load=Load(records_per_s=1_000, record_size_bytes=100))
    world.lead(Epoch(7))
    world.lead(Epoch(8))
    world.loop.run_until(0.1)
    assert [event for event, _ in world.told] == ["leader", "resigned", "leader"]
    assert {proposal.epoch for proposal in world.host.proposals} == {8}


@pytest.mark.parametrize("error", [BufferFullError("later"), NotLeaderError(2, 8)])
def test_sequences_that_were_rejected_are_proposed_again(error: Exception) -> None:
    world = leading(until_s=0.01)
    world.host.commit()
    world.host.error = error
    world.loop.run_until(0.1)
    world.host.error = None
    world.loop.run_until(0.2)
    sequences = [RECORD_HEAD.unpack_from(record)[2] for record in world.host.records]
    assert sequences == list(range(10, 10 + len(sequences)))
    assert 190 <= 10 + len(sequences) <= 200
    assert world.failures == []


def test_a_late_rejection_leaves_a_hole_and_never_a_double() -> None:
    world = leading(until_s=0.02)
    world.host.proposals.pop(0).on_outcome(Rejected(error=NotLeaderError(2, 8)))
    world.loop.run_until(0.04)
    sequences = [RECORD_HEAD.unpack_from(record)[2] for record in world.host.records]
    assert sequences == sorted(set(sequences))
    assert sequences[0] > 0


def test_any_other_rejection_is_our_bug() -> None:
    world = World(load=Load(records_per_s=1_000, record_size_bytes=100))
    world.host.error = UsageError("too large a batch")
    world.lead()
    world.loop.run_until(PERIOD_S)
    assert world.failures == [world.host.error]


@pytest.mark.conformance("H45")
def test_a_leader_prints_throughput_and_latency(capsys: pytest.CaptureFixture[str]) -> None:
    world = leading()
    for step in range(1, 106):
        world.loop.run_until(step * 0.05)
        world.host.commit()
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("Throughput (bytes/second): ")
    assert float(line.split()[2].rstrip(",")) == pytest.approx(100_000, rel=0.02)


def test_output_that_cannot_be_written_ends_the_node_and_not_the_load_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        """A file on a disk that is full."""

        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    world = leading(until_s=3.0)
    world.host.commit()
    monkeypatch.setattr(sys, "stdout", Full())
    world.loop.run_until(10.0)
    [failure] = world.failures
    assert str(failure) == "standard output: No space left on device"


def test_who_resigned_prints_nothing_more(capsys: pytest.CaptureFixture[str]) -> None:
    world = leading(until_s=3.0)
    world.host.commit()
    world.host.error = NotLeaderError(None, 7)
    world.loop.run_until(10.0)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("records_per_s", "record_size_bytes", "says"),
    [
        (-2, 100, "--throughput -2"),
        (1, 0, "--record-size 0"),
        (1, -1, "--record-size -1"),
        (1, RECORD_SIZE_BYTES_MAX + 1, f"--record-size {RECORD_SIZE_BYTES_MAX + 1}"),
    ],
)
def test_a_load_that_cannot_be_is_refused(records_per_s: int, record_size_bytes: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Load(records_per_s=records_per_s, record_size_bytes=record_size_bytes)


def test_a_record_must_fit_into_a_batch() -> None:
    with pytest.raises(UsageError, match="--record-size 1000"):
        World(load=Load(record_size_bytes=1_000), batch_size_bytes_max=1_024)
    world = World(load=Load(records_per_s=-1, record_size_bytes=400), batch_size_bytes_max=1_024)
    world.lead()
    world.loop.run_until(0.0)
    assert max(len(proposal.values) for proposal in world.host.proposals) == 2
    largest = World(load=Load(records_per_s=-1, record_size_bytes=RECORD_SIZE_BYTES_MAX))
    largest.lead()
    largest.loop.run_until(0.0)
    assert {len(proposal.values) for proposal in largest.host.proposals} == {1}


def test_the_line_is_kafkas() -> None:
    stats = Stats(100.0)
    stats.committed(750, 75_000, 24.2)
    stats.committed(240, 24_000, 142.0)
    stats.committed(10, 1_000, 249.0)
    line = stats.line_if_due(105.0)
    assert line == "Throughput (bytes/second): 20000.00, Latency (ms): 24.0 p75 142.0 p99 249.0 p999"


def test_a_line_comes_every_five_seconds_in_which_something_was_committed() -> None:
    stats = Stats(0.0)
    stats.committed(1, 100, 5.0)
    assert stats.line_if_due(4.9) is None
    assert stats.line_if_due(5.0) is not None
    assert stats.line_if_due(20.0) is None
    stats.committed(1, 100, 5.0)
    assert stats.line_if_due(21.0) is None
    line = stats.line_if_due(25.0)
    assert line is not None
    assert line.startswith("Throughput (bytes/second): 20.00,")


def test_a_reset_begins_anew() -> None:
    stats = Stats(0.0)
    stats.committed(1, 100, 5.0)
    stats.reset(4.0)
    assert stats.line_if_due(5.0) is None
    assert stats.line_if_due(9.0) is None


def test_percentiles_count_records() -> None:
    stats = Stats(0.0)
    stats.committed(75, 1, 1.0)
    stats.committed(24, 1, 2.0)
    stats.committed(1, 1, 9.0)
    line = stats.line_if_due(5.0)
    assert line is not None
    assert line.endswith("Latency (ms): 1.0 p75 2.0 p99 9.0 p999")


def test_latencies_are_bounded() -> None:
    stats = Stats(0.0)
    stats.committed(1, 1, 10.0 * LATENCY_MS_MAX)
    line = stats.line_if_due(5.0)
    assert line is not None
    assert f" {LATENCY_MS_MAX:.1f} p99 " in line
