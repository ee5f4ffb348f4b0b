"""Each effect reaches its component; none is forgotten."""

from dataclasses import replace
from random import Random
from typing import get_args

import pytest

from pykraft.core import effects
from pykraft.core.effects import Effect
from pykraft.core.events import RequestReceived, TimerDue
from pykraft.core.log_view import LogView
from pykraft.core.messages import FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse, VoteResponse
from pykraft.core.status import Status
from pykraft.errors import ErrorCode, UsageError
from pykraft.host import execute as module
from pykraft.host.components import Components, assemble
from pykraft.host.execute import Step, execute, stop
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.inbox import Arrival
from pykraft.host.ports import ConnectionId
from pykraft.host.producers import ProposalOutcome, Rejected
from pykraft.log.lane import AppendBytes
from pykraft.protocol.api import decode_response, encode_request
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc import fetch_snapshot
from pykraft.snapshot.catalog import Slice
from pykraft.types import NO_IO, Election, Epoch, Io, NodeId, Offset, OffsetAndEpoch, ReplicaKey, ReportKind, Uuid
from tests.host import fakes
from tests.host.test_inbound import fetch_body, vote_body
from tests.rpc.test_connection import vote


def fetch_snapshot_body() -> Body:
    request = FetchSnapshotRequest(
        replica=None, epoch=Epoch(1), snapshot_id=OffsetAndEpoch(Offset(3), Epoch(1)), position=0, size_bytes_max=9
    )
    return fetch_snapshot.request_to_wire(request, 1, fakes.CONTEXT)


class Desk:
    """The parts of a node whose files hold the offsets 0 to 4."""

    def __init__(self) -> None:
        self.ports = fakes.FakePorts()
        self.components: Components = assemble(
            self.ports,
            fakes.config(1),
            key=ReplicaKey(NodeId(1), Uuid(b"1" * 16)),
            log=fakes.FakeLog([fakes.batch(offset) for offset in range(5)]),
            snapshot_files=fakes.snapshot_files((3, 1)),
            view=LogView(start_offset=Offset(0), end_offset=Offset(5)),
            status=Status,
            rng=Random(1),
        )
        self.components.inbound.on_accepted(ConnectionId(1), fakes.LISTENER)

    def do(self, *done: Effect, fetched: tuple[HeaderAndBytes, ...] = (), slice_data: bytes = b"") -> None:
        arrival = Arrival(TimerDue(), fetched, slice_data)
        step = Step(now=fakes.at(0), flushed_end_offset=Offset(5), arrival=arrival)
        for effect in done:
            execute(self.components, effect, step)

    def asked(self, api_key: ApiKey) -> int:
        """Let a request arrive; its id."""
        body, version = {
            ApiKey.FETCH: (fetch_body(), 18),
            ApiKey.VOTE: (vote_body(), 2),
            ApiKey.FETCH_SNAPSHOT: (fetch_snapshot_body(), 1),
        }[api_key]
        parts = encode_request(api_key, version, 5, None, body)
        self.components.inbound.on_frame(ConnectionId(1), b"".join(bytes(part) for part in parts))
        arrival = self.components.inbox.take()
        assert arrival is not None
        assert isinstance(arrival.event, RequestReceived)
        return arrival.event.request_id

    def fetch_answer(self) -> tuple[int, list[int] | None]:
        """Error and offsets of the answer that was sent last."""
        _, body = decode_response(ApiKey.FETCH, 18, self.ports.sent[-1][1])
        partition = body["responses"][0]["partitions"][0]
        return partition["error_code"], fakes.offsets_of([partition["records"]])


def planned(base_offset: int, handle: int) -> effects.PlannedBatch:
    return effects.PlannedBatch(
        base_offset=Offset(base_offset),
        end_offset=Offset(base_offset + 1),
        epoch=Epoch(1),
        timestamp_ms=5,
        handles=(handle,),
    )


