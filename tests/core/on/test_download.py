"""A snapshot download: what the leader answers, what the follower asks for and does with it, and what ends it."""

import pytest

from pykraft.core import messages
from pykraft.core.effects import AbandonDownload, AppendDownload, BeginDownload, Reply, ReplySnapshot, Report, Send
from pykraft.core.events import DownloadAdvanced, DownloadFailed
from pykraft.core.leader.progress import FIRST_ANSWER_SIZE_BYTES_MAX
from pykraft.core.leader.serving import ANSWER_SIZE_BYTES_MAX
from pykraft.core.on.download import on_download_advanced, on_download_failed
from pykraft.core.on.timer import poll
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader, SnapshotDownload, State
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import Epoch, Offset
from tests.core.replicas import (
    EPOCH,
    NOW,
    answer,
    ask,
    done,
    follower,
    kinds,
    later,
    leader,
    listeners,
    only,
    replica,
    unattached,
)
from tests.core.said import fetch_snapshot, fetched, place, sliced

ID = place(30, 5)
FETCH_TIMEOUT_MS = 2_000


def downloading(position: int | None = 0) -> Replica:
    """Follows 2 in epoch 5, and fetches a snapshot; its log ends at 10, everything below 4 is committed."""
    made = replica(follower())
    made.log.commit_to(Offset(4))
    answer(made, fetched(snapshot=(30, 5)))
    if position is not None:
        on_download_advanced(made, DownloadAdvanced(snapshot_id=ID, leader_epoch=EPOCH, position=position), NOW)
    return made


def state_of(made: Replica) -> Follower:
    assert isinstance(made.state, Follower)
    return made.state


def asks(made: Replica, ms: int = 0) -> list[messages.Request]:
    poll(made, later(ms))
    return [effect.message for effect in done(made) if isinstance(effect, Send)]


@pytest.mark.conformance(122, "H24")
def test_a_snapshot_in_the_place_of_records_is_fetched() -> None:
    made = replica(follower())
    found = answer(made, fetched(snapshot=(30, 5)))
    assert only(found, BeginDownload) == BeginDownload(snapshot_id=ID, leader_epoch=made.epoch)
    assert state_of(made).download == SnapshotDownload(snapshot_id=ID)
    assert (state_of(made).has_fetched, state_of(made).fetch_deadline_ms) == (True, NOW.mono_ms + FETCH_TIMEOUT_MS)


@pytest.mark.conformance(122)
@pytest.mark.parametrize("wrong", [(-1, 5), (30, -1), (30, 6), (10, 3), (9, 3), (30, 2), (3, 4)])
def test_a_snapshot_that_cannot_help_makes_no_sense(wrong: tuple[int, int]) -> None:
    made = replica(follower())
    made.log.commit_to(Offset(7))
    with pytest.raises(ProtocolError, match="it offers the snapshot"):
        answer(made, fetched(snapshot=wrong))
    assert state_of(made).download is None


def test_a_snapshot_of_an_older_epoch_is_fetched_in_place_of_records_that_were_never_committed() -> None:
    """The log ends at 10 in epoch 3, which began at 6; nothing from there on is committed, as the snapshot tells."""
    made = replica(follower())
    made.log.commit_to(Offset(6))
    found = answer(made, fetched(snapshot=(30, 2)))
    assert only(found, BeginDownload).snapshot_id == place(30, 2)


def test_nothing_is_asked_while_the_host_is_busy() -> None:
    assert asks(downloading(None)) == []


@pytest.mark.conformance("H25")
def test_the_bytes_from_its_position_on_are_asked_for_once() -> None:
    made = downloading(7)
    (request,) = asks(made)
    assert request == messages.FetchSnapshotRequest(
        replica=made.local.key, epoch=made.epoch, snapshot_id=ID, position=7, size_bytes_max=1_048_576
    )
    assert asks(made) == []


