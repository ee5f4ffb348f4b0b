"""Peers remember why a peer gave no useful answer, and since when, until it gives one.

Source: ADR 051.
"""

from __future__ import annotations

from pykraft.core.messages import VoteRequest
from pykraft.host.peers import PROBLEM_KEPT_MS, Peers
from pykraft.host.ports import ConnectionId
from pykraft.protocol.messages import ApiKey
from tests.host.test_peers import TIMEOUT_MS, Desk
from tests.rpc.test_connection import ALL, vote, vote_answer


def problems(peers: Peers) -> list[tuple[int, str, int]]:
    return [(each.peer.id, each.text, each.since_ms) for each in peers.problems()]


def newest(desk: Desk) -> ConnectionId:
    return desk.ports.dialed[-1][0]


def test_a_failed_dial_is_told_since_the_first_request() -> None:
    desk = Desk()
    assert not problems(desk.peers)
    for now_ms in (100, 200):
        desk.now_ms = now_ms
        desk.send()
        assert problems(desk.peers) == [(2, "no answer yet" if now_ms == 100 else "connection refused", 100)]
        desk.peers.on_closed(newest(desk), is_refused=True, reason="connection refused")
    assert problems(desk.peers) == [(2, "connection refused", 100)]


def test_a_problem_from_long_ago_says_nothing_of_now() -> None:
    desk = Desk()
    desk.send()
    desk.peers.on_closed(newest(desk), reason="no route to host")
    desk.now_ms = 2 * PROBLEM_KEPT_MS
    desk.send()
    assert problems(desk.peers) == [(2, "no answer yet", 2 * PROBLEM_KEPT_MS)]


def test_a_useful_answer_ends_it() -> None:
    desk = Desk()
    desk.send()
    desk.peers.on_closed(newest(desk), reason="no route to host")
    desk.send()
    desk.connect()
    assert problems(desk.peers) == [(2, "no route to host", 0)]
    desk.peers.on_frame(newest(desk), vote_answer(wire_id=1))
    assert not problems(desk.peers)
    desk.now_ms = 300
    desk.send()
    desk.peers.on_closed(newest(desk))
    assert problems(desk.peers) == [(2, "it closed the connection", 300)]


def test_who_does_not_answer_in_time_is_told_by_how_far_it_came() -> None:
    desk = Desk()
    desk.send()
    desk.now_ms += TIMEOUT_MS
    desk.send()
    assert problems(desk.peers) == [(2, "no connection yet", 0)]
    desk.peers.on_connected(newest(desk))
    desk.now_ms += TIMEOUT_MS
    desk.send()
    [(_, text, _)] = problems(desk.peers)
    assert text == "it accepts connections, but does not answer ApiVersions: is it a node of a quorum?"
    desk.connect()
    desk.send()
    assert problems(desk.peers) == [(2, "no answer to Vote", 0)]


def test_who_hangs_up_before_it_told_its_versions_may_be_something_else() -> None:
    desk = Desk()
    desk.send()
    desk.peers.on_connected(newest(desk))
    desk.peers.on_closed(newest(desk))
    [(_, text, _)] = problems(desk.peers)
    assert text == "it closed the connection before it answered ApiVersions: is it a node of a quorum?"


def test_garbage_and_other_versions_are_told() -> None:
    desk = Desk()
    desk.send()
    desk.peers.on_connected(newest(desk))
    desk.peers.on_frame(newest(desk), b"\0")
    [(_, garbage, _)] = problems(desk.peers)
    desk.send()
    desk.connect({**ALL, ApiKey.VOTE: (50, 60)})
    [(_, versions, _)] = problems(desk.peers)
    assert garbage
    assert versions == "no common version of VOTE: ours are 0-2, the peer's 50-60"


def test_an_answered_request_whose_connection_is_to_be_replaced_is_no_silence() -> None:
    desk = Desk()
    desk.send()
    desk.connect()
    desk.peers.on_frame(newest(desk), vote_answer(wire_id=1))
    desk.send(to=desk.ports.dialed[0][1])
    assert isinstance(vote(), VoteRequest)
    desk.peers.on_frame(newest(desk), vote_answer(wire_id=2))
    desk.send(to=type(desk.ports.dialed[0][1])("elsewhere", 1))
    assert [text for _, text, _ in problems(desk.peers)] == ["no answer yet"]
