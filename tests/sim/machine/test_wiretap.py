"""A wiretap tells requests from answers, and keeps which Fetches are open."""

from __future__ import annotations

from pykraft.host.ports import ConnectionId
from pykraft.sim.machine.spoken import LogEnd, Spoken
from pykraft.sim.machine.wiretap import Wiretap
from tests.sim.machine.test_spoken import answer, asked, fetch_request, fetched, vote

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
    wiretap.fetches(HERE, 5)
    assert wiretap.open_fetches == {HERE: 5}
    wiretap.heard(HERE, b"answer", LOG, is_damaged=False)
    assert not wiretap.open_fetches
    wiretap.fetches(HERE, 6)
    wiretap.broke(HERE)
    assert not wiretap.open_fetches


def test_an_answer_with_records_is_read_while_the_disk_may_have_lied() -> None:
    is_rotten = [False]
    wiretap = Wiretap(lambda: is_rotten[0])
    question, reply = b"".join(fetch_request())[4:], fetched(6, b"records")
    for said in (None, Spoken(epoch=6, served=b"records")):
        wiretap.heard(THERE, question, LOG, is_damaged=False)
        assert wiretap.says(THERE, reply, is_epoch_durable=True) == said
        is_rotten[0] = True
