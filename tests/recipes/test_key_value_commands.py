"""What a caller may ask: everything else is the caller's error, before it reaches the log."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import UsageError
from pykraft.recipes import Condition, Delete, Get, Put, Transaction, prefix
from pykraft.recipes.key_space import is_in
from pykraft.recipes.key_value_commands import Compact, EndLease, GrantLease, KeepLease, check_command, check_range

ANY: Any = None
NUMBER: Any = 3


def of(*operations: Any) -> Transaction:
    return Transaction(operations)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("put", "'put' is not a command of the key-value store"),
        (of(*[Get("a")] * 129), "a transaction has tuples of at most 128"),
        (Transaction(ANY), "a transaction has tuples"),
        (of("put"), "'put' is not an operation"),
        (of(Put("", "x")), "key of 0 bytes: must have 1 to 1024"),
        (of(Put("é" * 513, "x")), "key of 1026 bytes: must have 1 to 1024"),
        (of(Put("k" * 1_009, "x", numbered=True)), "key of 1009 bytes: must have 1 to 1008"),
        (of(Put("k", "x" * 32_769)), "value of 32769 bytes: must have 0 to 32768"),
        (of(Put("k", "\ud800")), "must be text that UTF-8 can express"),
        (of(Put("k", "\udcc3\udca9")), "must have bytes as value_of makes them"),
        (of(Put("k", "\udcff" * 32_769)), "value of 32769 bytes: must have 0 to 32768"),
        (of(Put("\udcff", "")), "must be text that UTF-8 can express"),
        (Transaction((), (Condition("a", "value", "==", "\ud800"),)), "must be text that UTF-8 can express"),
        (of(Put("k", ANY)), "value = None: must be text"),
        (of(Put("k", "", -1)), "lease = -1"),
        (of(Put("k", "", 0, ANY)), "numbered = None: must be True or False"),
        (of(Put("k/", "", numbered=True), Put("k/", "x", numbered=True)), "'k/' is numbered twice"),
        (Transaction((), (), (Put("k/", "", numbered=True),) * 2), "'k/' is numbered twice"),
        (of(*[Get("a", "")] * 11), "its operations get up to 11000 items: at most 10000, so"),
        (of(*[Get("a", "")] * 3, Delete("a", "")), "get up to 3000 items: at most 2000 beside a Delete of a range"),
        (of(Get("", None)), "key of 0 bytes"),
        (of(Get("a", "", 0)), "limit = 0: it is a whole number from 1 to 1000"),
        (of(Delete("a", NUMBER)), "end = 3: must be text"),
        (Transaction((), (Condition("a", ANY, "==", 1),)), "field = None: must be value, created"),
        (Transaction((), (Condition("a", "value", ANY, "x"),)), "operator = None: must be ==, !=, < or >"),
        (Transaction((), (Condition("a", "value", "==", 1),)), "operand = 1: must be text"),
        (Transaction((), (Condition("a", "version", "==", "1"),)), "operand = '1': it is a whole number"),
        (Transaction((), (ANY,)), "None is not a condition"),
        (GrantLease(999), "ttl_ms = 999: it is a whole number from 1000 to 86400000"),
        (KeepLease(-1), "lease = -1"),
        (EndLease(ANY), "lease = None"),
        (Compact(0), "revision = 0"),
    ],
)
def test_what_is_not_allowed(command: Any, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_command(command)
    assert text in str(caught.value)


def test_what_is_allowed() -> None:
    for operation in (Put("k" * 1_024, "x" * 32_768), Put("k", "", 7), Get("", ""), Delete("", "x"), Get("a", "b", 1)):
        check_command(of(operation))
    check_command(Transaction((), (Condition("a", "value", "==", None), Condition("a", "lease", ">", 0))))
    for command in (GrantLease(1_000), KeepLease(0), EndLease(3), Compact(1)):
        check_command(command)
    check_range("", "")


TEXTS = st.text(st.sampled_from("ab\ud7ff\ue000\U0010ffff"), max_size=3)


@given(TEXTS, TEXTS)
def test_the_range_of_a_prefix_has_what_begins_with_it(text: str, key: str) -> None:
    assert is_in(key, *prefix(text)) == key.startswith(text)


def test_prefixes() -> None:
    assert prefix("jobs/") == ("jobs/", "jobs0")
    assert prefix("a\ud7ff") == ("a\ud7ff", "a\ue000")
    assert prefix("a\U0010ffff") == ("a\U0010ffff", "b")
    assert prefix("\U0010ffff") == ("\U0010ffff", "")
