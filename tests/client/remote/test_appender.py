"""Appends that find the leader, repeat only what is certainly not in the log, and say when nobody knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from pykraft.client.remote.appender import BATCH_SIZE_BYTES_MAX, Appender
from pykraft.errors import ErrorCode, OutcomeUnknownError, QuorumUnavailableError, RefusedError, UsageError
from pykraft.host.producers import Committed
from pykraft.local.ports import HOST, free_ports
from pykraft.protocol.messages import API_VERSIONS, PRODUCE_VERSIONS, ApiKey
from pykraft.protocol.records import decode_values
from pykraft.protocol.schema import Body
from pykraft.rpc.api_versions import api_key_bodies
from pykraft.types import Endpoint, Epoch, Offset
from tests.client.logs import HASTY, PATIENT
from tests.client.scripted import HANG_UP, SILENCE, Answer, ScriptedNode, run, until

WRITABLE: Body = {"api_keys": api_key_bodies({**API_VERSIONS, ApiKey.PRODUCE: PRODUCE_VERSIONS})}


class Quorum:
    """Nodes 1 and 2, whose answers to Produce a test sets."""

    def __init__(self) -> None:
        self.answers: dict[int, Callable[[], Answer]] = {}
        self.nodes = {
            node_id: ScriptedNode({ApiKey.API_VERSIONS: lambda _: WRITABLE, ApiKey.PRODUCE: self._script(node_id)})
            for node_id in (1, 2)
        }

    def _script(self, node_id: int) -> Callable[[Body], Answer]:
        return lambda _: self.answers[node_id]()

    def answer(
        self, code: int, *, base_offset: int = -1, leader_id: int = -1, epoch: int = 3, text: str | None = None
    ) -> Body:
        part = {
            "index": 0,
            "error_code": code,
            "base_offset": base_offset,
            "error_message": text,
            "current_leader": {"leader_id": leader_id, "leader_epoch": epoch},
        }
        endpoint = self.nodes[leader_id].endpoint if leader_id in self.nodes else Endpoint(HOST, 1)
        node = {"node_id": leader_id, "host": endpoint.host, "port": endpoint.port}
        return {"responses": [{"name": "x", "partition_responses": [part]}], "node_endpoints": [node]}

    def committed(self, base_offset: int = 7) -> Callable[[], Answer]:
        return lambda: self.answer(ErrorCode.NONE, base_offset=base_offset, leader_id=2)

    def elsewhere(self, leader_id: int) -> Callable[[], Answer]:
        return lambda: self.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=leader_id, text="not here")

    def sent(self, node_id: int) -> list[list[bytes]]:
        """The values of each request to this node."""
        return [
            decode_values(body["topic_data"][0]["partition_data"][0]["records"])
            for body in self.nodes[node_id].requests(ApiKey.PRODUCE)
        ]


def with_quorum(main: Callable[[Quorum, Appender], Awaitable[None]], *, is_hasty: bool = False) -> None:
    """Run a test whose appender begins at node 1."""

    async def body() -> None:
        quorum = Quorum()
        async with AsyncExitStack() as stack:
            for node in quorum.nodes.values():
                await stack.enter_async_context(node)
            patience = HASTY if is_hasty else PATIENT
            await main(quorum, await stack.enter_async_context(Appender([quorum.nodes[1].endpoint], patience=patience)))

    run(body)


def test_the_leader_is_found_and_its_connection_kept() -> None:
    async def main(quorum: Quorum, appender: Appender) -> None:
        quorum.answers = {1: quorum.elsewhere(2), 2: quorum.committed()}
        assert await appender.append([b"a", b"b"]) == Committed(base_offset=Offset(7), epoch=Epoch(3), count=2)
        await appender.append([b"c"])
        assert quorum.sent(1) == [[b"a", b"b"]]
        assert quorum.sent(2) == [[b"a", b"b"], [b"c"]]
        assert len(quorum.nodes[2].requests(ApiKey.API_VERSIONS)) == 1

    with_quorum(main)


def test_a_connection_that_the_other_end_closed_meanwhile_is_not_used() -> None:
    async def main(quorum: Quorum, appender: Appender) -> None:
        quorum.answers = {1: quorum.committed()}
        await appender.append([b"a"])
        [task] = quorum.nodes[1]._tasks
        task.cancel()
        await until(lambda: not quorum.nodes[1].is_connected)
        await until(lambda: appender._connection is not None and not appender._connection.is_open)
        await appender.append([b"b"])
        assert quorum.sent(1) == [[b"a"], [b"b"]]

    with_quorum(main)


def test_what_was_certainly_not_appended_is_sent_again() -> None:
    async def main(quorum: Quorum, appender: Appender) -> None:
        def next_answer() -> Answer:
            return answers.pop(0)()

        answers = [quorum.elsewhere(-1)] * 3
        answers += [lambda: quorum.answer(ErrorCode.THROTTLING_QUOTA_EXCEEDED, leader_id=1, text="full")] * 2
        answers += [quorum.committed()]
        told: list[str | None] = []
        appender._patience = replace(PATIENT, on_waiting=told.append)
        quorum.answers = {1: next_answer}
        assert (await appender.append([b"a"])).base_offset == 7
        assert len(quorum.sent(1)) == 6
        assert told[0] == f"{quorum.nodes[1].endpoint}: it knows no leader"
        assert told[-1] is None

    with_quorum(main)


@pytest.mark.parametrize("lost", [HANG_UP, SILENCE, b"\0\0\0\1\0"])
def test_a_lost_answer_leaves_the_outcome_unknown(lost: bytes | None) -> None:
    async def main(quorum: Quorum, appender: Appender) -> None:
        quorum.answers = {1: lambda: lost}
        with pytest.raises(OutcomeUnknownError, match="the records may be in the log, or not") as raised:
            await appender.append([b"a"])
        assert raised.value.count == 1
        assert len(quorum.sent(1)) == 1
        quorum.answers = {1: quorum.committed()}
        await appender.append([b"b"])

    with_quorum(main, is_hasty=True)


def test_a_leader_that_lost_its_leadership_says_where_the_records_may_be() -> None:
    async def main(quorum: Quorum, appender: Appender) -> None:
        quorum.answers = {1: lambda: quorum.answer(ErrorCode.REQUEST_TIMED_OUT, base_offset=9, epoch=4, text="lost")}
        with pytest.raises(OutcomeUnknownError, match="lost") as raised:
            await appender.append([b"a"])
        assert (raised.value.base_offset, raised.value.epoch, raised.value.count) == (9, 4, 1)
        quorum.answers = {1: lambda: {"responses": [], "throttle_time_ms": 0}}
        with pytest.raises(OutcomeUnknownError, match="answers one append 0 times"):
            await appender.append([b"a"])

    with_quorum(main)


def test_a_refusal_is_final() -> None:
    async def main(quorum: Quorum, appender: Appender) -> None:
        quorum.answers = {1: lambda: quorum.answer(ErrorCode.MESSAGE_TOO_LARGE, text="too large")}
        with pytest.raises(RefusedError, match="the append was refused: MESSAGE_TOO_LARGE: too large"):
            await appender.append([b"a"])

    with_quorum(main)


def test_a_node_that_accepts_no_appends_is_named() -> None:
    async def main(quorum: Quorum, appender: Appender) -> None:
        for node in quorum.nodes.values():
            node.scripts[ApiKey.API_VERSIONS] = lambda _: {"api_keys": api_key_bodies(API_VERSIONS)}
        with pytest.raises(UsageError, match=r"it accepts no appends: set pykraft\.append\.listeners"):
            await appender.append([b"a"])
        quorum.nodes[1].scripts[ApiKey.API_VERSIONS] = lambda _: WRITABLE
        quorum.answers = {1: quorum.elsewhere(2)}
        with pytest.raises(UsageError, match=f"{quorum.nodes[2].endpoint}: it accepts no appends"):
            await appender.append([b"a"])

    with_quorum(main)


def test_one_node_that_accepts_no_appends_does_not_end_the_search() -> None:
    async def main(quorum: Quorum, appender: Appender) -> None:
        quorum.nodes[1].scripts[ApiKey.API_VERSIONS] = lambda _: {"api_keys": api_key_bodies(API_VERSIONS)}
        quorum.answers = {2: quorum.committed()}
        both = [node.endpoint for node in quorum.nodes.values()]
        async with Appender(both, patience=PATIENT) as other:
            assert (await other.append([b"a"])).base_offset == 7
        await appender.close()

    with_quorum(main)


def test_nobody_there_is_told_at_once_and_no_leader_in_time() -> None:
    async def main(quorum: Quorum, appender: Appender) -> None:
        [port] = free_ports(1)
        async with Appender([Endpoint(HOST, port)], patience=PATIENT) as lonely:
            with pytest.raises(QuorumUnavailableError, match="no node answers"):
                await lonely.append([b"a"])
        quorum.answers = {1: quorum.elsewhere(-1)}
        with pytest.raises(QuorumUnavailableError, match=r"no leader within 0\.6 s"):
            await appender.append([b"a"])
        # It has answered before, so it may come back: the time is waited for.
        await quorum.nodes[1].stop()
        await until(lambda: appender._connection is None or not appender._connection.is_open)
        with pytest.raises(QuorumUnavailableError, match=r"no leader within 0\.6 s"):
            await appender.append([b"a"])

    with_quorum(main, is_hasty=True)


@pytest.mark.parametrize("values", [[], [b""], [b"a", b""], [bytes(BATCH_SIZE_BYTES_MAX)]])
def test_what_cannot_be_a_batch_is_refused_before_it_is_sent(values: list[bytes]) -> None:
    async def main(quorum: Quorum, appender: Appender) -> None:
        with pytest.raises(UsageError, match="an append has at least one record"):
            await appender.append(values)
        assert quorum.nodes[1].asked == []

    with_quorum(main)
