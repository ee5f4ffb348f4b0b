"""The high watermark is found from any voter; a malformed answer is an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.bench.probe import FAR_OFFSET, Probe
from pykraft.errors import ErrorCode, LocalQuorumError
from pykraft.local.ports import free_ports
from pykraft.protocol.schema import Body
from tests.lab.bench.voters import partition, voter


def leader(asked: Body) -> Body:
    assert asked["fetch_offset"] == FAR_OFFSET
    if asked["current_leader_epoch"] != 5:
        return partition(error=ErrorCode.FENCED_LEADER_EPOCH, leader=2, epoch=5)
    assert asked["last_fetched_epoch"] == 5
    return partition(high_watermark=1_234, leader=2, epoch=5)


def follower(asked: Body) -> Body:
    error = ErrorCode.FENCED_LEADER_EPOCH if asked["current_leader_epoch"] != 5 else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return partition(error=error, leader=2, epoch=5)


def test_a_follower_names_the_leader_and_the_leader_tells() -> None:
    with voter(follower) as first, voter(leader) as second:
        probe = Probe({1: first, 2: second})
        told = probe.ask()
        assert told is not None
        assert (told.offset, told.leader_id, told.epoch) == (1_234, 2, 5)
        again = probe.ask()
        assert again is not None
        assert again.at_s >= told.at_s
        probe.close()


def test_a_new_leader_is_found() -> None:
    epoch = iter((5, 6, 6, 6))

    def resigned(asked: Body) -> Body:
        now = next(epoch)
        if now == 5:
            return partition(high_watermark=10, leader=1, epoch=5)
        return partition(error=ErrorCode.FENCED_LEADER_EPOCH, leader=2, epoch=6)

    def successor(asked: Body) -> Body:
        assert asked["current_leader_epoch"] == 6
        return partition(high_watermark=11, leader=2, epoch=6)

    with voter(resigned) as first, voter(successor) as second:
        probe = Probe({1: first, 2: second})
        assert [told and (told.offset, told.leader_id) for told in (probe.ask(), probe.ask())] == [(10, 1), (11, 2)]
        probe.close()


def test_without_a_leader_there_is_nothing_yet_and_all_voters_are_asked() -> None:
    asked_of: list[int] = []

    def nobody(node_id: int) -> Body:
        asked_of.append(node_id)
        return partition(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)

    with voter(lambda asked: nobody(1)) as first, voter(lambda asked: nobody(2)) as second:
        probe = Probe({1: first, 2: second})
        assert [probe.ask() for _ in range(3)] == [None] * 3
        assert asked_of == [1, 2, 1]
        probe.close()


def test_a_leader_that_does_not_know_its_high_watermark_has_none() -> None:
    with voter(lambda asked: partition(leader=1, epoch=0)) as port:
        probe = Probe({1: port})
        assert probe.ask() is None
        probe.close()


def test_a_voter_that_is_down_or_hangs_up_is_passed_over() -> None:
    (closed,) = free_ports(1)
    with voter(lambda asked: None) as rude, voter(leader) as good:
        probe = Probe({0: closed, 1: rude, 2: good})
        assert [probe.ask(), probe.ask()] == [None, None]
        told = probe.ask()
        assert told is not None
        assert told.leader_id == 2
        probe.close()


@pytest.fixture(params=[{"correlation_shift": 1}, {"partitions": 0}])
def wrong_port(request: pytest.FixtureRequest) -> Iterator[int]:
    with voter(leader, **request.param) as port:
        yield port


def test_a_wrong_answer_names_the_node(wrong_port: int) -> None:
    with pytest.raises(LocalQuorumError, match="node 1 sent an invalid Fetch response"):
        Probe({1: wrong_port}).ask()
