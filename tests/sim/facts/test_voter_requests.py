"""Nodes may join or leave as long as a request for it is outstanding or repeated."""

from __future__ import annotations

from pykraft.core.messages import AddVoterRequest, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.sim.facts.voter_requests import VoterRequest, VoterRequests
from pykraft.sim.machine.node import Process
from pykraft.types import NodeId, ReplicaKey
from tests.sim.worlds import led_world

KEY = ReplicaKey(NodeId(2))


def asked(process: Process, *, adds: bool) -> VoterRequest:
    message = (
        AddVoterRequest(voter=KEY, listeners=process.host.status.voters.voters[0].listeners, timeout_ms=1)
        if adds
        else RemoveVoterRequest(voter=KEY)
    )
    return VoterRequest(message=message, process=process, then=lambda _: None, since=0)


def test_a_request_counts_until_it_is_answered() -> None:
    world, leader = led_world()
    requests, node = VoterRequests(), world.nodes[2]
    adding, removing = asked(leader, adds=True), asked(leader, adds=False)
    requests.sent(node, adding)
    assert (set(requests.joining), set(requests.leaving)) == ({node}, set())
    requests.sent(node, removing)
    assert (set(requests.joining), set(requests.leaving)) == ({node}, {node})
    adding.answer = removing.answer = ErrorCode.NONE
    assert not requests.joining
    assert not requests.leaving


def test_a_request_without_an_answer_counts_while_its_leader_lives() -> None:
    world, leader = led_world()
    requests = VoterRequests()
    requests.sent(world.nodes[2], asked(leader, adds=True))
    assert requests.joining
    world.nodes[leader.node_id].kill()
    assert not requests.joining


def test_whoever_goes_on_asking_can_be_told_to_stop() -> None:
    world, _ = led_world()
    requests, node = VoterRequests(), world.nodes[2]
    requests.adding[node] += 1
    requests.removing[node] += 1
    assert (set(requests.joining), set(requests.leaving)) == ({node}, {node})
    requests.stop()
    assert not requests.joining
    assert not requests.leaving