@pytest.mark.conformance(122, "H26")
@pytest.mark.parametrize(("position", "is_last"), [(0, False), (14, False), (15, True)])
def test_what_came_is_appended(position: int, is_last: bool) -> None:
    made = downloading(position)
    found = answer(made, sliced(position=position))
    assert found == [AppendDownload(snapshot_id=ID, position=position, is_last=is_last)]
    assert state_of(made).download == SnapshotDownload(snapshot_id=ID)
    assert state_of(made).fetch_deadline_ms == NOW.mono_ms + FETCH_TIMEOUT_MS


@pytest.mark.conformance(122)
def test_positions_have_64_bits() -> None:
    made = downloading(2**33)
    (request,) = asks(made)
    assert isinstance(request, messages.FetchSnapshotRequest)
    assert request.position == 2**33
    found = answer(made, sliced(position=2**33, size_bytes=2**33 + 10))
    assert found == [AppendDownload(snapshot_id=ID, position=2**33, is_last=True)]


@pytest.mark.conformance(122)
@pytest.mark.parametrize(
    "wrong",
    [
        sliced(position=1),
        sliced(snapshot=(31, 5)),
        sliced(received_bytes=0),
        sliced(received_bytes=26),
        sliced(size_bytes=-1),
    ],
)
def test_bytes_that_were_not_asked_for_make_no_sense(wrong: messages.FetchSnapshotResponse) -> None:
    made = downloading()
    with pytest.raises(ProtocolError, match="requested 0"):
        answer(made, wrong)


@pytest.mark.conformance(122, "H25")
@pytest.mark.parametrize(
    "error", [ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE], ids=lambda error: error.name
)
def test_a_snapshot_that_is_gone_is_given_up_with_its_part_and_the_leader_is_alive(error: ErrorCode) -> None:
    made = downloading()
    assert answer(made, sliced(error=error), now=later(100)) == [AbandonDownload(snapshot_id=ID)]
    assert state_of(made).download is None
    assert state_of(made).fetch_deadline_ms == NOW.mono_ms + 100 + FETCH_TIMEOUT_MS
    assert [type(request) for request in asks(made, 200)] == [messages.FetchRequest]


@pytest.mark.parametrize("response", [sliced(error=ErrorCode.UNKNOWN_SERVER_ERROR), sliced(epoch=None, error=3)])
def test_after_any_other_error_a_fetch_comes_first(response: messages.FetchSnapshotResponse) -> None:
    made = downloading()
    asks(made)
    assert answer(made, response) == []
    assert made.connections.is_backing_off(2)
    assert [type(request) for request in asks(made, 200)] == [messages.FetchRequest]
    assert state_of(made).download is None


@pytest.mark.conformance(122, 146)
def test_after_silence_a_fetch_comes_first() -> None:
    made = downloading()
    assert len(asks(made)) == 1
    made.connections.reset()
    assert [type(request) for request in asks(made)] == [messages.FetchRequest]


@pytest.mark.conformance(122)
@pytest.mark.parametrize("epoch", [4, 6])
def test_an_answer_of_another_epoch_brings_nothing(epoch: int) -> None:
    made = downloading()
    assert "AppendDownload" not in kinds(answer(made, sliced(epoch=epoch)))


@pytest.mark.conformance(122)
def test_who_does_not_fetch_a_snapshot_has_no_use_for_an_answer() -> None:
    for made in (replica(follower()), replica(unattached())):
        assert answer(made, sliced(leader_id=None)) == []


@pytest.mark.conformance("H25")
def test_the_time_that_the_disk_took_is_not_the_leaders_fault() -> None:
    made = downloading(None)
    on_download_advanced(made, DownloadAdvanced(snapshot_id=ID, leader_epoch=EPOCH, position=3), later(300))
    assert state_of(made).fetch_deadline_ms == NOW.mono_ms + 300 + FETCH_TIMEOUT_MS
    assert state_of(made).download == SnapshotDownload(snapshot_id=ID, position=3)


