"""Fetches that find the leader: redirects, dead nodes, other topics and clusters; and the search ends."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from pykraft.client.remote.leader_fetch import LeaderFetch
from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.observer import TOPICS
from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME, TEST_TOPIC_ID
from pykraft.core.messages import FetchRequest
from pykraft.errors import ErrorCode, ForeignClusterError, QuorumUnavailableError
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.messages import ApiKey
from pykraft.types import Endpoint, Epoch, Offset
from tests.client.logs import HASTY, PATIENT, ScriptedLog, served_log
from tests.client.scripted import HANG_UP, SILENCE, Answer


def request(epoch: Epoch) -> FetchRequest:
    return FetchRequest(
        replica=None,
        epoch=epoch,
        fetch_offset=Offset(0),
        last_fetched_epoch=Epoch(0),
        wait_ms_max=0,
        size_bytes_max=1_000_000,
        high_watermark=-1,
    )


def fetching(bootstrap: Sequence[Endpoint], patience: Patience = PATIENT, cluster_id: str | None = None) -> LeaderFetch:
    return LeaderFetch(bootstrap, topics=TOPICS, cluster_id=cluster_id, client_id="test", patience=patience)


@asynccontextmanager
async def fetching_log(
    *, first: int = 1, patience: Patience = PATIENT
) -> AsyncIterator[tuple[ScriptedLog, LeaderFetch]]:
    """A log, and a fetch that begins at one node."""
    async with served_log() as log:
        log.append(b"a")
        leader = fetching([log.nodes[first].endpoint], patience)
        try:
            yield log, leader
        finally:
            await leader.close()


async def test_a_follower_names_the_leader() -> None:
    async with fetching_log() as (log, leader):
        answer, records = await leader.ask(request)
        assert (answer.leader_id, answer.epoch, bytes(records)) == (2, 1, log.batches[0])
        assert len(log.nodes[1].requests(ApiKey.FETCH)) == 1
        epochs = [body["topics"][0]["partitions"][0]["current_leader_epoch"] for _, body in log.leader.asked[1:]]
        assert epochs == [1]
        assert log.leader.requests(ApiKey.FETCH)[0]["replica_state"]["replica_id"] == -1


async def test_the_connection_to_the_leader_is_kept() -> None:
    async with fetching_log() as (log, leader):
        for _ in range(3):
            await leader.ask(request)
            leader.accept()
        assert len(log.leader.requests(ApiKey.API_VERSIONS)) == 1
        assert len(log.leader.requests(ApiKey.FETCH)) == 3


async def test_a_new_leader_is_found_when_the_old_one_dies() -> None:
    async with fetching_log() as (log, leader):
        await leader.ask(request)
        leader.accept()
        await log.leader.stop()
        log.lead(3)
        answer, _ = await leader.ask(request)
        assert (answer.leader_id, answer.epoch) == (3, 2)


async def test_an_election_is_waited_for() -> None:
    async with fetching_log() as (log, leader):
        log.lead(None)

        def elect(node_id: int, body: dict[str, object]) -> Answer:
            if len(log.nodes[1].asked) > 6:
                log.leader_id = 1
            return log.serve(node_id, body)

        log.answer = elect
        assert (await leader.ask(request))[0].leader_id == 1


async def test_a_wait_is_told_until_it_is_over() -> None:
    told: list[str | None] = []
    async with fetching_log(patience=replace(PATIENT, on_waiting=told.append)) as (log, leader):
        log.lead(None)

        def elect(node_id: int, body: dict[str, object]) -> Answer:
            if len(log.nodes[1].asked) > 6:
                log.leader_id = 1
            return log.serve(node_id, body)

        log.answer = elect
        await leader.ask(request)
        assert set(told) == {f"{log.nodes[1].endpoint}: it knows no leader"}
        leader.accept()
        assert told[-1] is None


async def test_an_election_without_an_end_is_told_after_the_time_and_may_be_waited_for_again() -> None:
    async with fetching_log(patience=HASTY) as (log, leader):
        log.lead(None)
        with pytest.raises(QuorumUnavailableError, match=r"no leader within 0.6 s: .*it knows no leader"):
            await leader.ask(request)
        log.leader_id = 1
        assert (await leader.ask(request))[0].leader_id == 1


async def test_answers_that_are_of_no_use_come_to_an_end_too() -> None:
    async with fetching_log(patience=HASTY) as (_, leader):

        async def for_ever() -> None:
            while True:
                await leader.ask(request)
                leader.reject("a bad batch")

        with pytest.raises(QuorumUnavailableError, match="a bad batch"):
            await for_ever()


async def test_when_nobody_was_ever_there_it_is_said_at_once() -> None:
    async with served_log():
        first, second = (Endpoint(HOST, port) for port in free_ports(2))
        with pytest.raises(QuorumUnavailableError, match=rf"no node answers: {first}: connection refused; {second}: "):
            await fetching([first, second]).ask(request)


async def test_the_topic_is_found_by_trying() -> None:
    async with served_log(topic_id=METADATA_TOPIC_ID) as log:
        leader = fetching(log.bootstrap)
        await leader.ask(request)
        await leader.close()
        asked = [body["topics"][0]["topic_id"] for node in log.nodes.values() for body in node.requests(ApiKey.FETCH)]
        assert asked == [TEST_TOPIC_ID, METADATA_TOPIC_ID, METADATA_TOPIC_ID]


NO_USE: dict[str, tuple[Answer, str]] = {
    "no topic of ours": (
        {"error_code": ErrorCode.INVALID_REQUEST},
        "keeps none of the topics .*" + METADATA_TOPIC_NAME,
    ),
    "an error above": ({"error_code": -1}, "it answers Fetch with UNKNOWN_SERVER_ERROR"),
    "the end": (HANG_UP, "closed the connection when it was asked for Fetch"),
    "silence": (SILENCE, "did not answer Fetch within 0.5 s"),
}


@pytest.mark.parametrize(("answer", "words"), NO_USE.values(), ids=NO_USE)
async def test_a_node_of_no_use_is_told(answer: Answer, words: str) -> None:
    async with fetching_log(patience=HASTY) as (log, leader):
        log.answer = lambda *_: answer
        with pytest.raises(QuorumUnavailableError, match=words):
            await leader.ask(request)


async def test_a_node_that_answers_another_epoch_or_a_strange_error_is_no_leader() -> None:
    async with fetching_log(patience=HASTY) as (log, leader):
        log.answer = lambda *_: log.body(epoch=7)
        with pytest.raises(QuorumUnavailableError, match="it answers for epoch 7 a fetch of epoch 0"):
            await leader.ask(request)
        log.answer = lambda *_: log.body(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=2**31 - 1)
        with pytest.raises(QuorumUnavailableError, match="it names epoch 2147483647, which no quorum reaches"):
            await leader.ask(request)
        log.answer = lambda *_: log.body(error=ErrorCode.REQUEST_TIMED_OUT)
        with pytest.raises(QuorumUnavailableError, match="it answers Fetch with REQUEST_TIMED_OUT"):
            await leader.ask(request)


async def test_a_broker_of_kafka_is_no_quorum_and_that_is_said_at_once() -> None:
    async with fetching_log() as (log, leader):
        log.answer = lambda *_: log.body(error=ErrorCode.UNKNOWN_TOPIC_ID)
        with pytest.raises(QuorumUnavailableError, match=r"no node answers: .* UNKNOWN_TOPIC_ID: is it a controller"):
            await leader.ask(request)


async def test_another_cluster_is_the_callers_mistake() -> None:
    async with served_log() as log:
        log.answer = lambda *_: {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID}
        leader = fetching(log.bootstrap, cluster_id="mine")
        with pytest.raises(ForeignClusterError, match="another cluster than mine"):
            await leader.ask(request)
        await leader.close()
        assert log.nodes[1].requests(ApiKey.FETCH)[0]["cluster_id"] == "mine"
