"""State machines on several nodes: results, errors, restarts, snapshots, log time, digests and changes of leader."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pykraft import errors
from pykraft.client.remote.connection import ClientDialer
from pykraft.config import LogSettings
from pykraft.machine import Replicated, forwarder
from pykraft.machine.records import OpenRecord, decode_log_record, encode_log_record, pack_records
from pykraft.machine.replica import SESSION_TIMEOUT_MS
from pykraft.machine.replicated import PROGRAM
from pykraft.protocol.schema import Body
from pykraft.types import Endpoint
from tests.client.nodes import BOTH, alone, config_of
from tests.machine.counters import Add, Counters, Node, leader_of, machines, make_leader, next_turn, state_of


@BOTH
async def test_a_command_has_its_result_on_the_leader_and_the_same_state_everywhere(
    tmp_path: Path, own_thread: bool
) -> None:
    async with machines(tmp_path, own_thread=own_thread) as nodes:
        leader = await leader_of(nodes)
        assert await leader.execute(Add("x", 2)) == 2
        assert sorted(await asyncio.gather(*(leader.execute(Add("x", 1)) for _ in range(20)))) == [*range(3, 23)]
        end = leader.node.high_watermark
        assert end is not None
        for node in nodes:
            await node.node.wait_applied(node._applier, end)
            assert state_of(node).totals == {"x": 22}
            assert state_of(node).contexts == state_of(leader).contexts


async def test_a_rejection_is_the_caller_s_alone(tmp_path: Path) -> None:
    async with machines(tmp_path, 1) as [node]:
        adds = (Add("x", 1), Add("y", -1), Add("x", 1))
        results: list[Any] = await asyncio.gather(*map(node.execute, adds), return_exceptions=True)
        assert results[0::2] == [1, 2]
        assert isinstance(results[1], errors.CommandRejectedError)
        assert str(results[1]) == "y would be -1"


async def test_a_restarted_node_has_its_state_and_goes_on(tmp_path: Path) -> None:
    for turn in range(3):
        async with Replicated(alone(tmp_path), Counters()) as node:
            assert await node.execute(Add("x", 1)) == turn + 1


async def test_a_restart_from_a_snapshot_keeps_state_and_sessions(tmp_path: Path) -> None:
    settings = replace(alone(tmp_path), log=LogSettings(snapshot_record_bytes_max=2_000))
    async with Replicated(settings, Counters()) as node:
        for _ in range(100):
            await node.execute(Add("x", 1))
        sessions = node._replica.sessions_count
    async with Replicated(settings, Counters()) as node:
        await node.node.wait_for_leader()
        assert await node.execute(Add("x", 1)) == 101
        assert state_of(node).restored >= 1
        assert node._replica.sessions_count == sessions + 1


async def test_a_change_of_leader_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async with machines(tmp_path) as nodes:
        leader = await leader_of(nodes)
        other = next(node for node in nodes if node is not leader)
        for turn in range(3):
            assert await leader.execute(Add("x", 0)) == 20 * turn
            calls = [asyncio.create_task(leader.execute(Add("x", 1))) for _ in range(20)]
            await next_turn()
            await make_leader(other, nodes)
            await make_leader(leader, nodes)
            await asyncio.gather(*calls)
        assert await leader.execute(Add("x", 0)) == 60


async def test_wrong_arguments_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="is not a state machine"):
        Replicated(alone(tmp_path), object())  # type: ignore[type-var]
    async with Replicated(alone(tmp_path), Counters()) as node:
        for timeout_ms in (0, 30_001, 1.5):
            with pytest.raises(errors.UsageError, match="timeout_ms"):
                await node.execute(Add("x", 1), timeout_ms=timeout_ms)  # type: ignore[arg-type]
        with pytest.raises(errors.UsageError, match="at most 1048576 bytes: its serde made 1050029 bytes"):
            await node.execute(Add("x" * 1_050_000, 1))
        with pytest.raises(TypeError):
            await node.execute("text")  # type: ignore[arg-type]
        assert await node.execute(Add("x", 1)) == 1


async def test_a_machine_that_fails_here_alone_ends_its_node(tmp_path: Path) -> None:
    class Broken(Counters):
        def apply(self, command: Add, context: Any) -> int:
            raise OSError("no file")

    with pytest.raises(OSError, match="no file"):
        async with Replicated(alone(tmp_path), Broken()) as node:
            await node.execute(Add("x", 1))


async def test_a_machine_that_fails_everywhere_tells_the_caller_and_the_operators(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Counters):
        def apply(self, command: Add, context: Any) -> int:
            if command.amount == 13:
                raise ZeroDivisionError("a bug")
            return super().apply(command, context)

    async with machines(tmp_path, machine=Broken) as nodes:
        for each in nodes:
            with pytest.raises(errors.CommandRejectedError, match="on every replica alike, with ZeroDivisionError"):
                await each.execute(Add("x", 13))
        assert [await each.execute(Add("x", 1)) for each in nodes] == [1, 2, 3]
        async with nodes[0].read(), nodes[1].read(), nodes[2].read():
            pass
    assert caplog.text.count("is not applied: ZeroDivisionError: a bug") == 9


async def test_a_command_that_its_serde_cannot_read_back_is_refused_on_every_node(tmp_path: Path) -> None:
    class OneWay:
        def serialize(self, record: Add) -> bytes:
            return b"\xff" if record.amount == 13 else Counters.commands.serialize(record)

        def deserialize(self, data: bytes) -> Add:
            command: Add = Counters.commands.deserialize(data)
            return command

    class Lossy(Counters):
        commands: ClassVar[Any] = OneWay()

    async with machines(tmp_path, machine=Lossy) as nodes:
        await leader_of(nodes)
        for each in nodes:
            match = "refuses a command of 1 bytes: UnicodeDecodeError"
            with pytest.raises((errors.NotAppliedError, errors.UsageError), match=match):
                await each.execute(Add("x", 13))
        assert await nodes[0].execute(Add("x", 1)) == 1


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    for wrong in (0, 5_000, "1"):
        with pytest.raises(errors.UsageError, match="check_every"):
            Replicated(config_of(tmp_path, 1), Counters(), check_every=wrong)  # type: ignore[arg-type]


OPENING = encode_log_record(OpenRecord(0, bytes(16)))


async def ask(node: Node, *records: bytes, **others: Any) -> Body:
    """The answer of this node."""
    told: list[Body] = []
    request = {"cluster_id": node._server._cluster_id, "records": pack_records(records), **others}
    await node._server._serve(request, told.append)
    [answer] = told
    return answer


async def test_records_are_appended_with_the_leaders_time_and_reads_are_confirmed(tmp_path: Path) -> None:
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
            assert refused["error_code"] == errors.ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert refused["leader_id"] == leader.node.node_id


async def test_what_is_no_request_of_this_cluster_reaches_no_log(tmp_path: Path) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.node.wait_for_leader()
        end = node.node.log_end_offset
        for answer in (
            await ask(node, OPENING, cluster_id="another"),
            await ask(node, records=b"\0"),
            await ask(node, OPENING, b"foreign"),
        ):
            assert answer["error_code"] == errors.ErrorCode.INVALID_REQUEST
            assert answer["error_message"]
        assert node.node.log_end_offset == end


async def test_a_digest_is_appended_if_the_voter_that_it_names_says_that_it_is_its_own(tmp_path: Path) -> None:
    """Two forged ones were a majority of three, and ended whoever had found something else."""

    def said(node: Node, **others: Any) -> bytes:
        assert node._applier.check is not None
        found = node._applier.check.found
        assert found is not None
        return encode_log_record(replace(found, **{"node_id": node.node.node_id, **others}))

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
            ([forged], errors.ErrorCode.INVALID_REQUEST),
            ([said(follower, node_id=99)], errors.ErrorCode.INVALID_REQUEST),
            ([said(leader, state=b"another".ljust(16))], errors.ErrorCode.INVALID_REQUEST),
            ([OPENING, said(follower)], errors.ErrorCode.INVALID_REQUEST),
            ([said(leader)], errors.ErrorCode.NONE),
        ):
            assert (await ask(leader, *records))["error_code"] == code
        assert (await ask(other, said(follower)))["error_code"] == errors.ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert leader.node.log_end_offset == end
        answer = await ask(leader, said(follower))
        assert (answer["error_code"], answer["offset"]) == (errors.ErrorCode.NONE, end)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.BufferFullError("full"), errors.ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        (errors.OutcomeUnknownError("lost"), errors.ErrorCode.REQUEST_TIMED_OUT),
    ],
)
async def test_errors_have_codes_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: errors.ErrorCode
) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))  # it leads

        async def refuse(*_: Any) -> Any:
            raise error

        monkeypatch.setattr(node.node, "propose", refuse)
        answer = await ask(node, OPENING)
        assert (answer["error_code"], answer["error_message"]) == (code, str(error))


async def test_requests_are_bounded_and_a_node_that_has_ended_answers_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.node.wait_for_leader()
        monkeypatch.setattr(forwarder, "REQUESTS_MAX", -1)
        assert (await ask(node, OPENING))["error_code"] == errors.ErrorCode.THROTTLING_QUOTA_EXCEEDED
        monkeypatch.undo()
        await node.close()
        told: list[Body] = []
        request = {"cluster_id": node._server._cluster_id, "records": pack_records([OPENING])}
        await node._server._serve(request, told.append)
        assert told == []


def test_a_program_has_a_server_of_its_own_and_the_session_timeout_of_the_format() -> None:
    assert PROGRAM.session_timeout_ms == SESSION_TIMEOUT_MS
    assert PROGRAM.random_bytes(16) != PROGRAM.random_bytes(16)


def test_a_dialer_says_that_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        endpoint = Endpoint("127.0.0.1", bound.getsockname()[1])

        async def main() -> None:
            dialer = ClientDialer("test")
            for _ in range(2):  # the second one shares the lookups of the first
                with pytest.raises(errors.UnreachableError, match=str(endpoint)):
                    await dialer.connect(endpoint, 2_000)

        asyncio.run(main())


async def test_a_node_is_entered_once_and_goes_on(tmp_path: Path) -> None:
    async with Replicated(alone(tmp_path), Counters()) as node:
        for again in (node, node.node):
            with pytest.raises(errors.UsageError, match="already"):
                await again.__aenter__()
        assert await node.execute(Add("x", 1)) == 1


async def test_a_machine_belongs_to_one_node(tmp_path: Path) -> None:
    machine = Counters()
    async with Replicated(alone(tmp_path / "first"), machine) as node:
        await node.execute(Add("x", 1))
    with pytest.raises(errors.UsageError, match="this Counters was used before"):
        await Replicated(alone(tmp_path / "second"), machine).initialize()


def test_a_node_that_does_not_run_is_no_misuse() -> None:
    assert not issubclass(errors.NotRunningError, errors.UsageError)
