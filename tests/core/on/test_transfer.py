"""Leadership transfer: what starts one, when the leader resigns, what the requester hears. Stories are scenarios."""

import pytest

from pykraft.config import TRANSFER_TIMEOUT_MS_MAX
from pykraft.core import messages
from pykraft.core.effects import AppendBatches, CompletePendingRequest, Effect, RejectProposal, Reply, ReplyFetch
from pykraft.core.events import Proposed, TransferRequested
from pykraft.core.leader.appending import drain_if_due
from pykraft.core.leader.pending import Removal
from pykraft.core.on.propose import on_proposed
from pykraft.core.on.timer import next_deadline_ms, poll
from pykraft.core.on.transfer import is_due, on_transfer_requested
from pykraft.core.replica import Replica
from pykraft.core.state import Leader, Resigned, State
from pykraft.errors import (
    ErrorCode,
    LeadershipTransferError,
    NotLeaderError,
    OutcomeUnknownError,
    PykraftError,
    RefusedError,
    UsageError,
)
from pykraft.types import Epoch, NodeId, Offset, ReplicaKey
from tests.core import replicas
from tests.core.on.voters.test_upgrade import leader_that_knows, upgraded
from tests.core.on.voters.test_voter_changes import dynamic
from tests.core.said import begin, fetch, update_voter

TIMEOUT_MS = 200


def leading(*, linger_ms: int = 0, high_watermark: int = 10) -> Replica:
    """Leads epoch 5 with a log up to 10, all of it committed; the voters have fetched just now."""
    return replicas.replica(heard(replicas.leader(high_watermark=high_watermark, linger_ms=linger_ms)))


def heard(state: Leader) -> Leader:
    """A leader from which all voters have just fetched, wherever."""
    for voter in state.progress.voters.values():
        voter.fetched_mono_ms = replicas.NOW.mono_ms
    return state


def state_of(made: Replica) -> Leader:
    assert isinstance(made.state, Leader)
    return made.state


def wanted(made: Replica, target_id: int = 3, *, epoch: int = 5) -> list[Effect]:
    event = TransferRequested(handle=8, epoch=Epoch(epoch), target_id=NodeId(target_id), timeout_ms=TIMEOUT_MS)
    on_transfer_requested(made, event, replicas.NOW)
    return replicas.done(made)


def request(target_id: int = 3, timeout_ms: int = TIMEOUT_MS) -> messages.TransferLeadershipRequest:
    return messages.TransferLeadershipRequest(target_id=NodeId(target_id), timeout_ms=timeout_ms)


def fetch_of(made: Replica, replica_key: ReplicaKey, offset: int = 10) -> None:
    replicas.ask(made, fetch(replica=replica_key, at=(offset, 3)))


def acted(made: Replica, after_ms: int = 0) -> list[Effect]:
    poll(made, replicas.later(after_ms))
    return replicas.done(made)


def replied(found: list[Effect]) -> tuple[int, str | None]:
    message = replicas.only(found, Reply).message
    assert isinstance(message, messages.TransferLeadershipResponse)
    return message.error, message.error_message


def error_of(found: list[Effect]) -> Exception | None:
    answer = replicas.only(found, CompletePendingRequest)
    assert answer.handle == 8
    return answer.error


def test_a_target_that_fetches_at_the_end_is_named_first() -> None:
    made = leading()
    fetch_of(made, replicas.key(2))
    assert not [effect for effect in wanted(made) if isinstance(effect, CompletePendingRequest | AppendBatches)]
    fetch_of(made, replicas.key(3))
    acted(made)
    assert isinstance(made.state, Resigned)
    assert [successor.id for successor in made.state.successors] == [3, 2]


def test_a_fetch_from_before_does_not_count_and_is_answered_so_that_there_is_another() -> None:
    made = leading()
    replicas.ask(made, fetch(replica=3, high_watermark=10))
    assert replicas.only(wanted(made), ReplyFetch).fetch_offset == 10
    acted(made)
    assert isinstance(made.state, Leader)


def test_a_disk_with_the_same_id_is_not_the_target() -> None:
    made = leading()
    fetch_of(made, replicas.key(3))
    wanted(made)
    fetch_of(made, ReplicaKey(NodeId(3), replicas.directory(9)))
    acted(made)
    assert isinstance(made.state, Leader)


@pytest.mark.parametrize(("offset", "high_watermark"), [(9, 10), (10, 9)])
def test_a_target_that_lacks_something_does_not_lead(offset: int, high_watermark: int) -> None:
    made = leading(high_watermark=high_watermark)
    wanted(made)
    state_of(made).epoch_start_offset = Offset(10)
    fetch_of(made, replicas.key(3), offset)
    acted(made)
    assert isinstance(made.state, Leader)


