"""Effects, messages and states in the words of the scenario files."""

from pykraft.core import effects, messages
from pykraft.core.effects import Effect
from pykraft.core.quarantine import Quarantine
from pykraft.core.raft import Raft
from pykraft.errors import ErrorCode
from pykraft.types import Election, KRaftVoters, OffsetAndEpoch


def effect(node_id: int, done: Effect) -> str | None:
    """What a node did, or None for messages: those are told when they arrive."""
    match done:
        case effects.WriteElectionState():
            return f"{node_id} writes {election(done.election)}"
        case effects.AppendBatches():
            first, last = done.batches[0], done.batches[-1]
            return f"{node_id} appends {first.base_offset}..{last.end_offset} epoch={first.epoch}{_voters_in(last)}"
        case effects.AppendFetched():
            return f"{node_id} appends fetched batches up to {done.end_offset}"
        case effects.TruncateTo():
            return f"{node_id} truncates to {done.end_offset}"
        case effects.EnterQuarantine():
            return f"{node_id} enters quarantine: {_quarantine(done.quarantine)} end={done.end_offset}"
        case effects.LeaveQuarantine():
            return f"{node_id} leaves quarantine"
        case effects.NoteProof():
            return f"{node_id} is proven, and votes after epoch {done.votes_above}"
        case effects.InstallSnapshot():
            return f"{node_id} installs snapshot {_place(done.snapshot_id)}"
        case effects.MoveLogStart():
            return f"{node_id} removes what is before snapshot {_place(done.snapshot_id)}"
        case effects.BeginDownload():
            return f"{node_id} begins to fetch snapshot {_place(done.snapshot_id)}"
        case effects.AbandonDownload():
            return f"{node_id} abandons snapshot {_place(done.snapshot_id)}"
        case _:
            return _news(node_id, done)


def _news(node_id: int, done: Effect) -> str | None:
    match done:
        case effects.CloseRequester() | effects.ClosePeer():
            return f"{node_id} closes the connection: {done.reason}"
        case effects.AcceptProposal():
            return f"{node_id} accepts a proposal at {done.base_offset}"
        case effects.RejectProposal():
            return f"{node_id} rejects a proposal: {done.error}"
        case effects.CompleteRead():
            return f"{node_id} lets a read begin: {done.outcome}"
        case effects.CompletePendingRequest():
            return f"{node_id} answers: {done.error or 'done'}"
        case effects.NotifyHighWatermark():
            return f"{node_id} high watermark {done.high_watermark}"
        case effects.NotifyRole():
            return f"{node_id} is {done.role} epoch={done.epoch}"
        case effects.CompleteShutdown():
            return f"{node_id} leaves {'gracefully' if done.graceful else 'out of time'}"
        case effects.Report():
            return f"{node_id} reports: {done.text}"
        case _:
            return None


def election(remembered: Election) -> str:
    """What a quorum-state file says."""
    leader = f" leader={remembered.leader_id}" if remembered.leader_id is not None else ""
    voted = f" voted={remembered.voted.id}" if remembered.voted is not None else ""
    return f"epoch={remembered.epoch}{leader}{voted}"


def message(source: int, target: int, body: messages.Request | messages.Response) -> str:
    """One line for a message that arrives."""
    return f"  {source}->{target} {_request(body) or _response(body)}"


def _request(body: messages.Request | messages.Response) -> str | None:
    match body:
        case messages.VoteRequest():
            name = "PreVote" if body.pre_vote else "Vote"
            return f"{name} epoch={body.epoch} end={body.last.offset}/{body.last.epoch}"
        case messages.BeginQuorumEpochRequest():
            return f"BeginQuorumEpoch epoch={body.epoch}"
        case messages.EndQuorumEpochRequest():
            successors = ",".join(str(key.id) for key in body.successors)
            return f"EndQuorumEpoch epoch={body.epoch} successors={successors}"
        case messages.FetchRequest():
            return f"Fetch epoch={body.epoch} at={body.fetch_offset}/{body.last_fetched_epoch} hw={body.high_watermark}"
        case messages.FetchSnapshotRequest():
            return f"FetchSnapshot epoch={body.epoch} snapshot={_place(body.snapshot_id)} at {body.position}"
        case messages.DescribeQuorumRequest():
            return "DescribeQuorum"
        case messages.AddVoterRequest():
            return f"AddRaftVoter {body.voter.id}"
        case messages.RemoveVoterRequest():
            return f"RemoveRaftVoter {body.voter.id}"
        case messages.UpdateVoterRequest():
            return f"UpdateRaftVoter epoch={body.epoch} {body.voter.id}"
        case messages.TransferLeadershipRequest():
            return f"TransferLeadership to {body.target_id}"
        case messages.ApiVersionsRequest():
            return "ApiVersions"
        case _:
            return None


