"""The answer to the request behind a voter change: each request is answered once, however its change ends.

Source: KIP-853 §AddRaftVoter, §RemoveRaftVoter, §UpdateRaftVoter; Kafka ``LeaderState.resetAddVoterHandlerState``.
"""

from pykraft.core.effects import Reply, Report
from pykraft.core.leader.pending import Update, VoterChange
from pykraft.core.messages import ChangeVoterResponse, Response, UpdateVoterResponse
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import NO_IO, ReportKind


def answer_change(replica: Replica, leader: Leader, error: ErrorCode, text: str | None) -> None:
    """End the current change, and answer its request unless that was done.

    Effects: Reply.
    """
    change, leader.change = leader.change, None
    assert change is not None
    if not change.is_answered:
        answer_requester(replica, change, error, text)


def answer_requester(replica: Replica, change: VoterChange, error: ErrorCode, text: str | None = None) -> None:
    """Answer the request of this change.

    Effects: Reply; Report, since the answer to UpdateRaftVoter has no room for the text.
    """
    message: Response
    if isinstance(change, Update):
        # After the end of a term there is nothing to mend: the voter tells the next leader.
        if text is not None and error != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            replica.outbox.add(Report(text=_refused(replica, change, text), kind=ReportKind.CONNECTION))
        listeners = replica.reply_listeners(change.listener)
        message = UpdateVoterResponse(
            error=error, epoch=replica.epoch, leader_id=replica.leader_id, listeners=listeners
        )
    else:
        message = ChangeVoterResponse(error=error, error_message=text)
    # The outbox replaces NO_IO by the job that makes the election durable.
    replica.outbox.send(Reply(after=NO_IO, request_id=change.request_id, message=message), Relies.ELECTION)


def _refused(replica: Replica, update: Update, text: str) -> str:
    endpoint = update.voter.listeners.get(replica.local.default_listener)
    return f"voter {update.voter.key.id} reports that it is at {endpoint}, which is refused: {text}"
