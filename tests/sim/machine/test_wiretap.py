"""A wiretap distinguishes requests from answers, and knows which Fetches are outstanding."""

from __future__ import annotations

from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import encode_request, encode_response
from pykraft.protocol.frame import frame
from pykraft.protocol.messages import ApiKey
from pykraft.sim.flipped_frame import FlippedFrame
from pykraft.sim.machine.spoken import Departure, LogEnd, Spoken
from pykraft.sim.machine.wiretap import Wiretap
from tests.sim.machine.test_spoken import answer, asked, fetch_request, fetched, topics, vote

HERE, THERE = ConnectionId(1), ConnectionId(2)
LOG = LogEnd(epoch=1, offset=3)


def data(version: int) -> bytes:
    return b"".join(vote(version))[4:]


def test_requests_are_heard_on_connections_that_were_dialed() -> None:
    wiretap = Wiretap(lambda: False)
    wiretap.dialed(HERE, 7)
    assert wiretap.says(HERE, vote(2), is_epoch_durable=True) == Spoken(epoch=3, candidate_id=2, target_id=7)


def test_the_answer_to_a_vote_is_read_by_its_question_once() -> None:
    wiretap = Wiretap(lambda: False)
    wiretap.heard(THERE, data(2), LOG, is_damaged=False)
    spoken = wiretap.says(THERE, answer(2, granted=True), is_epoch_durable=True)
    assert spoken == Spoken(epoch=3, candidate_id=2, granted=asked())
    assert wiretap.says(THERE, answer(2, granted=True), is_epoch_durable=True) is None
    wiretap.heard(THERE, data(2), LOG, is_damaged=False)
    wiretap.broke(THERE)
    assert wiretap.says(THERE, answer(2, granted=True), is_epoch_durable=True) is None


def test_a_fetch_is_open_until_its_answer_comes_or_the_network_breaks() -> None:
    wiretap = Wiretap(lambda: False)
    wiretap.dialed(HERE, 7)
    wiretap.fetches(HERE, 5, led_epoch=2)
    assert wiretap.open_fetches == {HERE: 5}
    wiretap.heard(HERE, b"answer", LOG, is_damaged=False)
    assert not wiretap.open_fetches
    wiretap.fetches(HERE, 6, led_epoch=3)
    wiretap.broke(HERE)
    assert not wiretap.open_fetches


def test_answers_are_counted_by_who_gave_them() -> None:
    wiretap = Wiretap(lambda: False)
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
    wiretap = Wiretap(lambda: is_rotten[0])
    question, reply = b"".join(fetch_request())[4:], fetched(6, b"records")
    for said in (None, Spoken(epoch=6, served=b"records")):
        wiretap.heard(THERE, question, LOG, is_damaged=False)
        assert wiretap.says(THERE, reply, is_epoch_durable=True) == said
        is_rotten[0] = True


def test_announcements_are_answered_for_their_epoch_and_goodbyes_are_kept() -> None:
    wiretap = Wiretap(lambda: False)
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
    wiretap = Wiretap(lambda: False)
    wiretap.dialed(HERE, 7)
    wiretap.broke(HERE, is_refused=True)
    wiretap.dialed(THERE, 7)
    wiretap.broke(THERE)
    assert wiretap.refusals == {7: 1}


def test_a_frame_with_a_flipped_bit_counts_for_nothing_where_it_may_not_be_understood() -> None:
    wiretap = Wiretap(lambda: False)
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
