"""A replica applies each command once, whatever copies of it the log holds, and so does every other."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from pykraft.client import StableRecords
from pykraft.errors import DeserializeError, ForeignRecordError, ReplicasPartedError, UnknownRecordError, UsageError
from pykraft.machine import replica as replicas
from pykraft.machine.records import (
    CommandRecord,
    LogRecord,
    OpenRecord,
    SkipRecord,
    StateRecord,
    TickRecord,
    TimeRecord,
    decode_snapshot_record,
    encode_log_record,
    encode_snapshot_record,
)
from pykraft.machine.replica import (
    OF_THIS_NODE,
    SESSION_TIMEOUT_MS,
    SWEEP_INTERVAL_MS,
    CommandAnswer,
    CommandAnswered,
    CommandVerdict,
    HeldError,
    MachineReplica,
    NotApplied,
    SessionOpened,
)
from pykraft.machine.state_machine import Applied
from pykraft.types import Epoch, Offset
from tests.machine.counters import Add, Counters, load

NONCE = bytes(16)


class Log:
    """A replica and the log that it is fed from."""

    def __init__(self, counters: Counters | None = None) -> None:
        self.end = 0
        self.counters = counters or Counters()
        self.replica = MachineReplica(self.counters)

    def add(self, record: LogRecord) -> Any:
        offset, self.end = self.end, self.end + 1
        return self.replica.apply(encode_log_record(record), Offset(offset), Epoch(3))

    def open(self, time_ms: int = 0, nonce: bytes = NONCE) -> int:
        news = self.add(OpenRecord(time_ms, nonce))
        assert isinstance(news, SessionOpened)
        assert news.session_id is not None
        return news.session_id

    def command(self, session: int, sequence: int, amount: int = 1, *, acknowledged: int = 0, time_ms: int = 0) -> Any:
        data = Counters.commands.serialize(Add("x", amount))
        news = self.add(CommandRecord(time_ms, session, sequence, acknowledged, data))
        assert news is None or (news.session_id, news.sequence) == (session, sequence)
        return None if news is None else news.answer

    def restored(self) -> Log:
        """Another replica that loaded a snapshot of this one."""
        other = Log()
        other.end = self.end
        load(other.replica, [*self.replica.save()])
        return other

    @property
    def total(self) -> int:
        return self.counters.totals.get("x", 0)


def applied(value: int) -> CommandAnswer:
    return CommandAnswer(CommandVerdict.APPLIED, str(value).encode())


def test_a_command_has_its_result_and_its_context() -> None:
    log = Log()
    log.add(TickRecord(500))
    session = log.open(700)
    assert session == 1
    assert log.command(session, 0, 5, time_ms=900) == applied(5)
    [context] = log.counters.contexts
    assert (context.offset, context.epoch, context.time_ms, context.session_id) == (2, 3, 900, 1)


def test_a_copy_gets_the_kept_result_and_changes_nothing() -> None:
    log = Log()
    session = log.open()
    assert log.command(session, 0, 5) == applied(5)
    assert log.command(session, 1, 1) == applied(6)
    assert log.command(session, 0, 5) == applied(5)
    assert log.total == 6


def test_a_copy_after_a_snapshot_gets_the_kept_result() -> None:
    log = Log()
    session = log.open()
    log.command(session, 0, 5)
    rejected = log.command(session, 1, -9)
    other = log.restored()
    assert other.total == 5
    assert other.command(session, 0, 5) == applied(5)
    assert other.command(session, 1, -9) == rejected == CommandAnswer(CommandVerdict.REJECTED, b"x would be -4")
    assert (other.total, other.counters.contexts) == (5, [])
    assert [*other.replica.save()] == [*other.restored().replica.save()]


def test_a_snapshot_of_stable_records_has_nothing_of_later_commands() -> None:
    class StableCounters(Counters):
        def snapshot(self) -> StableRecords[bytes]:
            totals = self.totals.copy()
            return StableRecords(f"{key}={total}".encode() for key, total in totals.items())

    log = Log(StableCounters())
    busy, idle = log.open(), log.open(nonce=bytes([1]) * 16)
    log.command(busy, 0, 5)
    expected = [*log.replica.save()]
    records = iter(log.replica.save())
    saved = [next(records)]
    # Each of these changes what is being written: a session with a result, one without, one more, and the state.
    log.command(busy, 1, 5, acknowledged=1)
    log.command(idle, 0, 5)
    log.open(nonce=bytes([2]) * 16)
    assert [*saved, *records] == expected


def test_what_a_client_acknowledged_is_dropped_and_never_applied_again() -> None:
    log = Log()
    session = log.open()
    for sequence in range(4):
        log.command(session, sequence)
    assert log.command(session, 5, acknowledged=3) == applied(5)
    assert log.command(session, 2) is None
    # 4 was given up by its client before it was in the log: it is not applied any more.
    log.command(session, 6, acknowledged=100)
    assert log.command(session, 4) is None
    assert log.total == 5


def test_copies_in_any_order_are_applied() -> None:
    log = Log()
    session = log.open()
    assert log.command(session, 1, 5) == applied(5)
    assert log.command(session, 0, 1) == applied(6)


def test_a_session_ends_by_log_time_and_its_commands_are_refused() -> None:
    log = Log()
    session = log.open()
    assert log.command(session, 0, time_ms=SESSION_TIMEOUT_MS).verdict is CommandVerdict.APPLIED
    other = log.restored()
    for each in (log, other):
        answer = each.command(session, 0, time_ms=2 * SESSION_TIMEOUT_MS + 1)
        assert answer == CommandAnswer(CommandVerdict.REFUSED, b"session 0 has ended: it was unused for too long")
        assert each.total == 1


def test_a_session_ends_in_time_even_if_it_is_not_swept_yet() -> None:
    log = Log()
    session = log.open(0)
    log.add(TickRecord(SESSION_TIMEOUT_MS))
    assert log.command(session, 0, time_ms=SESSION_TIMEOUT_MS + 1).verdict is CommandVerdict.REFUSED
    assert log.replica.sessions_count == 1
    log.add(TickRecord(SESSION_TIMEOUT_MS + SWEEP_INTERVAL_MS))
    assert log.replica.sessions_count == 0


def test_a_use_prolongs_a_session() -> None:
    log = Log()
    used, unused = log.open(), log.open()
    for turn in range(1, 4):
        log.command(used, turn, time_ms=turn * SESSION_TIMEOUT_MS)
    assert log.replica.sessions_count == 1
    assert log.command(unused, 0, time_ms=3 * SESSION_TIMEOUT_MS).verdict is CommandVerdict.REFUSED
    assert log.total == 3


def test_log_time_never_goes_back() -> None:
    log = Log()
    log.add(TickRecord(900))
    session = log.open(100)
    log.command(session, 0, time_ms=200)
    assert log.replica.time_ms == log.counters.contexts[0].time_ms == 900


def test_unknown_sessions_are_refused() -> None:
    log = Log()
    assert log.command(9, 0).verdict is CommandVerdict.REFUSED
    assert log.total == 0


def test_sessions_and_kept_results_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "SESSIONS_MAX", 1)
    monkeypatch.setattr(replicas, "WINDOW", 2)
    log = Log()
    session = log.open()
    assert log.add(OpenRecord(0, NONCE)) == SessionOpened(NONCE, None)
    log.command(session, 0)
    log.command(session, 1)
    assert log.command(session, 2).verdict is CommandVerdict.REFUSED
    assert log.command(session, 1) == applied(2)
    assert log.command(session, 2, acknowledged=1) == applied(3)


def test_a_result_is_kept_as_it_was() -> None:
    class Shared(Counters):
        results: ClassVar[Any] = Counters.commands

        def apply(self, command: Add, context: Any) -> Any:
            self.kept = command
            return command

    machine = Shared()
    replica = MachineReplica(machine)
    replica.apply(encode_log_record(OpenRecord(0, NONCE)), Offset(0), Epoch(1))
    data = encode_log_record(CommandRecord(0, 0, 0, 0, Counters.commands.serialize(Add("x", 1))))
    first = replica.apply(data, Offset(1), Epoch(1))
    machine.kept.amount = 99
    assert replica.apply(data, Offset(2), Epoch(1)) == first


def test_what_the_serde_or_the_machine_cannot_handle_stops_the_replica() -> None:
    log = Log()
    session = log.open()
    with pytest.raises(DeserializeError, match=r"the record at offset 1 \(epoch 3\) cannot be read: KeyError: 'Sub'"):
        log.add(CommandRecord(0, session, 0, 0, b'["Sub",{}]'))
    with pytest.raises(UnknownRecordError):
        log.replica.apply(bytes([2]) + b"hello", Offset(9), Epoch(3))


def test_an_exception_of_apply_is_the_same_answer_everywhere_and_is_kept() -> None:
    log = Log()
    session = log.open()
    seen: list[NotApplied] = []
    log.replica.on_not_applied = seen.append
    poison = CommandRecord(0, session, 0, 0, b'["Add",{"key":"x","amount":"y"}]')
    answer = log.add(poison).answer
    assert answer.verdict is CommandVerdict.REJECTED
    assert b"TypeError" in answer.value
    assert log.restored().add(poison).answer == answer
    [told] = seen
    assert (told.offset, told.epoch, type(told.error)) == (1, 3, TypeError)
    assert log.command(session, 1) == applied(1)


def test_a_result_that_cannot_be_written_is_a_failure_of_apply() -> None:
    class Endless(Counters):
        def apply(self, command: Add, context: Applied) -> Any:
            return float("inf")

    log = Log(Endless())
    assert b"ValueError" in log.command(log.open(), 0).value


@pytest.mark.parametrize("error", OF_THIS_NODE)
def test_what_may_concern_this_node_alone_stops_the_replica(error: type[Exception]) -> None:
    class Unlucky(Counters):
        def apply(self, command: Add, context: Applied) -> int:
            raise error("here")

    log = Log(Unlucky())
    session = log.open()
    with pytest.raises(error, match="here"):
        log.command(session, 0)


def test_what_no_version_writes_is_passed_over() -> None:
    log = Log()
    log.add(TickRecord(7))
    seen: list[NotApplied] = []
    log.replica.on_not_applied = seen.append
    for value in (b"hello", b"\0", b"\1\2short", bytes([1, 3]) + bytes(9)):
        assert log.replica.apply(value, Offset(9), Epoch(3)) is None
    assert [type(one.error) for one in seen] == [ForeignRecordError] * 4
    assert log.replica.time_ms == 7


def test_a_command_that_no_node_reads_can_be_skipped_by_all() -> None:
    log = Log()
    session = log.open()
    poison = CommandRecord(0, session, 0, 0, b"\xff")
    with pytest.raises(DeserializeError, match=r"start all with hold_at=\[1\]"):
        log.add(poison)
    replica = MachineReplica(log.counters, hold_at=[1])
    seen: list[NotApplied] = []
    replica.on_not_applied = seen.append
    replica.apply(encode_log_record(OpenRecord(0, NONCE)), Offset(0), Epoch(3))
    with pytest.raises(HeldError):
        replica.apply(encode_log_record(poison), Offset(1), Epoch(3))
    replica.skips[1] = False
    news = replica.apply(encode_log_record(poison), Offset(1), Epoch(3))
    assert isinstance(news, CommandAnswered)
    assert news.answer == CommandAnswer(CommandVerdict.REJECTED, b"the operator skipped this command")
    assert seen == [NotApplied(1, 3, None)]
    replica.apply(encode_log_record(SkipRecord(0, 1)), Offset(2), Epoch(3))
    # A snapshot says so, and one that is loaded then meets the skip.
    other = MachineReplica(Counters())
    load(other, [*replica.save()])
    assert [*other.save()] == [*replica.save()]
    other.apply(encode_log_record(SkipRecord(0, 1)), Offset(3), Epoch(3))
    # A replica that has applied what others skip must not go on.
    with pytest.raises(ReplicasPartedError, match="skipped the command at offset 1, which this node had applied"):
        log.add(SkipRecord(0, 1))


def test_a_leader_reads_a_command_once_and_refuses_what_it_cannot_read() -> None:
    class Strict(Counters):
        def validate(self, command: Add) -> None:
            if command.amount > 99:
                raise ValueError("too much")

    log = Log(Strict())
    session = log.open()
    serialize = Counters.commands.serialize
    for data in (b"\xff", b"[" * 50_000, b'["Sub",{}]', serialize(Add("x", 100))):
        with pytest.raises(UsageError, match=f"refuses a command of {len(data)} bytes"):
            log.replica.read_ahead([data])
    data = serialize(Add("x", 5))
    log.replica.read_ahead([data, data])
    [kept] = log.replica._read_ahead.values()
    assert log.command(session, 0, 5) == applied(5)
    assert log.replica._read_ahead == {}
    assert kept == Add("x", 5)


def test_commands_that_were_read_ahead_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "READ_AHEAD_MAX", 3)
    log = Log()
    log.replica.read_ahead(Counters.commands.serialize(Add("x", at)) for at in range(5))
    log.replica.read_ahead([Counters.commands.serialize(Add("x" * replicas.READ_AHEAD_BYTES, 1))])
    assert [command.amount for command in log.replica._read_ahead.values()] == [3, 4]


def test_who_waits_hears_from_a_snapshot() -> None:
    log = Log()
    session = log.open(nonce=b"n" * 16)
    log.command(session, 0)
    other = log.restored().replica
    assert [*other.kept_news([], [])] == []
    news = [*other.kept_news([b"n" * 16, b"m" * 16], [(session, 0), (session, 1), (9, 0)])]
    assert news == [SessionOpened(b"n" * 16, session), CommandAnswered(session, 0, applied(1))]


def test_a_snapshot_of_something_else_is_refused() -> None:
    head, state = encode_snapshot_record(TimeRecord(1, 1)), encode_snapshot_record(StateRecord(b"x=1"))
    for values in ([], [state], [head, head], [head, b"x"]):
        with pytest.raises(UnknownRecordError):
            load(Log().replica, values)


def test_sessions_that_end_cost_what_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    sessions = [log.open(time_ms=at * 10, nonce=bytes([at]) * 16) for at in range(100)]
    looked: list[Any] = []
    is_over = MachineReplica._is_over

    def counted(self: MachineReplica[Any, Any], session: Any) -> bool:
        looked.append(session)
        return is_over(self, session)

    monkeypatch.setattr(MachineReplica, "_is_over", counted)
    monkeypatch.setattr(replicas, "SWEPT_MAX", 40)
    log.add(TickRecord(3_000))
    assert (len(looked), log.replica.sessions_count) == (1, 100)
    log.command(sessions[3], 0, time_ms=4_000)
    # All but the one that was used end: at most so many leave at a time, and the oldest first.
    late_ms = SESSION_TIMEOUT_MS + 1_000
    other = log.restored()
    for turn, left in enumerate((60, 20, 1)):
        for one in (log, other):
            one.add(TickRecord(late_ms + turn * SWEEP_INTERVAL_MS))
            assert one.replica.sessions_count == left
    assert log.replica._sessions.keys() == other.replica._sessions.keys() == {sessions[3]}
    assert len(looked) < 250


def test_a_full_replica_forgets_a_session_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "SESSIONS_MAX", 2)
    monkeypatch.setattr(replicas, "SWEPT_MAX", 0)
    log = Log()
    first, second = log.open(), log.open(time_ms=SESSION_TIMEOUT_MS)
    assert log.open(time_ms=SESSION_TIMEOUT_MS + 1, nonce=b"n" * 16) > second
    assert first not in log.replica._sessions
    assert log.add(OpenRecord(SESSION_TIMEOUT_MS + 2, NONCE)) == SessionOpened(NONCE, None)


def test_sessions_of_an_older_snapshot_end_in_the_order_of_their_use() -> None:
    log = Log()
    first, second = log.open(), log.open(time_ms=5)
    log.command(first, 0, time_ms=10)
    assert [*log.replica._sessions] == [second, first]
    head, *others = log.replica.save()
    in_order = sorted(others[:3], key=lambda each: decode_snapshot_record(each).session_id)  # type: ignore[union-attr]
    other = MachineReplica(Counters())
    load(other, [head, *in_order, *others[3:]])
    assert [*other._sessions] == [second, first]