@pytest.mark.parametrize("made", [replica(follower()), replica(unattached()), downloading()])
def test_news_of_a_former_download_change_nothing(made: Replica) -> None:
    before = made.state
    on_download_advanced(made, DownloadAdvanced(snapshot_id=place(20, 5), leader_epoch=EPOCH, position=3), NOW)
    on_download_failed(made, DownloadFailed(snapshot_id=place(20, 5), reason="damaged"), NOW)
    # The same snapshot, of the leader before: its bytes are in another file.
    former = DownloadAdvanced(snapshot_id=ID, leader_epoch=Epoch(4), position=3)
    on_download_advanced(made, former, NOW)
    assert made.state is before


def test_a_download_that_failed_ends_with_a_pause() -> None:
    made = downloading()
    on_download_failed(made, DownloadFailed(snapshot_id=ID, reason="damaged at 7"), NOW)
    assert "damaged at 7" in only(done(made), Report).text
    assert state_of(made).download is None
    assert made.connections.is_backing_off(2)


def with_snapshot(state: State) -> Replica:
    """A replica that has a snapshot of its log up to 3."""
    made = replica(state)
    made.log.add_snapshot(place(3, 1))
    return made


@pytest.mark.conformance(121, 146)
@pytest.mark.parametrize(
    ("state", "message", "error"),
    [
        (leader(), fetch_snapshot(snapshot=(3, 2)), ErrorCode.SNAPSHOT_NOT_FOUND),
        (leader(), fetch_snapshot(snapshot=(0, 0)), ErrorCode.SNAPSHOT_NOT_FOUND),
        (leader(), fetch_snapshot(position=-1), ErrorCode.POSITION_OUT_OF_RANGE),
        (leader(), fetch_snapshot(size_bytes_max=-1), ErrorCode.INVALID_REQUEST),
        (leader(), fetch_snapshot(epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (leader(), fetch_snapshot(epoch=6), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (follower(), fetch_snapshot(), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_the_reason_and_the_leader_are_told(
    state: State, message: messages.FetchSnapshotRequest, error: ErrorCode
) -> None:
    made = with_snapshot(state)
    assert only(ask(made, message), Reply).message == messages.FetchSnapshotResponse(
        error=error,
        epoch=made.epoch,
        leader_id=made.leader_id,
        snapshot_id=message.snapshot_id,
        listeners=listeners(made.leader_id or 0),
    )


@pytest.mark.conformance(121, "H23")
def test_the_host_answers_with_bytes() -> None:
    found = only(ask(with_snapshot(leader()), fetch_snapshot(position=7, size_bytes_max=99)), ReplySnapshot)
    assert (found.message.error, found.message.snapshot_id, found.message.position) == (0, place(3, 1), 7)
    assert (found.request_id, found.size_bytes_max) == (7, 99)
    beyond = only(ask(with_snapshot(leader()), fetch_snapshot(position=2**33)), ReplySnapshot)
    assert (beyond.message.error, beyond.message.position) == (0, 2**33)


@pytest.mark.conformance(121)
@pytest.mark.parametrize(
    ("message", "counts"),
    [
        (fetch_snapshot(), True),
        (fetch_snapshot(replica=None), False),
        (fetch_snapshot(epoch=4), False),
        (fetch_snapshot(replica=4), False),
        (fetch_snapshot(snapshot=(9, 9)), False),
        (fetch_snapshot(position=-1), False),
    ],
)
def test_a_voter_that_is_served_is_alive(message: messages.FetchSnapshotRequest, counts: bool) -> None:
    made = with_snapshot(leader())
    ask(made, message, later(70))
    assert isinstance(made.state, Leader)
    assert made.state.check_quorum_deadline_ms == NOW.mono_ms + 3_000 + (70 if counts else 0)


def test_no_slice_is_larger_than_a_bound() -> None:
    endless, state = fetch_snapshot(size_bytes_max=2**31 - 1), leader()
    assert only(ask(with_snapshot(state), endless), ReplySnapshot).size_bytes_max == FIRST_ANSWER_SIZE_BYTES_MAX
    for progress in state.progress.voters.values():
        progress.answer = progress.carried_bytes = None  # quick answers have shown that the link carries anything
    assert only(ask(with_snapshot(state), endless), ReplySnapshot).size_bytes_max == ANSWER_SIZE_BYTES_MAX