def _response(body: messages.Request | messages.Response) -> str:
    name = type(body).__name__
    if isinstance(body, messages.ChangeVoterResponse | messages.TransferLeadershipResponse):
        return f"{name} {ErrorCode(body.error).name}: {body.error_message}"
    if error := getattr(body, "error", 0):
        return f"{name} {ErrorCode(error).name} {_leader(body)}"
    match body:
        case messages.VoteResponse():
            return f"vote {'granted' if body.vote_granted else 'denied'} {_leader(body)}"
        case messages.FetchResponse() if body.diverging is not None:
            return f"fetched diverging at {body.diverging.offset}/{body.diverging.epoch}"
        case messages.FetchResponse() if body.snapshot_id is not None:
            return f"fetched nothing: there is snapshot {_place(body.snapshot_id)}"
        case messages.FetchSnapshotResponse():
            end = body.position + body.received_bytes
            return f"fetched bytes {body.position}..{end} of {body.size_bytes} of snapshot {_place(body.snapshot_id)}"
        case messages.FetchResponse():
            ends = f" {body.batches[0].base_offset}..{body.batches[-1].end_offset}" if body.batches else " nothing"
            return f"fetched{ends} hw={body.high_watermark}"
        case messages.ApiVersionsResponse(kraft_version=levels):
            return f"ApiVersions kraft.version={levels and levels.min_version}-{levels and levels.max_version}"
        case messages.DescribeQuorumResponse():
            rows = [("voter", row) for row in body.voters] + [("observer", row) for row in body.observers]
            told = [f"{kind} {row.key.id} end={row.log_end_offset}" for kind, row in rows]
            return f"quorum {_leader(body)} hw={body.high_watermark}: {', '.join(told)}"
        case _:
            return f"{name} {_leader(body)}"


def _place(snapshot_id: OffsetAndEpoch) -> str:
    return f"{snapshot_id.offset}/{snapshot_id.epoch}"


def _leader(body: messages.Request | messages.Response) -> str:
    return f"epoch={getattr(body, 'epoch', '-')} leader={getattr(body, 'leader_id', None)}"


def state(node_id: int, raft: Raft) -> str:
    """Where a node stands."""
    log, status = raft.log, raft.status
    quarantine = f" quarantine: {_quarantine(log.quarantine)}" if log.quarantine else ""
    start = f"start={log.start_offset} " if log.start_offset else ""
    return (
        f"{node_id} {status.role} epoch={status.epoch} leader={status.leader_id} {start}"
        f"end={log.end_offset}/{log.last_epoch} flushed={log.flushed_end_offset} hw={status.high_watermark}{quarantine}"
        f"{_voters(raft)}{'' if status.is_proven else ' unproven'}"
    )


def _quarantine(quarantine: Quarantine) -> str:
    places = ",".join(str(damage.start_offset) for damage in quarantine.damages)
    cut = "cut" if quarantine.is_cut else "not cut"
    return f"epoch={quarantine.epoch} until={quarantine.until_offset} damaged={places} {cut}"


def _voters(raft: Raft) -> str:
    """The set in force, when it is the log's."""
    offset = raft.voter_history.voters_offset
    return "" if offset is None else f" voters={','.join(map(str, raft.status.voters.ids))} since {offset}"


def _voters_in(batch: effects.PlannedBatch) -> str:
    """The voter set that a batch writes, if it does."""
    sets = [record.voters.ids for record in batch.control if isinstance(record, KRaftVoters)]
    return f" voters={','.join(map(str, sets[0]))}" if sets else ""
