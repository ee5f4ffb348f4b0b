"""A numbered batch is sent again until its outcome is known, whatever answers are lost; then the outcome is told."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain, repeat
from typing import Any

import pytest

from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.numbered_appender import BATCH_SIZE_BYTES_MAX, Appender, NumberedAppender
from pykraft.errors import (
    ErrorCode,
    ForeignClusterError,
    OutcomeUnknownError,
    QuorumUnavailableError,
    RefusedError,
    UsageError,
)
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.messages import API_VERSIONS, CLIENT_VERSIONS, ApiKey
from pykraft.protocol.records import decode_values, read_header
from pykraft.protocol.schema import Body
from pykraft.rpc.api_versions import api_key_bodies
from pykraft.types import Endpoint
from tests.client.logs import HASTY, PATIENT
from tests.client.scripted import HANG_UP, SILENCE, VERSIONS, Answer, ScriptedNode

SERVING: Body = {"api_keys": api_key_bodies({**API_VERSIONS, **CLIENT_VERSIONS})}
BATCH = b"a whole batch, as the caller numbered it"


def in_turn(*answers: Answer) -> Callable[[Body], Answer]:
    """These answers, and then the last one again and again."""
    following: Iterator[Answer] = chain(answers, repeat(answers[-1]))
    return lambda _: next(following)


def produced(code: int = ErrorCode.NONE, *, base_offset: int = 7, leader_id: int = -1, port: int = 1) -> Body:
    part = {
        "index": 0,
        "error_code": code,
        "base_offset": base_offset,
        "error_message": "a reason",
        "current_leader": {"leader_id": leader_id, "leader_epoch": 3},
    }
    node = {"node_id": leader_id, "host": HOST, "port": port}
    return {"responses": [{"name": "x", "partition_responses": [part]}], "node_endpoints": [node]}


def ended(code: int, offset: int = 9) -> Body:
    part = {"partition_index": 0, "error_code": code, "offset": offset}
    return {"topics": [{"name": "x", "partitions": [part]}]}


def node(produce: Callable[[Body], Answer] | None = None, **scripts: Callable[[Body], Answer]) -> ScriptedNode:
    named: dict[str, Callable[[Body], Answer]] = {
        "api_versions": lambda _: SERVING,
        "metadata": lambda _: {"brokers": [], "cluster_id": "a-cluster", "controller_id": 1, "topics": []},
        "produce": produce or (lambda _: produced()),
        **scripts,
    }
    return ScriptedNode({ApiKey[name.upper()]: script for name, script in named.items()})


@asynccontextmanager
async def appending(
    *nodes: ScriptedNode, patience: Patience = PATIENT, cluster_id: str | None = None
) -> AsyncIterator[NumberedAppender]:
    async with AsyncExitStack() as stack:
        for each in nodes:
            await stack.enter_async_context(each)
        endpoints = [each.endpoint for each in nodes]
        appender = NumberedAppender(endpoints, patience=patience, cluster_id=cluster_id)
        yield await stack.enter_async_context(appender)


def sent(to: ScriptedNode) -> list[Any]:
    return [body["topic_data"][0]["partition_data"][0]["records"] for body in to.requests(ApiKey.PRODUCE)]


@pytest.mark.parametrize("lost", [HANG_UP, SILENCE, b"\0\0\0\1\0", {"responses": []}, "timed out"])
async def test_a_batch_without_an_answer_is_sent_again(lost: Any) -> None:
    answer = produced(ErrorCode.REQUEST_TIMED_OUT) if lost == "timed out" else lost
    one = node(in_turn(answer, produced(base_offset=12)))
    async with appending(
        one, patience=Patience(timeout_ms=10_000, request_timeout_ms=200, retry_backoff_ms=5)
    ) as appender:
        assert await appender.append(BATCH) == 12
        assert appender.was_doubtful
        assert await appender.append(BATCH) == 12
        assert not appender.was_doubtful
        assert sent(one) == [BATCH] * 3


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
)
async def test_a_batch_that_was_certainly_not_appended_is_sent_again(code: ErrorCode) -> None:
    one = node(in_turn(produced(code), produced()))
    async with appending(one) as appender:
        assert await appender.append(BATCH) == 7
        assert not appender.was_doubtful


async def test_the_leader_that_an_answer_names_gets_the_batch() -> None:
    leader = node()
    other = node(lambda _: produced(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=2, port=leader.endpoint.port))
    third = node()
    async with appending(other, third, leader) as appender:
        await appender.append(BATCH)
        await appender.append(BATCH)
        assert [len(sent(each)) for each in (other, third, leader)] == [1, 0, 2]


async def test_when_the_time_is_over_the_error_says_what_is_known() -> None:
    async with appending(node(lambda _: produced(ErrorCode.NOT_LEADER_OR_FOLLOWER)), patience=HASTY) as appender:
        with pytest.raises(QuorumUnavailableError):
            await appender.append(BATCH)
    async with appending(node(lambda _: SILENCE), patience=HASTY) as appender:
        with pytest.raises(OutcomeUnknownError, match="the records may be in the log, or not"):
            await appender.append(BATCH)


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
async def test_a_refusal_has_the_leader_s_reason(code: ErrorCode) -> None:
    async with appending(node(lambda _: produced(code))) as appender:
        with pytest.raises(RefusedError, match="a reason") as raised:
            await appender.append(BATCH)
        assert raised.value.code == code


async def test_ids_and_the_end_are_asked_for_until_somebody_knows() -> None:
    busy = {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "producer_epoch": -1}
    one = node(
        init_producer_id=in_turn(busy, HANG_UP, {"error_code": 0, "producer_id": 77, "producer_epoch": 0}),
        list_offsets=in_turn(ended(ErrorCode.NOT_LEADER_OR_FOLLOWER), HANG_UP, ended(ErrorCode.NONE)),
    )
    async with appending(one) as appender:
        assert await appender.issue_id() == 77
        assert await appender.end_offset() == 9
        assert appender.cluster_id == "a-cluster"


async def test_a_refused_question_is_an_error() -> None:
    one = node(
        init_producer_id=lambda _: {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "producer_epoch": -1},
        list_offsets=lambda _: ended(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    )
    async with appending(one) as appender:
        with pytest.raises(RefusedError, match="a producer id was refused: CLUSTER_AUTHORIZATION_FAILED"):
            await appender.issue_id()
        with pytest.raises(RefusedError, match="the end of the log was refused: UNKNOWN_TOPIC_OR_PARTITION"):
            await appender.end_offset()


async def test_a_node_of_another_cluster_gets_nothing() -> None:
    one = node()
    async with appending(one, cluster_id="mine") as appender:
        with pytest.raises(ForeignClusterError, match="belongs to cluster a-cluster, not to mine"):
            await appender.append(BATCH)
        assert sent(one) == []


async def test_a_node_that_hangs_up_when_asked_for_its_cluster_is_asked_again() -> None:
    answer: Body = {"brokers": [], "cluster_id": None, "controller_id": 1, "topics": []}
    one = node(metadata=in_turn(HANG_UP, answer))
    async with appending(one) as appender:
        assert await appender.append(BATCH) == 7
        assert appender.cluster_id is None


async def test_a_quorum_that_serves_no_clients_is_told_apart() -> None:
    async with appending(node(api_versions=lambda _: VERSIONS), node(api_versions=lambda _: VERSIONS)) as appender:
        with pytest.raises(UsageError, match=r"it serves no clients: set pykraft\.client\.listeners"):
            await appender.append(BATCH)
    async with appending(node(api_versions=lambda _: VERSIONS), node()) as appender:
        assert await appender.append(BATCH) == 7


async def test_nobody_there_is_told_at_once() -> None:
    async with NumberedAppender([Endpoint(HOST, 1)], patience=PATIENT) as appender:
        with pytest.raises(QuorumUnavailableError):
            await appender.issue_id()


QUESTION: Any = {"include_cluster_authorized_operations": False, "endpoint_type": 2}


class Asking(NumberedAppender):
    """Asks whichever node it reaches for the cluster."""

    async def ask(self) -> int:
        return await self._until_done(self._try_cluster)

    async def _try_cluster(self) -> int:
        connection = await self._connected(self._search.whom)
        return int((await self._ask(connection, ApiKey.DESCRIBE_CLUSTER, QUESTION))["error_code"])


async def test_one_connection_serves_all_requests_until_an_answer_is_lost() -> None:
    answers: list[Any] = [{"error_code": 1}, {"error_code": 2}, HANG_UP, {"error_code": 3}]
    node = ScriptedNode({ApiKey.DESCRIBE_CLUSTER: lambda _: answers.pop(0)})
    async with node, Asking([node.endpoint], client_id="a-client", patience=PATIENT) as client:
        assert [await client.ask() for _ in range(3)] == [1, 2, 3]
        assert len(node.requests(ApiKey.API_VERSIONS)) == 2


async def test_a_node_that_was_never_there_is_told_at_once_and_one_that_left_after_the_time() -> None:
    [port] = free_ports(1)
    async with Asking([Endpoint(HOST, port)], client_id="a-client", patience=PATIENT) as client:
        with pytest.raises(QuorumUnavailableError):
            await client.ask()
    node = ScriptedNode({ApiKey.DESCRIBE_CLUSTER: lambda _: {"error_code": 0}})
    async with Asking([node.endpoint], client_id="a-client", patience=HASTY) as client:
        async with node:
            assert await client.ask() == 0
        with pytest.raises(QuorumUnavailableError, match=r"0\.6 s"):
            await client.ask()


@pytest.mark.parametrize(("host", "port", "is_known"), [("localhost", 9, True), ("", 0, False), (HOST, 70_000, False)])
def test_a_leader_is_dialed_only_where_that_is_possible(host: str, port: int, is_known: bool) -> None:
    client = NumberedAppender([Endpoint(HOST, 1)], client_id="a-client")
    answer = {"node_endpoints": [{"node_id": 4, "host": host, "port": port}]}
    client._redirected(Endpoint(HOST, 1), answer, {"current_leader": {"leader_id": 4, "leader_epoch": 2}})
    assert (client._search.leader == Endpoint(host, port)) is is_known
    client._redirected(Endpoint(HOST, 1), answer, {"current_leader": {"leader_id": -1, "leader_epoch": -1}})
    assert client._search.epoch == 2


ID = {"error_code": 0, "producer_id": 77, "producer_epoch": 0}


def serving(*answers: object) -> ScriptedNode:
    return node(in_turn(*answers), init_producer_id=lambda _: ID)  # type: ignore[arg-type]  # answers of any kind


async def test_batches_are_numbered_in_turn_and_what_is_sent_again_keeps_its_number() -> None:
    lost = produced(ErrorCode.REQUEST_TIMED_OUT)
    async with serving(produced(), lost, produced(base_offset=9), produced(base_offset=10)) as one:
        async with Appender([one.endpoint], patience=PATIENT) as appender:
            offsets = [await appender.append_values(values) for values in ([b"a", b"b"], [b"c"], [b"d"])]
        assert offsets == [7, 9, 10]
        batches = sent(one)
        assert [decode_values(batch) for batch in batches] == [[b"a", b"b"], [b"c"], [b"c"], [b"d"]]
        headers = [read_header(batch) for batch in batches]
        assert [header.base_sequence for header in headers] == [0, 2, 2, 3]
        assert {(header.producer_id, header.producer_epoch) for header in headers} == {(77, 0)}
        assert all(header.base_timestamp > 0 for header in headers)
        assert len(one.requests(ApiKey.INIT_PRODUCER_ID)) == 1


async def test_an_unknown_outcome_names_the_number_of_records() -> None:
    async with serving(SILENCE) as one, Appender([one.endpoint], patience=HASTY) as appender:
        with pytest.raises(OutcomeUnknownError, match="the records may be in the log, or not") as raised:
            await appender.append_values([b"a", b"b"])
        assert raised.value.count == 2


async def test_after_an_unknown_outcome_the_next_batch_has_an_id_and_numbers_of_its_own() -> None:
    """Under the same numbers the leader would answer with the offset of the batch that it has."""
    ids = in_turn(ID, {**ID, "producer_id": 78})
    refused = produced(ErrorCode.UNKNOWN_PRODUCER_ID)
    one = node(in_turn(produced(), HANG_UP, refused, produced(base_offset=9)), init_producer_id=ids)
    async with one, Appender([one.endpoint], patience=PATIENT) as appender:
        await appender.append_values([b"a"])
        with pytest.raises(OutcomeUnknownError, match="UNKNOWN_PRODUCER_ID") as raised:
            await appender.append_values([b"b"])
        assert raised.value.count == 1
        assert await appender.append_values([b"c"]) == 9
        headers = [read_header(batch) for batch in sent(one)]
        numbers = [(header.producer_id, header.base_sequence) for header in headers]
        assert numbers == [(77, 0), (77, 1), (77, 1), (78, 0)]


async def test_a_refusal_without_a_lost_answer_is_a_refusal() -> None:
    refusing = serving(produced(ErrorCode.MESSAGE_TOO_LARGE))
    async with refusing as one, Appender([one.endpoint], patience=PATIENT) as appender:
        with pytest.raises(RefusedError, match="the append was refused: MESSAGE_TOO_LARGE"):
            await appender.append_values([b"a"])


@pytest.mark.parametrize("values", [[], [b""], [b"a", b""], [bytes(BATCH_SIZE_BYTES_MAX)]])
async def test_what_cannot_be_a_batch_is_refused_before_it_is_sent(values: list[bytes]) -> None:
    async with serving(produced()) as one, Appender([one.endpoint], patience=PATIENT) as appender:
        with pytest.raises(UsageError, match="an append has at least one record"):
            await appender.append_values(values)
        assert one.asked == []
