"""Commands, results and records of snapshots come back equal."""

from __future__ import annotations

import pytest

from pykraft.errors import UsageError
from pykraft.recipes import Condition, Delete, Get, Item, KeyChange, Put, Transaction, TransactionResult
from pykraft.recipes.key_value_commands import Compact, EndLease, GrantLease, KeepLease
from pykraft.recipes.key_values import COMMANDS, RESULTS, SNAPSHOTS, LeaseState, RecordSerde, StoreHead

ITEM = Item('Get"é', "\n", 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("serde", "record"),
    [
        (COMMANDS, Transaction((Put("Put", "[]"), Get("a", ""), Delete("b")), (Condition("a", "value", "==", None),))),
        (COMMANDS, GrantLease(1_000)),
        (COMMANDS, KeepLease(1)),
        (COMMANDS, EndLease(1)),
        (COMMANDS, Compact(1)),
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


def test_the_form_and_what_is_refused() -> None:
    assert (
        COMMANDS.serialize(Transaction((Put("é", "x"),))) == '["Transaction",[["Put","é","x",0,false]],[],[]]'.encode()
    )
    with pytest.raises(UsageError):
        COMMANDS.serialize(Transaction((Put("", "x"),)))
    for wrong in (b"[", b'["Unknown"]', b'["Compact"]'):
        with pytest.raises((ValueError, KeyError, TypeError)):
            COMMANDS.deserialize(wrong)
