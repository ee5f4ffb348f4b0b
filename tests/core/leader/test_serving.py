"""How a leader answers a Fetch, and when it parks one."""

from dataclasses import replace

import pytest

from pykraft.config import RaftConfig
from pykraft.core import messages
from pykraft.core.effects import ReplyFetch
from pykraft.core.leader.parked import ParkedFetch
from pykraft.core.leader.serving import answer_parked, has_answer, serve, served_end_offset
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.types import Io, Offset
from tests.core.replicas import EPOCH, LISTENER, done, leader, listeners, only, replica
from tests.core.said import fetch, place


def leading(*, high_watermark: int | None = None, flushed_only: bool = False) -> tuple[Replica, Leader]:
    """A leader whose first record, at 10, is not flushed."""
    state = leader(high_watermark=high_watermark)
    made = replica(state, config=RaftConfig(leader_send_flushed_only=flushed_only))
    made.log.append(base_offset=Offset(10), end_offset=Offset(11), epoch=EPOCH)
    made.log.submit(Io(1))
    return made, state


@pytest.mark.conformance("H54")
@pytest.mark.parametrize(("flushed_only", "end"), [(False, 11), (True, 10)])
def test_records_are_sent_up_to_the_end_or_only_when_flushed(flushed_only: bool, end: int) -> None:
    made, state = leading(high_watermark=9, flushed_only=flushed_only)
    assert served_end_offset(made, state, fetch()) == end
    serve(made, state, 7, LISTENER, fetch(at=(6, 1)))
    served = only(done(made), ReplyFetch)
    assert (served.request_id, served.fetch_offset, served.end_offset, served.size_bytes_max) == (7, 6, end, 1_000)
    assert served.message == messages.FetchResponse(
        error=0,
        epoch=EPOCH,
        leader_id=state.leader_id,
        high_watermark=Offset(9),
        log_start_offset=Offset(0),
        listeners=listeners(1),
    )


@pytest.mark.parametrize(
    ("high_watermark", "flushed_only", "end"), [(None, False, 0), (9, False, 9), (11, False, 11), (11, True, 10)]
)
def test_who_wants_committed_records_only_gets_no_others(
    high_watermark: int | None, flushed_only: bool, end: int
) -> None:
    made, state = leading(high_watermark=high_watermark, flushed_only=flushed_only)
    asked = replace(fetch(at=(6, 1)), is_committed_only=True)
    assert served_end_offset(made, state, asked) == end
    assert has_answer(made, state, asked) is (end > 6)
    serve(made, state, 7, LISTENER, asked)
    assert only(done(made), ReplyFetch).end_offset == max(end, 6)


def test_a_fetch_above_what_is_flushed_gets_nothing() -> None:
    made, state = leading(flushed_only=True)
    serve(made, state, 7, LISTENER, fetch(at=(11, 5)))
    served = only(done(made), ReplyFetch)
    assert (served.fetch_offset, served.end_offset) == (11, 11)


@pytest.mark.conformance(50)
def test_logs_that_part_are_told_where_and_get_no_records() -> None:
    made, state = leading()
    serve(made, state, 7, LISTENER, fetch(at=(8, 1)))
    served = only(done(made), ReplyFetch)
    assert served.message.diverging == place(6, 1)
    assert (served.fetch_offset, served.end_offset) == (8, 8)


@pytest.mark.conformance(145)
@pytest.mark.parametrize(
    ("request_", "known", "expected"),
    [
        (fetch(at=(11, 5)), None, False),
        (fetch(at=(10, 3)), None, True),
        (fetch(at=(11, 4)), None, True),
        (fetch(at=(11, 5), wait_ms=0), None, True),
        (fetch(at=(11, 5), high_watermark=-1), 4, True),
        (fetch(at=(11, 5), high_watermark=3), 4, True),
        (fetch(at=(11, 5), high_watermark=4), 4, False),
        (fetch(at=(11, 5), high_watermark=5), 4, False),
        (fetch(at=(11, 5), high_watermark=None), 4, False),
    ],
)
def test_a_fetch_waits_when_there_is_nothing_to_tell(
    request_: messages.FetchRequest, known: int | None, expected: bool
) -> None:
    made, state = leading(high_watermark=known)
    assert has_answer(made, state, request_) is expected


@pytest.mark.conformance(117)
def test_all_that_wait_are_answered_as_they_asked() -> None:
    made, state = leading()
    for request_id in (4, 5):
        parked = fetch(at=(10, 3), epoch=5, replica=request_id)
        made.parked.park(ParkedFetch(request_id=request_id, listener=LISTENER, request=parked, deadline_ms=0))
    answer_parked(made, state)
    answered = [(one.request_id, one.fetch_offset) for one in done(made) if isinstance(one, ReplyFetch)]
    assert answered == [(4, 10), (5, 10)]
    assert made.parked.take_all() == []
