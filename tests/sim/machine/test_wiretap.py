"""A wiretap distinguishes requests from answers, and knows which Fetches are outstanding."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.state import Follower
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import encode_request, encode_response
from pykraft.protocol.frame import frame
from pykraft.protocol.messages import ApiKey
from pykraft.sim.flipped_frame import FlippedFrame
from pykraft.sim.machine.spoken import Departure, LogEnd, Spoken
from pykraft.sim.machine.wiretap import Wiretap
from pykraft.sim.scenario.settings import listeners_of
from pykraft.types import Epoch, NodeId
from tests.sim.machine.test_spoken import answer, asked, fetch_request, fetched, topics, vote

HERE, THERE = ConnectionId(1), ConnectionId(2)
LOG = LogEnd(epoch=1, offset=3)


def core(*, is_proven: bool = True, **fields: Any) -> Any:
    """A follower of node 2."""
    state = Follower(
        epoch=Epoch(1),
        leader_id=NodeId(2),
        leader_listeners=listeners_of(2),
        fetch_deadline_ms=1,
        update_deadline_ms=1,
        **fields,
    )
    return SimpleNamespace(state=state, status=SimpleNamespace(is_proven=is_proven))


def data(version: int) -> bytes:
    return b"".join(vote(version))[4:]


def test_requests_are_heard_on_connections_that_were_dialed() -> None:
    wiretap = Wiretap(lambda: False, core)
    wiretap.dialed(HERE, 7)
    assert wiretap.says(HERE, vote(2), is_epoch_durable=True) == Spoken(epoch=3, candidate_id=2, target_id=7)


def test_the_answer_to_a_vote_is_read_by_its_question_once() -> None:
    wiretap = Wiretap(lambda: False, core)
    wiretap.heard(THERE, data(2), LOG, is_damaged=False)
    spoken = wiretap.says(THERE, answer(2, granted=True), is_epoch_durable=True)
    assert spoken == Spoken(epoch=3, candidate_id=2, granted=asked())
    assert wiretap.says(THERE, answer(2, granted=True), is_epoch_durable=True) is None
    wiretap.heard(THERE, data(2), LOG, is_damaged=False)
    wiretap.broke(THERE)
    assert wiretap.says(THERE, answer(2, granted=True), is_epoch_durable=True) is None


@pytest.mark.parametrize(
    ("core", "may_be_denied"),
    [
        (core(has_fetched=True), True),
        (core(), False),
        (core(has_fetched=True, leader_has_left=True), False),
        (core(is_proven=False), True),
        (None, True),
    ],
)
def test_a_voter_that_hears_its_leader_or_is_unproven_may_deny_a_pre_vote(core: Any, *, may_be_denied: bool) -> None:
    wiretap = Wiretap(lambda: False, lambda: core)
    wiretap.heard(THERE, b"".join(vote(2, pre_vote=True))[4:], LOG, is_damaged=False)
    spoken = wiretap.says(THERE, answer(2, granted=False), is_epoch_durable=True)
    assert spoken is not None
    assert spoken.denied is not None
    assert spoken.denied.may_be_denied == may_be_denied


def test_a_fetch_is_open_until_its_answer_comes_or_the_network_breaks() -> None:
    wiretap = Wiretap(lambda: False, core)
    wiretap.dialed(HERE, 7)
    wiretap.fetches(HERE, 5, led_epoch=2)
    assert wiretap.open_fetches == {HERE: 5}
    wiretap.heard(HERE, b"answer", LOG, is_damaged=False)
    assert not wiretap.open_fetches
    wiretap.fetches(HERE, 6, led_epoch=3)
    wiretap.broke(HERE)
    assert not wiretap.open_fetches


def test_answers_are_counted_by_who_gave_them() -> None:
    wiretap = Wiretap(lambda: False, core)
    wiretap.dialed(HERE, 7)
    wiretap.fetches(HERE, 5, led_epoch=2)
    for said in (b"answer to a Fetch", b"answer to a FetchSnapshot"):
        wiretap.heard(HERE, said, LOG, is_damaged=False)
    assert wiretap.fetch_answers == {7: 1}
    assert wiretap.answers == {7: 2}
    wiretap.fetches(HERE, 6, led_epoch=3)
    wiretap.heard(HERE, b"answer to a Fetch of a later epoch", LOG, is_damaged=False)
    wiretap.fetches(HERE, 7, led_epoch=None)
    wiretap.heard(HERE, b"answer to a Fetch of one who looks for the leader", LOG, is_damaged=False)
    assert wiretap.fetch_answers == {7: 3}
    assert wiretap.fetch_answers_in == {(7, 2): 1, (7, 3): 1}


def test_an_answer_with_records_is_read_while_the_disk_may_have_lied() -> None:
    is_rotten = [False]
    wiretap = Wiretap(lambda: is_rotten[0], core)
    question, reply = b"".join(fetch_request())[4:], fetched(6, b"records")
    for said in (None, Spoken(epoch=6, served=b"records")):
        wiretap.heard(THERE, question, LOG, is_damaged=False)
        assert wiretap.says(THERE, reply, is_epoch_durable=True) == said
        is_rotten[0] = True


def test_announcements_are_answered_for_their_epoch_and_goodbyes_are_kept() -> None:
    wiretap = Wiretap(lambda: False, core)
    partition = topics(leader_id=1, leader_epoch=7)
    goodbye = topics(leader_id=1, leader_epoch=7, preferred_successors=[])
    for api_key, body in ((ApiKey.BEGIN_QUORUM_EPOCH, partition), (ApiKey.END_QUORUM_EPOCH, goodbye)):
        question = b"".join(frame(encode_request(api_key, 0, 1, "c", body)))[4:]
        answered = topics(error_code=0, leader_id=1, leader_epoch=7)
        reply = frame(encode_response(api_key, 0, 1, {"error_code": 0, **answered}))
        wiretap.heard(THERE, question, LOG, is_damaged=False)
        spoken = wiretap.says(THERE, reply, is_epoch_durable=True)
        assert spoken is not None
        assert spoken.served_epoch == 7
        wiretap.heard(THERE, question, LOG, is_damaged=False)
        wiretap.broke(THERE)
        assert wiretap.says(THERE, reply, is_epoch_durable=True) is None
    assert wiretap.departures == 2 * [Departure(epoch=7, leader_id=1, has_successors=False)]


def test_refused_dials_are_counted_for_the_node_that_was_dialed() -> None:
    wiretap = Wiretap(lambda: False, core)
    wiretap.dialed(HERE, 7)
    wiretap.broke(HERE, is_refused=True)
    wiretap.dialed(THERE, 7)
    wiretap.broke(THERE)
    assert wiretap.refusals == {7: 1}


def test_a_frame_with_a_flipped_bit_counts_for_nothing_where_it_may_not_be_understood() -> None:
    wiretap = Wiretap(lambda: False, core)
    wiretap.dialed(HERE, 7)
    wiretap.fetches(HERE, 5, led_epoch=2)
    wiretap.heard(HERE, FlippedFrame(b"answer"), LOG, is_damaged=False)
    assert not wiretap.open_fetches
    assert not wiretap.answers
    goodbye = topics(leader_id=1, leader_epoch=7, preferred_successors=[])
    question = b"".join(frame(encode_request(ApiKey.END_QUORUM_EPOCH, 0, 1, "c", goodbye)))[4:]
    wiretap.heard(THERE, FlippedFrame(question), LOG, is_damaged=False)
    assert wiretap.departures == [Departure(epoch=7, leader_id=1, has_successors=True)]
    for unreadable in (question[:-1], b""):
        wiretap.heard(THERE, FlippedFrame(unreadable), LOG, is_damaged=False)
    assert len(wiretap.departures) == 1
    wiretap.heard(THERE, FlippedFrame(data(2)), LOG, is_damaged=False)
    assert wiretap.says(THERE, answer(2, granted=True), is_epoch_durable=True) is not None