def reply_fetch(request_id: int, fetch_offset: int, end_offset: int, *, after: Io = NO_IO) -> effects.ReplyFetch:
    message = FetchResponse(
        error=0,
        epoch=Epoch(1),
        leader_id=NodeId(1),
        high_watermark=Offset(2),
        log_start_offset=Offset(0),
        diverging=OffsetAndEpoch(Offset(1), Epoch(1)) if fetch_offset == end_offset else None,
    )
    return effects.ReplyFetch(
        after=after,
        request_id=request_id,
        message=message,
        fetch_offset=Offset(fetch_offset),
        end_offset=Offset(end_offset),
        size_bytes_max=10_000,
    )


def test_every_effect_of_the_core_is_carried_out() -> None:
    assert set(module._TABLE) == set(get_args(Effect))


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_storage_effects_become_jobs_in_their_order(desk: Desk) -> None:
    election = Election(epoch=Epoch(1), leader_id=NodeId(1))
    proposed = desk.components.producers.propose([b"a"], epoch=Epoch(1), on_outcome=lambda _: None)
    fetched = (fakes.batch(6), fakes.batch(7), fakes.batch(8))
    desk.do(
        effects.WriteElectionState(io=Io(1), election=election, voters=(NodeId(1),), kraft_version=0),
        effects.AppendBatches(io=Io(2), batches=(planned(5, proposed.handle),)),
        effects.AppendFetched(io=Io(3), count=2, end_offset=Offset(8)),
        effects.TruncateTo(io=Io(4), end_offset=Offset(6)),
        fetched=fetched,
    )
    first, second, third, last = desk.ports.jobs
    assert first == effects.WriteElectionState(io=Io(1), election=election, voters=(NodeId(1),), kraft_version=0)
    assert isinstance(second, AppendBytes)
    assert [(header.base_offset, header.end_offset) for header, _ in second.batches] == [(5, 6)]
    assert third == AppendBytes(io=Io(3), batches=fetched[:2])
    assert last == effects.TruncateTo(io=Io(4), end_offset=Offset(6))
    assert (desk.components.recent.start_offset, desk.components.recent.end_offset) == (5, 6)


def test_an_append_of_other_batches_than_the_core_counted_is_our_own_bug(desk: Desk) -> None:
    with pytest.raises(AssertionError):
        desk.do(
            effects.AppendFetched(io=Io(3), count=1, end_offset=Offset(8)), fetched=(fakes.batch(5), fakes.batch(6))
        )


def test_a_reply_waits_for_its_write(desk: Desk) -> None:
    response = VoteResponse(error=0, epoch=Epoch(3), leader_id=None, vote_granted=True)
    desk.do(effects.Reply(after=Io(2), request_id=desk.asked(ApiKey.VOTE), message=response))
    desk.components.held.persisted(Io(1))
    assert desk.ports.sent == []
    desk.components.held.persisted(Io(2))
    assert len(desk.ports.sent) == 1


def test_a_fetch_is_answered_from_memory_at_once_and_from_files_later(desk: Desk) -> None:
    desk.components.recent.append([fakes.batch(5)])
    desk.do(reply_fetch(desk.asked(ApiKey.FETCH), 5, 6))
    assert desk.fetch_answer() == (0, [5])
    desk.do(reply_fetch(desk.asked(ApiKey.FETCH), 2, 6))
    assert len(desk.ports.sent) == 1
    desk.ports.finish_read()
    assert desk.fetch_answer() == (0, [2, 3, 4])


def test_a_fetch_answer_waits_for_its_write_too(desk: Desk) -> None:
    desk.do(reply_fetch(desk.asked(ApiKey.FETCH), 2, 5, after=Io(3)))
    desk.ports.finish_read()
    assert desk.ports.sent == []
    desk.components.held.persisted(Io(3))
    assert desk.fetch_answer() == (0, [2, 3, 4])


def test_a_diverging_answer_has_no_records(desk: Desk) -> None:
    desk.do(reply_fetch(desk.asked(ApiKey.FETCH), 9, 9))
    assert desk.fetch_answer() == (0, [])


