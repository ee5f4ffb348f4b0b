"""Which node to ask next, given the earlier answers."""

from __future__ import annotations

from pykraft.client.arguments import ENDPOINTS_MAX
from pykraft.client.remote.leader_search import LeaderSearch, do_not_tell
from pykraft.types import Endpoint, Epoch, NodeId

A, B, C, D = (Endpoint(name, 1) for name in "abcd")


def test_nodes_are_asked_in_turn_until_one_names_a_leader() -> None:
    search = LeaderSearch([A, B, A])
    assert search.whom == A
    search.failed(A, "refused")
    assert search.whom == B
    search.redirected(B, Epoch(3), None, "knows none")
    assert search.whom == A
    search.redirected(A, Epoch(3), C, "not me")
    assert (search.whom, search.epoch) == (C, 3)
    assert search.asked.story == "a:1: not me; b:1: knows none"


def test_a_leader_that_fails_is_one_of_many_again() -> None:
    search = LeaderSearch([A, B])
    search.redirected(A, Epoch(1), B, "not me")
    search.led(B)
    assert search.asked.story == ""
    search.failed(B, "reset")
    assert search.leader is None
    assert search.whom == A


def test_an_older_epoch_says_nothing_of_who_leads() -> None:
    search = LeaderSearch([A, B])
    search.redirected(A, Epoch(5), C, "not me")
    search.redirected(B, Epoch(4), D, "not me")
    assert (search.whom, search.epoch) == (C, 5)


def test_a_higher_epoch_ends_what_was_known() -> None:
    search = LeaderSearch([A, B])
    search.redirected(A, Epoch(5), C, "not me")
    search.redirected(B, Epoch(6), None, "election")
    assert (search.leader, search.epoch) == (None, 6)


def test_a_node_that_names_itself_and_does_not_lead_is_no_leader() -> None:
    search = LeaderSearch([A, B])
    search.redirected(A, Epoch(1), A, "odd")
    assert search.leader is None
    assert search.whom == B


def test_nobody_is_there_when_all_are_unreachable_and_nobody_redirected() -> None:
    search = LeaderSearch([A, B])
    search.failed(A, "refused")
    assert not search.is_nobody_there
    search.redirected(B, Epoch(1), C, "not me")
    search.failed(C, "refused")
    assert not search.is_nobody_there
    search.failed(B, "reset")
    assert search.is_nobody_there


def test_the_nodes_that_are_remembered_are_bounded() -> None:
    search = LeaderSearch([A])
    for port in range(1, ENDPOINTS_MAX + 10):
        search.redirected(A, Epoch(1), Endpoint("x", port), "not me")
    assert len(search.nodes) == ENDPOINTS_MAX


def test_voters_that_are_named_are_asked_too() -> None:
    search = LeaderSearch([A])
    search.redirected(A, Epoch(1), None, "knows none")
    search.told(A, {NodeId(1): A, NodeId(2): B}, None)
    assert search.whom == A
    search.failed(A, "reset")
    assert search.whom == B


def test_what_a_node_says_of_itself_replaces_what_it_answered() -> None:
    search = LeaderSearch([A])
    search.redirected(A, Epoch(1), None, "knows none")
    search.told(A, {NodeId(1): A}, "its directory is unproven")
    assert search.asked.story.endswith(f"voter 1 at {A}: its directory is unproven")


def test_a_node_under_two_names_is_asked_last_under_both() -> None:
    search = LeaderSearch([A, Endpoint("10.0.0.1", 1), B])
    search.asked.resolved(A, ["10.0.0.1"])
    search.failed(A, "refused")
    assert search.whom == B


def test_nobody_has_to_be_told() -> None:
    do_not_tell("why")