def test_what_was_accepted_is_appended_whatever_it_waited_for() -> None:
    made = leading(linger_ms=1_000)
    for is_prepared in (False, True):
        state_of(made).accumulation.add(handle=1, count=2, size_bytes=9, now=replicas.NOW, is_prepared=is_prepared)
    wanted(made)
    fetch_of(made, replicas.key(3))
    replicas.done(made)
    assert not is_due(made, state_of(made)), "the target has the whole log, but not what still waits"
    ends = []
    for _ in range(2):
        drain_if_due(made, state_of(made), replicas.NOW)
        ends.append(replicas.only(replicas.done(made), AppendBatches).batches[-1].end_offset)
    assert ends == [12, 14]
    assert state_of(made).accumulation.is_empty


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (request(1), ErrorCode.ELECTION_NOT_NEEDED, "node 1 already leads"),
        (request(4), ErrorCode.VOTER_NOT_FOUND, "node 4 only observes; the voters are 1, 2, 3"),
        (request(9), ErrorCode.VOTER_NOT_FOUND, "node 9 is not known; the voters are 1, 2, 3"),
        (request(-1), ErrorCode.VOTER_NOT_FOUND, "node -1 is not known; the voters are 1, 2, 3"),
        (request(3, -1), ErrorCode.INVALID_REQUEST, "a leader waits 0 to 60000 ms, not -1"),
        (request(3, TRANSFER_TIMEOUT_MS_MAX + 1), ErrorCode.INVALID_REQUEST, "a leader waits 0 to 60000 ms, not 60001"),
    ],
)
def test_what_a_leader_does_not_begin(message: messages.TransferLeadershipRequest, error: ErrorCode, text: str) -> None:
    made = leading()
    fetch_of(made, replicas.key(4))
    assert replied(replicas.ask(made, message)) == (error, text)
    assert made.transfer is None


def test_one_thing_after_another() -> None:
    made = leading()
    state_of(made).change = Removal(request_id=1, deadline_ms=20_000, offset=Offset(10))
    assert replied(replicas.ask(made, request())) == (
        ErrorCode.REQUEST_TIMED_OUT,
        "a change of the voters is under way: try again",
    )
    state_of(made).change = None
    replicas.ask(made, request())
    found = replied(replicas.ask(made, request(2)))
    assert found == (ErrorCode.REQUEST_TIMED_OUT, "the leadership is already being transferred to node 3: try again")


def test_meanwhile_nothing_is_taken() -> None:
    made = dynamic()
    heard(state_of(made))
    wanted(made)
    on_proposed(made, Proposed(handle=1, epoch=Epoch(5), count=1, size_bytes=9), replicas.NOW)
    assert isinstance(replicas.only(replicas.done(made), RejectProposal).error, LeadershipTransferError)
    change = replicas.only(replicas.ask(made, messages.RemoveVoterRequest(voter=replicas.key(3))), Reply).message
    text = "the leadership is being transferred: try again"
    assert change == messages.ChangeVoterResponse(error=ErrorCode.REQUEST_TIMED_OUT, error_message=text)
    update = replicas.only(replicas.ask(made, update_voter()), Reply).message
    assert isinstance(update, messages.UpdateVoterResponse)
    assert update.error == ErrorCode.REQUEST_TIMED_OUT


def test_meanwhile_there_is_no_upgrade() -> None:
    made = leader_that_knows()
    heard(state_of(made))
    wanted(made)
    error, is_written = upgraded(made)
    assert (str(error), is_written) == ("the leadership is being transferred: try again", False)


@pytest.mark.parametrize(
    ("state", "text"),
    [(replicas.follower(), "node 2 leads epoch 5"), (replicas.unattached(), "no leader of epoch 5 is known")],
)
def test_who_does_not_lead_names_the_leader(state: State, text: str) -> None:
    assert replied(replicas.ask(replicas.replica(state), request())) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, text)


def test_who_leaves_hands_over_anyway() -> None:
    made = leading()
    made.shutdown_deadline_ms = 20_000
    assert replied(replicas.ask(made, request()))[0] == ErrorCode.BROKER_NOT_AVAILABLE
    assert isinstance(error_of(wanted(made)), NotLeaderError)