def test_a_read_that_a_truncation_overtook_is_answered_with_not_leader(desk: Desk) -> None:
    desk.do(reply_fetch(desk.asked(ApiKey.FETCH), 2, 5), effects.TruncateTo(io=Io(1), end_offset=Offset(3)))
    desk.ports.finish_read()
    assert desk.fetch_answer() == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])


def test_a_send_dials_its_peer(desk: Desk) -> None:
    peer = effects.Peer(id=2, endpoint=fakes.endpoint(2))
    desk.do(effects.Send(after=NO_IO, peer=peer, correlation_id=1, message=vote()))
    assert [where for _, where in desk.ports.dialed] == [fakes.endpoint(2)]
    desk.do(effects.ClosePeer(peer_id=2, reason="two leaders"))
    assert len(desk.ports.closed) == 1


def test_a_requester_is_closed(desk: Desk) -> None:
    desk.do(effects.CloseRequester(request_id=desk.asked(ApiKey.VOTE), reason="two leaders"))
    assert desk.ports.closed == [1]


def test_proposals_are_rejected(desk: Desk) -> None:
    outcomes: list[ProposalOutcome] = []
    proposed = desk.components.producers.propose([b"a"], epoch=Epoch(1), on_outcome=outcomes.append)
    error = UsageError("no")
    desk.do(
        effects.AcceptProposal(handle=proposed.handle, base_offset=Offset(5), epoch=Epoch(1)),
        effects.RejectProposal(handle=proposed.handle, error=error),
    )
    assert outcomes == [Rejected(error=error)]


def test_listeners_hear_of_commits_and_leaders_and_not_of_a_leadership_that_is_over(desk: Desk) -> None:
    listener = fakes.FakeListener()
    desk.components.delivery.register(listener)
    desk.components.recent.append([fakes.batch(5)])
    desk.do(effects.NotifyRole(role="leader", epoch=Epoch(2)), fakes.leads(2, leader_id=1, epoch_start_offset=5))
    desk.do(effects.NotifyRole(role="resigned", epoch=Epoch(2)), effects.NotifyHighWatermark(high_watermark=Offset(6)))
    while desk.ports.reads:
        desk.ports.finish_read()
    assert listener.calls == [(0, 1, 2, 3, 4), (5,)]
    desk.do(fakes.leads(3, leader_id=2))
    assert listener.calls[-1] == ("leader", 3, 2)


def test_what_an_operator_should_know_is_reported(desk: Desk) -> None:
    desk.do(effects.Report(text="something", kind=ReportKind.UNPROVEN))
    desk.do(effects.NotifyRole(role="candidate", epoch=Epoch(7)))
    assert desk.ports.reports == ["something", "candidate in epoch 7"]
    assert desk.ports.kinds == [ReportKind.UNPROVEN, ReportKind.EVENT]


STATES = {
    "leader in epoch 7: this node was elected": Status(role="leader", leader_id=NodeId(1)),
    "follower in epoch 7: node 3 leads": Status(role="follower", leader_id=NodeId(3)),
    "observer in epoch 7: node 3 leads": Status(role="observer", leader_id=NodeId(3)),
    "candidate in epoch 7: it asks the other voters for their votes": Status(role="candidate"),
    "unattached in epoch 7: no leader is known yet": Status(role="unattached"),
    "unattached-voted in epoch 7: it voted for node 2": Status(role="unattached-voted", voted=ReplicaKey(NodeId(2))),
    "resigned in epoch 7: it led this epoch, and leads it no more": Status(role="resigned"),
}


@pytest.mark.parametrize(("told", "status"), STATES.items(), ids=[status.role for status in STATES.values()])
def test_a_change_of_state_is_reported_with_what_it_means(desk: Desk, told: str, status: Status) -> None:
    desk.components = replace(desk.components, status=lambda: status._replace(epoch=Epoch(7)))
    desk.do(effects.NotifyRole(role=status.role, epoch=Epoch(7)))
    assert desk.ports.reports == [told]


