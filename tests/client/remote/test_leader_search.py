"""Which node to ask next, given the earlier answers; each node is named once, in an order that every run repeats."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from pykraft.client.arguments import ENDPOINTS_MAX
from pykraft.client.remote import leader_search
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.leader_search import LeaderFetch, Patience
from pykraft.client.remote.numbered_appender import NumberedAppender
from pykraft.client.remote.observer import TOPICS
from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME, TEST_TOPIC_ID
from pykraft.core.messages import FetchRequest
from pykraft.errors import ErrorCode, ForeignClusterError, QuorumUnavailableError
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.messages import API_VERSIONS, CLIENT_VERSIONS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.api_versions import api_key_bodies
from pykraft.types import EPOCH_ZERO, Endpoint, Epoch, NodeId, Offset
from tests.client.logs import HASTY, PATIENT, ScriptedLog, served_log
from tests.client.quorums import CLUSTER_ID, cluster_body
from tests.client.scripted import HANG_UP, SILENCE, Answer, Script, ScriptedNode


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


async def test_the_cluster_id_comes_over_the_same_connection_or_not_at_all() -> None:
    async with fetching_log() as (log, leader):
        await leader.ask(request)
        leader.accept()
        log.leader.scripts[ApiKey.DESCRIBE_CLUSTER] = lambda _: cluster_body(2, {})
        assert await leader.find_cluster_id() == CLUSTER_ID
        assert len(log.leader.requests(ApiKey.API_VERSIONS)) == 1
        for node in log.nodes.values():
            node.scripts[ApiKey.DESCRIBE_CLUSTER] = lambda _: HANG_UP
        assert await leader.find_cluster_id() is None


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


A, B, C, D = (Endpoint(name, 1) for name in "abcd")


def test_nodes_are_asked_in_turn_until_one_names_a_leader() -> None:
    search = leader_search.LeaderSearch([A, B, A])
    assert search.whom == A
    search.failed(A, "refused")
    assert search.whom == B
    search.redirected(B, Epoch(3), None, "knows none")
    assert search.whom == A
    search.redirected(A, Epoch(3), C, "not me")
    assert (search.whom, search.epoch) == (C, 3)
    assert search.asked.story == "a:1: not me; b:1: knows none"


def test_a_leader_that_fails_is_one_of_many_again() -> None:
    search = leader_search.LeaderSearch([A, B])
    search.redirected(A, Epoch(1), B, "not me")
    search.led(B)
    assert search.asked.story == ""
    search.failed(B, "reset")
    assert search.leader is None
    assert search.whom == A


def test_an_older_epoch_says_nothing_of_who_leads() -> None:
    search = leader_search.LeaderSearch([A, B])
    search.redirected(A, Epoch(5), C, "not me")
    search.redirected(B, Epoch(4), D, "not me")
    assert (search.whom, search.epoch) == (C, 5)


def test_a_higher_epoch_ends_what_was_known() -> None:
    search = leader_search.LeaderSearch([A, B])
    search.redirected(A, Epoch(5), C, "not me")
    search.redirected(B, Epoch(6), None, "election")
    assert (search.leader, search.epoch) == (None, 6)


def test_a_node_that_names_itself_and_does_not_lead_is_no_leader() -> None:
    search = leader_search.LeaderSearch([A, B])
    search.redirected(A, Epoch(1), A, "odd")
    assert search.leader is None
    assert search.whom == B


def test_nobody_is_there_when_all_are_unreachable_and_nobody_redirected() -> None:
    search = leader_search.LeaderSearch([A, B])
    search.failed(A, "refused")
    assert not search.is_nobody_there
    search.redirected(B, Epoch(1), C, "not me")
    search.failed(C, "refused")
    assert not search.is_nobody_there
    search.failed(B, "reset")
    assert search.is_nobody_there


def test_the_nodes_that_are_remembered_are_bounded() -> None:
    search = leader_search.LeaderSearch([A])
    for port in range(1, ENDPOINTS_MAX + 10):
        search.redirected(A, Epoch(1), Endpoint("x", port), "not me")
    assert len(search.nodes) == ENDPOINTS_MAX


def test_voters_that_are_named_are_asked_too() -> None:
    search = leader_search.LeaderSearch([A])
    search.redirected(A, Epoch(1), None, "knows none")
    search.add_voters(A, {NodeId(1): A, NodeId(2): B}, None)
    assert search.whom == A
    search.failed(A, "reset")
    assert search.whom == B


def test_what_a_node_says_of_itself_replaces_what_it_answered() -> None:
    search = leader_search.LeaderSearch([A])
    search.redirected(A, Epoch(1), None, "knows none")
    search.add_voters(A, {NodeId(1): A}, "its directory is unproven")
    assert search.asked.story.endswith(f"voter 1 at {A}: its directory is unproven")


def test_a_node_under_two_names_is_asked_last_under_both() -> None:
    search = leader_search.LeaderSearch([A, Endpoint("10.0.0.1", 1), B])
    search.asked.resolved(A, ["10.0.0.1"])
    search.failed(A, "refused")
    assert search.whom == B


def test_nobody_has_to_be_told() -> None:
    leader_search.do_not_tell("why")


NAMED, NUMERIC, OTHER, THIRD = (Endpoint(*each) for each in (("n", 1), ("10.0.0.1", 1), ("n", 2), ("10.0.0.3", 3)))
VOTERS = {NodeId(3): THIRD, NodeId(1): NUMERIC, NodeId(2): OTHER}
REFUSED = "connection refused"


def asked(*bootstrap: Endpoint) -> leader_search.AskedNodes:
    found = leader_search.AskedNodes(bootstrap)
    found.resolved(NAMED, ["::1", "10.0.0.1"])
    return found


def test_voters_are_told_by_id_each_once_under_the_name_that_was_known_first() -> None:
    nodes = asked(THIRD, NAMED)
    nodes.note(THIRD, REFUSED, has_answered=False)
    nodes.note(NUMERIC, "an older problem", has_answered=False)
    nodes.note(NAMED, "it knows no leader", has_answered=True)
    assert nodes.add_voters(VOTERS) == [OTHER]
    assert nodes.add_voters({}) == []
    assert nodes.story == (
        "1 of 3 voters answers, 2 are needed; voter 1 at n:1: it knows no leader; voter 2 at n:2: not asked yet; "
        f"voter 3 at 10.0.0.3:3: {REFUSED}"
    )
    assert str(nodes.unavailable(1_500)) == f"no leader within 1.5 s: {nodes.story}"
    nodes.clear()
    assert not nodes.has(NAMED)


def test_two_names_that_turn_out_to_be_one_node_are_told_once() -> None:
    nodes = leader_search.AskedNodes([NAMED, NUMERIC])
    nodes.note(NUMERIC, "first", has_answered=False)
    nodes.note(NAMED, "second", has_answered=False)
    assert nodes.story == "n:1: second; 10.0.0.1:1: first"
    nodes.resolved(NAMED, ["10.0.0.1"])
    assert nodes.story == "n:1: second"
    assert nodes.are_all_silent([NAMED, NUMERIC])
    assert str(nodes.silent()) == "no node answers: n:1: second"


def test_enough_voters_that_answer_may_elect_yet() -> None:
    nodes = asked()
    nodes.add_voters({NodeId(1): NUMERIC})
    assert nodes.story.startswith("0 of 1 voter answer, 1 is needed; ")
    nodes.note(NUMERIC, "it knows no leader", has_answered=True)
    assert nodes.story.startswith("1 of 1 voter answers, but none leads yet; ")
    assert not nodes.are_all_silent([NUMERIC])


def test_only_a_node_that_answered_has_words_of_its_own() -> None:
    nodes = asked(NAMED, OTHER)
    assert nodes.answer_of(NAMED) is None
    nodes.note(NAMED, REFUSED, has_answered=False)
    assert nodes.answer_of(NAMED) is None
    nodes.note(NUMERIC, "it knows no leader", has_answered=True)
    assert nodes.answer_of(NAMED) == "it knows no leader"


def test_who_answers_under_an_unknown_name_may_be_a_voter_so_nobody_is_counted() -> None:
    nodes = asked(Endpoint("proxy", 9))
    nodes.note(Endpoint("proxy", 9), "it knows no leader", has_answered=True)
    nodes.add_voters({NodeId(1): NUMERIC})
    nodes.note(NUMERIC, REFUSED, has_answered=False)
    assert nodes.story == f"voter 1 at 10.0.0.1:1: {REFUSED}; proxy:9: it knows no leader"


def test_the_nodes_are_bounded() -> None:
    nodes = leader_search.AskedNodes([NAMED])
    assert sum(nodes.add(Endpoint("x", port)) for port in range(1, 2 * ENDPOINTS_MAX)) == ENDPOINTS_MAX - 1


def test_a_refusal_that_is_not_for_want_of_a_leader_names_no_nodes() -> None:
    body = {**cluster_body(-1, {1: NUMERIC}), "error_code": ErrorCode.LEADER_NOT_AVAILABLE}
    assert leader_search.nodes_in(body) == {1: NUMERIC}
    assert leader_search.nodes_in({**body, "error_code": ErrorCode.MISMATCHED_ENDPOINT_TYPE}) == {}


def test_a_node_may_say_of_itself_why_it_cannot_vote() -> None:
    led = cluster_body(2, {1: NUMERIC})
    assert leader_search.own_words({**led, "error_code": 0, "error_message": None}) is None
    assert leader_search.problem_in({**led, "error_code": 0, "error_message": None}) is None
    cannot = {**led, "error_code": 0, "error_message": "its directory is unproven"}
    assert leader_search.own_words(cannot) == "its directory is unproven"
    assert leader_search.problem_in(cannot) == "it names node 2 as the leader, and its directory is unproven"
    unknown = {**led, "error_code": ErrorCode.LEADER_NOT_AVAILABLE, "error_message": None}
    assert leader_search.own_words(unknown) == leader_search.problem_in(unknown) == "it knows no leader"
    assert (
        leader_search.own_words({**led, "error_code": ErrorCode.MISMATCHED_ENDPOINT_TYPE, "error_message": "no"})
        is None
    )


@pytest.mark.parametrize("leader_id", [None, -1])
def test_no_leader_is_told_the_same_in_each_protocol(leader_id: int | None) -> None:
    assert leader_search.whom_it_names(leader_id) == "it knows no leader"


CLIENTS = {"api_keys": api_key_bodies({**API_VERSIONS, **CLIENT_VERSIONS})}
CLUSTER: Body = {"brokers": [], "cluster_id": None, "controller_id": 1, "topics": []}


@pytest.mark.parametrize("is_kafka", [False, True])
async def test_admin_observer_and_appender_tell_the_same(*, is_kafka: bool) -> None:
    """One node of three is there, and knows no leader; its own address has another spelling than the bootstrap list."""
    log = ScriptedLog()
    log.leader_id = None
    log.epoch = EPOCH_ZERO
    dead = [Endpoint(HOST, port) for port in free_ports(2)]

    def refuses(_: Body) -> Body:
        voters = cluster_body(-1, {3: dead[1], 1: node.endpoint, 2: dead[0]})
        return {**voters, "error_code": ErrorCode.LEADER_NOT_AVAILABLE, "error_message": "it knows no leader"}

    def appends(_: Body) -> Body:
        leader = {"leader_id": -1, "leader_epoch": 0}
        part = {"index": 0, "error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER, "current_leader": leader}
        return {"responses": [{"name": "t", "partition_responses": [part]}]}

    versions = [each for each in CLIENTS["api_keys"] if not is_kafka or each["api_key"] < 1_000]
    scripts: dict[ApiKey, Script] = {
        ApiKey.API_VERSIONS: lambda _: {"api_keys": versions},
        ApiKey.DESCRIBE_CLUSTER: refuses,
        ApiKey.FETCH: lambda _: log.body(error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ApiKey.METADATA: lambda _: CLUSTER,
        ApiKey.PRODUCE: appends,
    }
    node = ScriptedNode(scripts)
    bootstrap = [Endpoint("localhost", node.endpoint.port), dead[1]]
    told: list[str] = []
    async with node:
        patience = leader_search.Patience(timeout_ms=1_000, request_timeout_ms=900, retry_backoff_ms=5)
        limits = leader_search.Patience(timeout_ms=1_000, request_timeout_ms=900, retry_backoff_ms=5)
        reader = LeaderFetch(bootstrap, topics=TOPICS, cluster_id=None, client_id="test", patience=patience)
        appender = NumberedAppender(bootstrap, patience=patience)
        async with Admin(bootstrap, patience=limits) as admin, appender:
            for ask in (admin.describe_quorum, lambda: reader.ask(request), lambda: appender.append(b"a")):
                with pytest.raises(QuorumUnavailableError) as caught:
                    await ask()
                told.append(str(caught.value))
            await reader.close()
    first, third = f"{bootstrap[0]}: it knows no leader", f"{dead[1]}: {REFUSED}"
    voters = f"voter 1 at {first}; voter 2 at {dead[0]}: {REFUSED}; voter 3 at {third}"
    whole = f"{first}; {third}" if is_kafka else f"1 of 3 voters answers, 2 are needed; {voters}"
    assert told == [f"no leader within 1 s: {whole}"] * 3


async def test_a_node_that_falls_silent_when_asked_for_the_voters_is_asked_again() -> None:
    part = {"index": 0, "error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER, "current_leader": {"leader_id": -1}}
    answer = {"responses": [{"name": "t", "partition_responses": [part]}]}
    node = ScriptedNode(
        {
            ApiKey.API_VERSIONS: lambda _: CLIENTS,
            ApiKey.DESCRIBE_CLUSTER: lambda _: SILENCE,
            ApiKey.METADATA: lambda _: CLUSTER,
            ApiKey.PRODUCE: lambda _: answer,
        }
    )
    patience = leader_search.Patience(timeout_ms=300, request_timeout_ms=50, retry_backoff_ms=5)
    async with node, NumberedAppender([node.endpoint], patience=patience) as appender:
        with pytest.raises(QuorumUnavailableError, match="it knows no leader"):
            await appender.append(b"a")
    assert len(node.requests(ApiKey.DESCRIBE_CLUSTER)) > 1
