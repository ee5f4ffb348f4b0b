"""The base class of state machines finds the serde of its commands.

Records of a state machine, byte by byte; what another version wrote is never guessed at.

The applier answers those who wait and lets the loop run; the leader's clock and a client's numbers only go on.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pykraft.client import bytes_serde, json_serde
from pykraft.errors import BufferFullError, ForeignRecordError, UnknownRecordError, UsageError
from pykraft.machine import Applied, StateMachine, applier, dataclass_serde
from pykraft.machine.applier import PIECE_COMMANDS, PIECE_SIZE_BYTES, ClientSession, LeaderClock
from pykraft.machine.records import (
    CheckRecord,
    CommandRecord,
    DigestRecord,
    LogRecord,
    OpenRecord,
    ResultRecord,
    SessionRecord,
    SnapshotRecord,
    StateRecord,
    TickRecord,
    TimeRecord,
    check_forwarded,
    decode_log_record,
    decode_snapshot_record,
    encode_command,
    encode_log_record,
    encode_snapshot_record,
    forwarded_digest,
    pack_records,
    stamped,
    unpack_records,
)
from tests.machine.counters import Add, leader_of, machines, next_turn, state_of


@dataclass
class Put:
    key: str


@dataclass
class Delete:
    key: str


class Nothing:
    """The rest of a state machine."""

    def apply(self, command: Any, context: Applied) -> None:
        del command, context

    def snapshot(self) -> Iterable[bytes]:
        return []

    def restore(self, records: Iterable[bytes]) -> None:
        del records


class OneCommand(Nothing, StateMachine[Put, None]):
    pass


class TwoCommands(Nothing, StateMachine[Put | Delete, None]):
    pass


class JsonCommands(Nothing, StateMachine[dict[str, int], None]):
    pass


class OwnSerde(Nothing, StateMachine[bytes, None]):
    commands = bytes_serde


class Derived(OwnSerde):
    pass


def test_dataclasses_are_found() -> None:
    assert OneCommand().commands.serialize(Put("a")) == b'["Put",{"key":"a"}]'
    for command in (Put("a"), Delete("b")):
        assert TwoCommands().commands.deserialize(TwoCommands.commands.serialize(command)) == command


def test_other_commands_are_json_or_have_a_serde() -> None:
    assert JsonCommands.commands is json_serde
    assert OwnSerde.commands is Derived.commands is bytes_serde


@dataclass
class Set:
    key: str
    value: Any = None


@dataclass
class Unset:
    key: str


SERDE = dataclass_serde(Set, Unset)


def test_a_command_comes_back_equal() -> None:
    for command in (Set("a", [1, {"b": None}]), Unset("ä"), Set("c")):
        assert SERDE.deserialize(SERDE.serialize(command)) == command
    assert SERDE.serialize(Unset("x")) == b'["Unset",{"key":"x"}]'


def test_a_field_that_an_older_command_lacks_has_its_default() -> None:
    assert SERDE.deserialize(b'["Set",{"key":"x"}]') == Set("x", None)


@pytest.mark.parametrize("wrong", [Set("a", (1, 2)), Set("a", {1: 2}), Set("a", {1}), Set("a", float("nan")), "text"])
def test_a_command_that_would_come_back_otherwise_is_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        SERDE.serialize(wrong)


def test_only_dataclasses_with_names_of_their_own() -> None:
    with pytest.raises(UsageError, match="is not a dataclass"):
        dataclass_serde(int)
    with pytest.raises(UsageError, match="two classes are called Set"):
        dataclass_serde(Set, Set)


NONCE = bytes(range(16))
IN_LOG = {
    "01 01 0000000000000007" + NONCE.hex(): OpenRecord(7, NONCE),
    "01 02 0000000000000007 0000000000000003 0000000000000005 0000000000000004 6869": CommandRecord(7, 3, 5, 4, b"hi"),
    "01 02 0000000000000007 0000000000000003 0000000000000005 0000000000000004": CommandRecord(7, 3, 5, 4, b""),
    "01 03 0000000000000007": TickRecord(7),
    "01 04 0000000000000007": CheckRecord(7),
    "01 05 0000000000000007 00000002 0000000000000005 00000009" + NONCE.hex() + "01020304": DigestRecord(
        7, 2, 5, 9, NONCE, b"\x01\x02\x03\x04"
    ),
}
IN_SNAPSHOT = {
    "01 10 0000000000000007 0000000000000006": TimeRecord(7, 6),
    "01 11 0000000000000003" + NONCE.hex() + "0000000000000007 0000000000000004": SessionRecord(3, NONCE, 7, 4),
    "01 12 0000000000000003 0000000000000005 01 6e6f": ResultRecord(3, 5, True, b"no"),
    "01 12 0000000000000003 0000000000000005 00": ResultRecord(3, 5, False, b""),
    "01 13 6869": StateRecord(b"hi"),
    "01 13": StateRecord(b""),
}


@pytest.mark.parametrize(("text", "record"), IN_LOG.items())
def test_a_record_of_the_log(text: str, record: LogRecord) -> None:
    assert encode_log_record(record) == bytes.fromhex(text)
    assert decode_log_record(bytes.fromhex(text)) == record


@pytest.mark.parametrize(("text", "record"), IN_SNAPSHOT.items())
def test_a_record_of_a_snapshot(text: str, record: SnapshotRecord) -> None:
    assert encode_snapshot_record(record) == bytes.fromhex(text)
    assert decode_snapshot_record(bytes.fromhex(text)) == record


@pytest.mark.parametrize("text", IN_LOG)
def test_a_new_time_changes_nothing_else(text: str) -> None:
    before = bytes.fromhex(text)
    after = stamped(before, 9)
    assert decode_log_record(after).time_ms == 9
    assert stamped(after, 7) == before


@pytest.mark.parametrize("data", [b"\x02\x01", b"\x02" + bytes(40), b"\x0f\x00", b"\x01\x09" + bytes(9)])
def test_records_of_a_later_version_are_unknown(data: bytes) -> None:
    for decode in (decode_log_record, check_forwarded):
        with pytest.raises(
            UnknownRecordError, match=f"a record of {len(data)} bytes .* is none of version 1"
        ) as raised:
            decode(data)
        assert type(raised.value) is UnknownRecordError
    with pytest.raises(UnknownRecordError):
        decode_snapshot_record(data)


@pytest.mark.parametrize(
    "data", [b"", b"x", b"\x01", b"\x10\x01", b"\x00" + bytes(40), b"\x01\x02\x00", b"\x01\x10" + bytes(9), b'{"a":1}']
)
def test_what_no_version_writes_is_foreign(data: bytes) -> None:
    for decode in (decode_log_record, check_forwarded):
        with pytest.raises(ForeignRecordError, match=f"a record of {len(data)} bytes .* is none of a state machine"):
            decode(data)
    with pytest.raises(UnknownRecordError):
        decode_snapshot_record(data)


@pytest.mark.parametrize("text", ["01 01 0000000000000007 00", "01 03 0000000000000007 00"])
def test_a_record_of_another_length_is_none(text: str) -> None:
    with pytest.raises(ForeignRecordError):
        decode_log_record(bytes.fromhex(text))


def test_nodes_forward_what_concerns_their_clients_and_a_digest_alone() -> None:
    command, opening = encode_command(0, 1, 2, 3, b"it"), encode_log_record(OpenRecord(0, bytes(16)))
    assert (check_forwarded(command), check_forwarded(opening)) == (b"it", None)
    found = DigestRecord(0, 1, 2, 3, bytes(16), b"")
    digest = encode_log_record(found)
    for of_another in (TickRecord(0), CheckRecord(0), found):
        with pytest.raises(ForeignRecordError, match="is none that a node forwards"):
            check_forwarded(encode_log_record(of_another))
    assert forwarded_digest([digest]) == found
    for others in ([], [command], [opening], [digest, digest]):
        assert forwarded_digest(others) is None


def test_records_of_a_request() -> None:
    for records in ([], [b"a"], [b"ab", b"", b"c" * 300]):
        assert unpack_records(pack_records(records)) == records
    assert pack_records([b"hi", b"x"]) == bytes.fromhex("00000002 6869 00000001 78")
    for torn in (b"\x00\x00\x00\x05hi", b"\x00\x00\x00\x01", b"\x00\x01"):
        with pytest.raises(UnknownRecordError):
            unpack_records(torn)


@pytest.mark.parametrize(
    ("command", "count", "most"),
    [(Add("x", 1), 1_000, 2 * PIECE_COMMANDS), (Add("x" * 30_000, 1), 100, 2 * PIECE_SIZE_BYTES // 30_000 + 2)],
    ids=["many", "large"],
)
async def test_other_tasks_run_while_commands_are_applied(tmp_path: Path, command: Add, count: int, most: int) -> None:
    key = command.key
    async with machines(tmp_path, 1) as [node]:
        await node.execute(command)
        longest = turns = 0
        is_over = False

        async def watch() -> None:
            nonlocal longest, turns
            seen = state_of(node).totals[key]
            while not is_over:
                await next_turn()
                now = state_of(node).totals[key]
                longest, seen, turns = max(longest, now - seen), now, turns + 1

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(node.execute(command) for _ in range(count)))
        is_over = True
        await watching
        assert state_of(node).totals == {key: count + 1}
        assert turns > 1
        assert longest <= most


async def test_only_the_leader_s_clock_runs(tmp_path: Path) -> None:
    async with machines(tmp_path) as nodes:
        leader = await leader_of(nodes)
        await leader.execute(Add("x", 1))
        clocks = [node for node in nodes if node._applier.clock.is_running]
        assert clocks == [leader]
        assert leader._applier.time_ms() >= leader._replica.time_ms


def test_it_advances_while_this_node_leads() -> None:
    clock = LeaderClock()
    assert (clock.is_running, clock.time_ms(5, 100.0)) == (False, 5)
    clock.start(1_000, 100.0)
    assert clock.is_running
    assert [clock.time_ms(1_000, 100.0 + s) for s in (0.0, 0.5, 2.0)] == [1_000, 1_500, 3_000]
    clock.stop()
    assert (clock.is_running, clock.time_ms(3_000, 109.0)) == (False, 3_000)


def test_it_is_never_behind_what_was_applied() -> None:
    clock = LeaderClock()
    clock.start(1_000, 100.0)
    assert clock.time_ms(9_000, 100.5) == 9_000


async def test_the_lowest_number_that_somebody_waits_for_is_acknowledged() -> None:
    session = ClientSession(7)
    assert [session.issue()[0] for _ in range(4)] == [0, 1, 2, 3]
    assert session.acknowledged == 0
    session.done(1)
    assert session.acknowledged == 0
    session.done(0)
    assert session.acknowledged == 2
    attempts = [(number, bytes([number]), session.waiters[number], 1.0) for number in (2, 3)]
    expected = [CommandRecord(9, 7, number, 2, bytes([number])) for number in (2, 3)]
    assert [*map(decode_log_record, session.records(attempts, 9))] == expected
    session.done(2)
    session.done(3)
    assert session.acknowledged == 4
    assert session.issue()[0] == 4


async def test_the_number_of_commands_that_wait_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applier, "WINDOW", 3)
    session = ClientSession(7)
    for _ in range(3):
        session.issue()
    session.done(1)
    with pytest.raises(BufferFullError, match="3 commands of this client already wait"):
        session.issue()  # 0 still waits, so 0 to 2 are kept
    session.done(0)
    assert session.issue()[0] == 3