@pytest.mark.conformance(44)
@pytest.mark.parametrize("graceful", [True, False])
def test_the_end_of_a_shutdown_stops_the_node_without_an_error(desk: Desk, *, graceful: bool) -> None:
    desk.do(effects.CompleteShutdown(graceful=graceful))
    assert desk.ports.stops == [None]
    assert desk.components.inbox.is_closed
    assert len(desk.ports.reports) == 1


def test_the_end_decides_every_proposal(desk: Desk) -> None:
    outcomes: list[ProposalOutcome] = []
    desk.components.producers.propose([b"a"], epoch=Epoch(1), on_outcome=outcomes.append)
    stop(desk.components, None)
    assert len(outcomes) == 1


def snapshot_id(offset: int = 3) -> OffsetAndEpoch:
    return OffsetAndEpoch(Offset(offset), Epoch(1))


def test_a_snapshot_takes_the_place_of_the_log(desk: Desk) -> None:
    desk.do(effects.InstallSnapshot(io=Io(1), snapshot_id=snapshot_id(9)))
    assert desk.ports.jobs == [effects.InstallSnapshot(io=Io(1), snapshot_id=snapshot_id(9))]
    assert (desk.components.recent.start_offset, desk.components.recent.end_offset) == (9, 9)
    assert (desk.components.delivery.start_offset, desk.components.delivery.high_watermark) == (9, 9)


def test_a_log_start_that_moves_makes_reads_before_it_stale(desk: Desk) -> None:
    request_id = desk.asked(ApiKey.FETCH)
    desk.do(reply_fetch(request_id, 1, 5), effects.MoveLogStart(io=Io(1), snapshot_id=snapshot_id()))
    assert desk.ports.jobs == [effects.MoveLogStart(io=Io(1), snapshot_id=snapshot_id())]
    desk.ports.finish_read()
    assert desk.fetch_answer()[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_downloads_go_to_the_bulk_lane(desk: Desk) -> None:
    desk.do(
        effects.BeginDownload(snapshot_id=snapshot_id(), leader_epoch=Epoch(1)),
        effects.AppendDownload(snapshot_id=snapshot_id(), position=0, is_last=False),
        effects.AbandonDownload(snapshot_id=snapshot_id()),
        slice_data=b"bytes",
    )
    assert (len(desk.ports.reads), desk.ports.jobs) == (3, [])


@pytest.mark.conformance(121)
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Slice(b"bytes", 90), (0, 7, 90, b"bytes")),
        (ErrorCode.POSITION_OUT_OF_RANGE, (ErrorCode.POSITION_OUT_OF_RANGE, 0, 0, b"")),
        (ErrorCode.SNAPSHOT_NOT_FOUND, (ErrorCode.SNAPSHOT_NOT_FOUND, 0, 0, b"")),
    ],
)
def test_a_slice_is_read_and_then_waits_for_its_write(found: Slice | ErrorCode, expected: tuple[object, ...]) -> None:
    desk = Desk()
    message = FetchSnapshotResponse(error=0, epoch=Epoch(1), leader_id=NodeId(1), snapshot_id=snapshot_id(), position=7)
    request_id = desk.asked(ApiKey.FETCH_SNAPSHOT)
    desk.do(effects.ReplySnapshot(after=Io(4), request_id=request_id, message=message, size_bytes_max=9))
    _, then = desk.ports.reads.pop()
    then(found)
    assert desk.ports.sent == []
    desk.components.held.persisted(Io(4))
    _, body = decode_response(ApiKey.FETCH_SNAPSHOT, 1, desk.ports.sent[-1][1])
    partition = body["topics"][0]["partitions"][0]
    told = (partition["error_code"], partition["position"], partition["size"], bytes(partition["unaligned_records"]))
    assert told == expected