@pytest.mark.parametrize(
    ("made", "epoch", "kind"),
    [
        (replicas.replica(replicas.follower()), 5, NotLeaderError),
        (leading(), 4, NotLeaderError),
        (leading(), 6, UsageError),
    ],
)
def test_the_application_transfers_the_epoch_that_it_leads(made: Replica, epoch: int, kind: type[PykraftError]) -> None:
    assert type(error_of(wanted(made, epoch=epoch))) is kind


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (None, "node 3 has not fetched since: is it running?"),
        (9, "node 3 holds the log up to 9 of 10;"),
        (10, "not all of the log, which ends at 10, is committed;"),
    ],
)
def test_out_of_time_it_goes_on_to_lead_and_says_why(offset: int | None, text: str) -> None:
    made = leading(high_watermark=8)
    wanted(made)
    if offset is not None:
        fetch_of(made, replicas.key(3), offset)
    assert next_deadline_ms(made) == replicas.NOW.mono_ms + TIMEOUT_MS
    acted(made, TIMEOUT_MS - 1)
    assert made.transfer is not None
    error = error_of(acted(made, TIMEOUT_MS))
    assert isinstance(error, RefusedError)
    assert (error.code, f"{text} node 1 stays the leader" in str(error)) == (ErrorCode.REQUEST_TIMED_OUT, True)
    assert isinstance(made.state, Leader)
    assert made.transfer is None


@pytest.mark.parametrize(("next_id", "error"), [(3, 0), (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)])
def test_the_asker_hears_who_leads_in_the_end(next_id: int, error: int) -> None:
    made = leading()
    replicas.ask(made, request())
    fetch_of(made, replicas.key(3))
    acted(made)
    replicas.ask(made, begin(epoch=6, leader_id=next_id))
    assert replied(acted(made)) == (error, "node 2 leads epoch 6" if error else None)
    assert made.transfer is None


def test_the_application_hears_it_too() -> None:
    made = leading()
    wanted(made)
    fetch_of(made, replicas.key(3))
    acted(made)
    replicas.ask(made, begin(epoch=6, leader_id=3))
    assert error_of(acted(made)) is None


OUTCOME_MS = TIMEOUT_MS + 2 * replicas.CONFIG.election_timeout_ms


def test_the_outcome_is_unknown_after_resigning_when_no_leader_is_known_in_time() -> None:
    made = leading()
    replicas.ask(made, request())
    fetch_of(made, replicas.key(3))
    acted(made)
    acted(made, OUTCOME_MS - 1)
    assert made.transfer is not None
    error, text = replied(acted(made, OUTCOME_MS))
    assert (error, text) == (
        ErrorCode.LEADER_NOT_AVAILABLE,
        "this node has resigned and knows no new leader: the transfer may still take effect",
    )
    made = leading()
    wanted(made)
    fetch_of(made, replicas.key(3))
    acted(made)
    assert isinstance(error_of(acted(made, OUTCOME_MS)), OutcomeUnknownError)


def refusal(found: list[Effect]) -> str:
    error = replicas.only(found, CompletePendingRequest).error
    assert isinstance(error, RefusedError)
    return str(error)


def test_a_target_that_is_silent_for_a_fetch_timeout_is_not_waited_for() -> None:
    made = leading()
    state_of(made).progress.voters[NodeId(3)].fetched_mono_ms = replicas.NOW.mono_ms - replicas.CONFIG.fetch_timeout_ms
    assert "PREFERRED_LEADER_NOT_AVAILABLE: node 3 has not fetched for 2000 ms" in refusal(wanted(made))
    state_of(made).progress.voters[NodeId(3)].fetched_mono_ms = (
        replicas.NOW.mono_ms - replicas.CONFIG.fetch_timeout_ms + 1
    )
    wanted(made)
    assert made.transfer is not None


def test_a_new_leader_waits_for_who_has_not_fetched_yet() -> None:
    made = leading()
    state_of(made).progress.voters[NodeId(3)].fetched_mono_ms = None
    state_of(made).begun_ms = replicas.NOW.mono_ms - replicas.CONFIG.fetch_timeout_ms + 1
    wanted(made)
    assert made.transfer is not None


def test_nobody_is_waited_for_longer_than_a_fetch_timeout() -> None:
    made = leading()
    replicas.ask(made, messages.TransferLeadershipRequest(target_id=NodeId(3), timeout_ms=TRANSFER_TIMEOUT_MS_MAX))
    assert made.transfer is not None
    assert made.transfer.deadline_ms == replicas.NOW.mono_ms + replicas.CONFIG.fetch_timeout_ms


def test_a_transfer_that_failed_is_followed_by_a_rest() -> None:
    made = leading()
    wanted(made)
    poll(made, replicas.later(TIMEOUT_MS))
    replicas.done(made)
    assert made.transfer is None
    heard(state_of(made))
    for ms, is_refused in ((TIMEOUT_MS, True), (10 * TIMEOUT_MS - 1, True), (10 * TIMEOUT_MS, False)):
        event = TransferRequested(handle=8, epoch=Epoch(5), target_id=NodeId(3), timeout_ms=TIMEOUT_MS)
        state_of(made).progress.voters[NodeId(3)].fetched_mono_ms = replicas.NOW.mono_ms + ms
        on_transfer_requested(made, event, replicas.later(ms))
        if is_refused:
            assert f"a transfer has just failed: try again in {10 * TIMEOUT_MS - ms} ms" in refusal(replicas.done(made))
    assert made.transfer is not None
