"""The state machine of the store: transactions, changes for watches, leases by log time, snapshots, limits."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import CommandRejectedError, UsageError
from pykraft.recipes import (
    Condition,
    Delete,
    Get,
    Item,
    KeyChange,
    Put,
    Transaction,
    TransactionResult,
    key_values,
    value_of,
)
from pykraft.recipes.key_value_commands import Compact, EndLease, GrantLease, KeepLease, KeyValueCommand
from pykraft.recipes.key_values import COMMANDS as SERDE
from pykraft.recipes.key_values import RESULTS, SNAPSHOTS, LeaseState, RecordSerde, StoreHead
from tests.recipes.stores import StoreLog


def test_a_transaction_is_one_change() -> None:
    log = StoreLog()
    result = log.add(Transaction((Put("b", "2"), Put("a", "1"), Get("", ""), Put("b", "3"))))
    assert result == TransactionResult(True, 1, ((),))
    assert log.values.range("", "") == [Item("a", "1", 1, 1, 1), Item("b", "3", 1, 1, 2)]
    result = log.add(Transaction((Delete("a", "c"), Put("c", "4"), Get("a"))))
    assert result == TransactionResult(True, 2, ((Item("a", "1", 1, 1, 1),),), 2)
    assert log.values.get("a") is None
    assert log.values.get("c") == Item("c", "4", 2, 2, 1)
    # What changes nothing has no revision.
    assert log.add(Transaction((Get("c"), Delete("nothing")))).revision == 2


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (Condition("a", "value", "==", "x"), True),
        (Condition("a", "value", "!=", "x"), False),
        (Condition("a", "value", "<", "y"), True),
        (Condition("a", "value", ">", "y"), False),
        (Condition("a", "version", "==", 2), True),
        (Condition("a", "created", "<", 2), True),
        (Condition("a", "modified", ">", 1), True),
        (Condition("a", "lease", "==", 0), True),
        (Condition("none", "value", "==", None), True),
        (Condition("none", "value", "!=", "x"), True),
        (Condition("none", "value", "<", "x"), False),
        (Condition("a", "value", ">", None), False),
        (Condition("none", "version", "==", 0), True),
        (Condition("none", "created", ">", 0), False),
    ],
)
def test_conditions_choose_what_is_carried_out(condition: Condition, holds: bool) -> None:
    log = StoreLog()
    log.put("a", "w")
    log.put("a", "x")
    result = log.add(Transaction((Put("then", ""),), (condition, condition), (Put("otherwise", ""),)))
    assert result.succeeded is holds
    assert log.keys() == ["a", "then" if holds else "otherwise"]
    assert log.values.space.revision == 3


def test_a_numbered_key_has_the_revision() -> None:
    log = StoreLog()
    assert log.add(Transaction((Put("jobs/", "x", numbered=True),))).revision == 1
    assert log.keys() == ["jobs/0000000000000001"]


def test_a_lease_ends_by_log_time_alone_and_takes_its_keys_along() -> None:
    log = StoreLog()
    lease = log.add(GrantLease(5_000), 1_000)
    for key in ("c", "a", "b"):
        log.put(key, "", lease)
    log.put("b")  # without the lease now
    assert log.values.deadline_ms() == 6_000
    log.add(KeepLease(lease), 4_000)
    log.add(Transaction(()), 8_999)
    assert log.keys() == ["a", "b", "c"]
    log.add(Transaction(()), 9_000)
    assert log.keys() == ["b"]
    assert [*log.values.space.kept][-2:] == [KeyChange(5, "a", None), KeyChange(5, "c", None)]
    assert log.values.deadline_ms() is None
    for command in (KeepLease(lease), Transaction((Put("d", "", lease),))):
        with pytest.raises(CommandRejectedError, match=f"lease {lease} has ended, or never was"):
            log.add(command)
    log.add(EndLease(lease))
    assert log.keys() == ["b"]


def test_a_lease_can_be_ended_and_a_deleted_key_leaves_it() -> None:
    log = StoreLog()
    lease = log.add(GrantLease(5_000))
    log.put("a", "", lease)
    log.put("b", "", lease)
    log.add(Transaction((Delete("a"),)))
    log.put("a")
    log.add(EndLease(lease))
    assert log.keys() == ["a"]
    assert log.values.elapse is not None
    log.add(Transaction(()), 10_000)  # its time comes when it is gone
    assert log.keys() == ["a"]


def test_leases_that_end_early_leave_nothing_behind() -> None:
    log = StoreLog()
    kept = log.add(GrantLease(86_400_000))
    for _ in range(1_000):
        log.add(EndLease(log.add(GrantLease(86_400_000))))
    assert len(log.values._expiries) == 1
    assert log.values.deadline_ms() == 86_400_000
    log.add(EndLease(kept))


def test_leases_end_in_one_order_however_a_replica_began() -> None:
    log = StoreLog()
    kept, other = log.add(GrantLease(10_000)), log.add(GrantLease(15_000))
    log.put("kept", "", kept)
    log.put("other", "", other)
    log.add(KeepLease(kept), 9_000)
    twin = log.restored()
    for each in (log, twin):
        each.add(Transaction(()), 30_000)
    assert log.state() == twin.state()
    assert [change.key for change in [*log.values.space.kept][-2:]] == ["other", "kept"]


def test_compaction_keeps_the_keys() -> None:
    log = StoreLog()
    for value in "123":
        log.put("a", value)
    log.add(Compact(3))
    log.add(Compact(2))  # nothing is left to drop
    assert [*log.values.space.kept] == [KeyChange(3, "a", Item("a", "3", 1, 3, 3))]
    assert log.values.space.oldest_revision == 3
    with pytest.raises(CommandRejectedError, match="the store is at revision 3, not yet at 5"):
        log.add(Compact(5))
    log.add(Compact(4))
    assert [*log.values.space.kept] == []


def test_limits_reject_a_transaction_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    log = StoreLog()
    lease = log.add(GrantLease(5_000))
    log.put("a", "x" * 90, lease)
    cases: list[tuple[str, int, KeyValueCommand, str]] = [
        ("KEYS_MAX", 1, Transaction((Put("a", ""), Put("b", ""))), "the store has 1 keys, and may have 1"),
        ("SIZE_BYTES_MAX", 100, Transaction((Put("b", "x" * 10),)), "the store has 91 bytes, and may have 100"),
        ("DELETED_MAX", 1, Transaction((Put("b", "", lease),)), f"lease {lease} has 1 keys"),
        ("DELETED_MAX", 0, Transaction((Put("b", ""), Delete("", ""))), "it deletes 1 keys: at most 0"),
        ("FOUND_SIZE_BYTES_MAX", 90, Transaction((Put("b", ""), Get("a"))), "it finds more than 90 bytes"),
        ("LEASES_MAX", 1, GrantLease(5_000), "1 leases are open"),
    ]
    before = log.state()
    for name, value, command, text in cases:
        with monkeypatch.context() as patch:
            patch.setattr(key_values, name, value)
            with pytest.raises(CommandRejectedError, match=text):
                log.add(command)
        assert log.state() == before


def test_a_full_store_may_overwrite_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    log = StoreLog()
    lease = log.add(GrantLease(5_000))
    log.put("a", "x" * 90, lease)
    for name, value in (("KEYS_MAX", 1), ("SIZE_BYTES_MAX", 91), ("DELETED_MAX", 1)):
        monkeypatch.setattr(key_values, name, value)
    log.add(Transaction((Put("a", "y" * 90, lease), Put("a", "z" * 90, lease))))
    assert log.values.get("a") == Item("a", "z" * 90, 1, 2, 3, lease)
    monkeypatch.setattr(key_values, "KEYS_MAX", 0)  # as after an upgrade to a smaller limit
    monkeypatch.setattr(key_values, "SIZE_BYTES_MAX", 50)
    log.put("a", "y" * 89, lease)
    assert log.values.space.size_bytes == 90


def test_many_keys_of_leases_end_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_values, "ENDED_MAX", 3)
    log = StoreLog()
    leases = [log.add(GrantLease(5_000), 1_000) for _ in range(4)]
    for at, lease in enumerate(leases):
        log.put(f"{at}", "", lease)
    with pytest.raises(CommandRejectedError, match=f"lease {leases[3]} has ended, or never was"):
        log.add(KeepLease(leases[3]), 6_000)
    assert log.keys() == ["2", "3"]
    assert log.values.deadline_ms() == 6_000, "the leader writes the time again at once"
    twin = log.restored()
    for each in (log, twin):
        each.add(Transaction(()))
        assert each.keys() == []
        assert each.values.deadline_ms() is None
    assert log.state() == twin.state()


def test_a_lease_with_many_keys_ends_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_values, "ENDED_MAX", 2)
    log = StoreLog()
    lease = log.add(GrantLease(5_000), 1_000)
    for key in "dbeac":
        log.put(key, "", lease)
    log.add(EndLease(lease))
    assert log.keys() == ["c", "d", "e"]
    assert log.values.deadline_ms() == 1_000
    twin = log.restored()
    for each in (log, twin):
        with pytest.raises(CommandRejectedError, match="has ended, or never was"):
            each.put("f", "", lease)
        assert each.keys() == ["e"]
        each.add(Transaction((Delete("e"), Put("e", ""), Delete("e"))))
        each.add(EndLease(lease))
        assert (each.keys(), each.values.deadline_ms()) == ([], None)
    assert log.state() == twin.state()


KEYS = st.sampled_from(["a", "b", "c", "d"])
ENDS = st.none() | st.just("") | KEYS
LEASES = st.integers(0, 6)
OPERATIONS = st.one_of(
    st.builds(Put, KEYS, st.text(max_size=3), LEASES, st.booleans()),
    st.builds(Delete, KEYS, ENDS),
    st.builds(Get, KEYS, ENDS),
)
CONDITIONS = st.builds(Condition, KEYS, st.just("version"), st.sampled_from(["==", "<", ">"]), st.integers(0, 2))
PARTS: Any = st.lists(
    OPERATIONS, max_size=3, unique_by=lambda one: one.key if isinstance(one, Put) and one.numbered else id(one)
).map(tuple)
COMMANDS = st.one_of(
    st.builds(Transaction, PARTS, st.lists(CONDITIONS, max_size=1).map(tuple), PARTS),
    st.builds(GrantLease, st.integers(1_000, 3_000)),
    st.builds(KeepLease, LEASES),
    st.builds(EndLease, LEASES),
    st.builds(Compact, st.integers(1, 10)),
)


@given(st.lists(st.tuples(COMMANDS, st.integers(0, 1_500)), max_size=30), st.integers(0, 30))
def test_a_replica_from_a_snapshot_stays_the_same(steps: list[tuple[KeyValueCommand, int]], cut: int) -> None:
    logs = [StoreLog()]
    time_ms = 0
    for at, (command, passed_ms) in enumerate(steps):
        if at == cut:
            logs.append(logs[0].restored())
        time_ms += passed_ms
        results = []
        for log in logs:
            try:
                results.append(log.add(command, time_ms))
            except CommandRejectedError as error:
                results.append(str(error))
        assert all(result == results[0] for result in results)
    space = logs[0].values.space
    assert [*space.keys] == sorted(space._items)
    assert all(log.state() == logs[0].state() for log in logs)


ITEM = Item('Get"é', "\n", 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("serde", "record"),
    [
        (SERDE, Transaction((Put("Put", "[]"), Get("a", ""), Delete("b")), (Condition("a", "value", "==", None),))),
        (SERDE, GrantLease(1_000)),
        (SERDE, KeepLease(1)),
        (SERDE, EndLease(1)),
        (SERDE, Compact(1)),
        (RESULTS, TransactionResult(True, 3, ((ITEM, ITEM), ()), 2)),
        (RESULTS, 7),
        (RESULTS, None),
        (SNAPSHOTS, StoreHead(7, 3)),
        (SNAPSHOTS, LeaseState(1, 2, 3)),
        (SNAPSHOTS, ITEM),
        (SNAPSHOTS, KeyChange(1, "a", None)),
        (SNAPSHOTS, KeyChange(1, "a", ITEM)),
    ],
)
def test_a_record_comes_back_equal(serde: RecordSerde, record: object) -> None:
    assert serde.deserialize(serde.serialize(record)) == record


@pytest.mark.parametrize("letter", ["\n", "\0", '"', "é", "\ud7ff"])
def test_a_command_of_any_texts_that_are_allowed_is_as_long_as_they_are(letter: str) -> None:
    value = letter * (32_768 // len(letter.encode()))
    command = Transaction((Put('Put"\n', value), Put("b", "")), (Condition("a", "value", "==", "\0"),), (Get("", ""),))
    data = SERDE.serialize(command)
    assert len(data) < 33_000
    assert SERDE.deserialize(data) == command
    item = Item("a", value, 1, 1, 1)
    for record in (item, KeyChange(1, "a", item)):
        assert SNAPSHOTS.deserialize(SNAPSHOTS.serialize(record)) == record


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5), st.booleans())
def test_both_forms_come_back_equal(texts: list[tuple[str, str]], is_short: bool) -> None:
    serde = RecordSerde(Item, TransactionResult, json_max=1 << 20 if is_short else 0)
    items = tuple(Item(key, value, 1, 2, 3) for key, value in texts)
    result = TransactionResult(True, 7, (items, ()), 2)
    data = serde.serialize(result)
    assert serde.deserialize(data) == result
    if is_short:  # byte for byte as older versions wrote it: replicas compare their answers
        plain = ["TransactionResult", True, 7, [[["Item", *text, 1, 2, 3, 0] for text in texts], []], 2]
        assert data == json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()


def test_what_a_transaction_finds_is_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    log = StoreLog()
    log.put("é", "é" * 10)
    monkeypatch.setattr(key_values, "FOUND_SIZE_BYTES_MAX", 22)
    assert log.add(Transaction((Get("é"),))).found[0][0].key == "é"
    monkeypatch.setattr(key_values, "FOUND_SIZE_BYTES_MAX", 21)
    with pytest.raises(CommandRejectedError, match="it finds more than 21 bytes"):
        log.add(Transaction((Get("é"),)))


def test_the_form_and_what_is_refused() -> None:
    for wrong in (b'["Compact",{}]\0', b'["Compact",{"bytes":"x"}]\0x', b'["Compact",{"bytes":1}]\0\xff'):
        with pytest.raises((ValueError, KeyError, TypeError)):
            SERDE.deserialize(wrong)

    assert SERDE.serialize(Transaction((Put("é", "x"),))) == '["Transaction",[["Put","é","x",0,false]],[],[]]'.encode()
    with pytest.raises(UsageError):
        SERDE.serialize(Transaction((Put("", "x"),)))
    for wrong in (b"[", b'["Unknown"]', b'["Compact"]'):
        with pytest.raises((ValueError, KeyError, TypeError)):
            SERDE.deserialize(wrong)


@given(st.binary(max_size=20) | st.sampled_from([b"\0base64:/w==", b"\0base64:?", "\0base64:é".encode()]))
def test_bytes_are_kept_as_they_are_and_counted_so(data: bytes) -> None:
    log = StoreLog()
    log.add(Transaction((Put("k", value_of(data)),)))
    for replica in (log, log.restored()):
        item = replica.values.get("k")
        assert item is not None
        assert item.data == data
        assert replica.values.space.size_bytes == 1 + len(data)
        same = Condition("k", "value", "==", value_of(data))
        assert replica.add(Transaction((Get("k"),), (same,))) == TransactionResult(True, 1, ((item,),))
    assert log.add(Transaction((Delete("k"),))).deleted == 1
    assert log.values.space.size_bytes == 0


def test_bytes_are_in_the_log_and_in_snapshots_as_older_versions_wrote_them() -> None:
    log = StoreLog()
    command = Transaction((Put("k", value_of(b"\xff\0")),), (Condition("k", "value", "!=", value_of(b"\xfe")),))
    old = (
        b'["Transaction",[["Put","k","\\u0000base64:/wA=",0,false]],'
        b'[["Condition","k","value","!=","\\u0000base64:/g=="]],[]]'
    )
    assert SERDE.serialize(command) == old
    assert SERDE.deserialize(old) == command
    log.add(command)
    assert log.state()[1] == b'["Item","k","\\u0000base64:/wA=",1,1,1,0]'
    # A program could also put a text that only looks like it.
    assert SNAPSHOTS.deserialize(b'["Item","k","\\u0000base64:?",1,1,1,0]').value == "\0base64:?"


def test_bytes_are_compared_as_bytes() -> None:
    log = StoreLog()
    log.put("k", value_of(b"\xf0"))
    for other, is_less in ((b"\xef\xbf\xbd", False), (b"\xf0\x9f\x98\x80", True), (b"", False)):
        less = Condition("k", "value", "<", value_of(other))
        assert log.add(Transaction((), (less,))).succeeded is is_less


def test_metrics_count_keys_leases_watches_and_the_jobs_of_all_queues() -> None:
    log = StoreLog()
    lease = log.add(GrantLease(60_000))
    log.put("a", "é", lease)
    for queue, kinds in (("mail", ("job/1", "job/2", "claim/1", "buried/0", "tries/1")), ("mail2", ("job/3",))):
        for kind in kinds:
            log.put(f"pykraft/queue/{queue}/{kind}")
    log.put("pykraft/queue0")
    log.add(Compact(3))
    watch = log.values.watches.open("a", None, lambda: None)
    found = {metric.name: value for metric, value in log.values.metrics().items()}
    keys = log.keys()
    assert found == {
        "store-keys": 8,
        "store-size-bytes": sum(map(len, keys)) + 2,
        "store-revision": 8,
        "store-oldest-revision": 3,
        "store-leases": 1,
        "store-watches": 1,
        "store-jobs": 3,
        "store-claimed-jobs": 1,
        "store-dead-letters": 1,
    }
    assert [*log.values.metrics()] == [*key_values.STORE_METRICS]
    log.values.watches.close(watch)
