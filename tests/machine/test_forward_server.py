"""What the leader answers to forwarded records and reads, and what certainly did not reach its log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import BufferFullError, ErrorCode, OutcomeUnknownError
from pykraft.machine import forward_server
from pykraft.machine.records import OpenRecord, decode_log_record, encode_log_record, pack_records
from pykraft.protocol.schema import Body
from tests.client.nodes import run
from tests.machine.counters import Add, Node, leader_of, machines, next_turn

OPENING = encode_log_record(OpenRecord(0, bytes(16)))


async def ask(node: Node, *records: bytes, **others: Any) -> Body:
    """The answer of this node."""
    told: list[Body] = []
    request = {"cluster_id": node._server._cluster_id, "records": pack_records(records), **others}
    await node._server._serve(request, told.append)
    [answer] = told
    return answer


def test_records_are_appended_with_the_leaders_time_and_reads_are_confirmed(tmp_path: Path) -> None:
    async def main() -> None:
        async with machines(tmp_path) as nodes:
            leader = await leader_of(nodes)
            await leader.execute(Add("x", 1))
            end = leader.node.log_end_offset
            answer = await ask(leader, OPENING, OPENING)
            assert (answer["error_code"], answer["offset"], answer["leader_id"]) == (0, end, leader.node.node_id)
            read = await ask(leader)
            assert (read["error_code"], read["offset"]) == (0, end + 2)
            assert leader._replica.time_ms >= decode_log_record(OPENING).time_ms
            follower = next(node for node in nodes if node is not leader)
            for records in ([OPENING], []):
                refused = await ask(follower, *records)
                assert refused["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
                assert refused["leader_id"] == leader.node.node_id

    run(main)


def test_what_is_no_request_of_this_cluster_reaches_no_log(tmp_path: Path) -> None:
    async def main() -> None:
        async with machines(tmp_path, 1) as [node]:
            await node.node.wait_for_leader()
            end = node.node.log_end_offset
            for answer in (
                await ask(node, OPENING, cluster_id="another"),
                await ask(node, records=b"\0"),
                await ask(node, OPENING, b"foreign"),
            ):
                assert answer["error_code"] == ErrorCode.INVALID_REQUEST
                assert answer["error_message"]
            assert node.node.log_end_offset == end

    run(main)


def test_a_digest_is_appended_if_the_voter_that_it_names_says_that_it_is_its_own(tmp_path: Path) -> None:
    """Two forged ones were a majority of three, and ended whoever had found something else."""

    def said(node: Node, **others: Any) -> bytes:
        assert node._applier.check is not None
        found = node._applier.check.found
        assert found is not None
        return encode_log_record(replace(found, **{"node_id": node.node.node_id, **others}))

    async def main() -> None:
        async with machines(tmp_path, check_every=1) as nodes:
            leader = await leader_of(nodes)
            await leader.execute(Add("x", 1))
            checks = [node._applier.check for node in nodes]
            while not all(check is not None and all(map(check.is_told, (1, 2, 3))) for check in checks):
                await next_turn()
            follower, other = (node for node in nodes if node is not leader)
            end = leader.node.log_end_offset
            forged = said(follower, state=b"another".ljust(16))
            for records, code in (
                ([forged], ErrorCode.INVALID_REQUEST),
                ([said(follower, node_id=99)], ErrorCode.INVALID_REQUEST),
                ([said(leader, state=b"another".ljust(16))], ErrorCode.INVALID_REQUEST),
                ([OPENING, said(follower)], ErrorCode.INVALID_REQUEST),
                ([said(leader)], ErrorCode.NONE),
            ):
                assert (await ask(leader, *records))["error_code"] == code
            assert (await ask(other, said(follower)))["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert leader.node.log_end_offset == end
            answer = await ask(leader, said(follower))
            assert (answer["error_code"], answer["offset"]) == (ErrorCode.NONE, end)

    run(main)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BufferFullError("full"), ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        (OutcomeUnknownError("lost"), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_errors_have_codes_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: ErrorCode
) -> None:
    async def main() -> None:
        async with machines(tmp_path, 1) as [node]:

            async def refuse(*_: Any) -> Any:
                raise error

            monkeypatch.setattr(node.node, "propose", refuse)
            answer = await ask(node, OPENING)
            assert (answer["error_code"], answer["error_message"]) == (code, str(error))

    run(main)


def test_requests_are_bounded_and_a_node_that_has_ended_answers_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with machines(tmp_path, 1) as [node]:
            await node.node.wait_for_leader()
            monkeypatch.setattr(forward_server, "REQUESTS_MAX", -1)
            assert (await ask(node, OPENING))["error_code"] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            monkeypatch.undo()
            await node.close()
            told: list[Body] = []
            request = {"cluster_id": node._server._cluster_id, "records": pack_records([OPENING])}
            await node._server._serve(request, told.append)
            assert told == []

    run(main)
