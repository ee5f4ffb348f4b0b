"""Serdes read what they wrote; an invalid record is rejected before anything is appended."""

import math
from array import array
from collections import ChainMap, UserString
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.client.serde import NESTING_MAX, Serde, bytes_serde, int_serde, json_serde, serialized, text_serde
from pykraft.errors import UsageError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.binary())
def test_bytes_are_bytes(record: bytes) -> None:
    assert bytes_serde.deserialize(bytes_serde.serialize(record)) == record


@given(st.text())
def test_text_is_utf8(record: str) -> None:
    assert text_serde.serialize(record) == record.encode("utf-8")
    assert text_serde.deserialize(text_serde.serialize(record)) == record


@given(JSON)
def test_json_is_compact(record: Any) -> None:
    assert json_serde.deserialize(json_serde.serialize(record)) == record
    assert json_serde.serialize({"ü": [1, 2]}) == '{"ü":[1,2]}'.encode()


def test_json_nests_as_deep_on_every_node() -> None:
    deepest = b"[" * NESTING_MAX + b"]" * NESTING_MAX
    assert json_serde.deserialize(deepest) is not None
    flat = b"[" + b",".join([b'["[[{",{"a]":"\\"[{["}]'] * NESTING_MAX) + b"]"
    assert len(json_serde.deserialize(flat)) == NESTING_MAX
    for data in (b"[" + deepest + b"]", b'{"a":' * 200 + b"1" + b"}" * 200, b"[" * 60_000):
        with pytest.raises(ValueError, match="more than 128 lists and objects within each other"):
            json_serde.deserialize(data)


def test_nothing_is_written_that_nests_too_deep_to_be_read() -> None:
    value: Any = []
    for _ in range(NESTING_MAX - 1):
        value = [value]
    assert json_serde.deserialize(json_serde.serialize(value)) == value
    deep = [value]
    for _ in range(100_000):
        deep = [deep]
    for wrong in ([value], deep):
        with pytest.raises(ValueError, match="more than 128 lists and objects within each other"):
            json_serde.serialize(wrong)


def test_json_of_others_may_have_spaces_and_nothing_else() -> None:
    assert json_serde.deserialize(b" [1] \n") == [1]
    for wrong in (b"", b" ", b"[1] x", b"1 2", b"nul", b"\xff"):
        with pytest.raises(ValueError, match=r"Expecting value|Extra data|decode byte"):
            json_serde.deserialize(wrong)


@pytest.mark.conformance("H46")
@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_take_eight_bytes(record: int) -> None:
    data = int_serde.serialize(record)
    assert (len(data), int_serde.deserialize(data)) == (8, record)


@pytest.mark.parametrize(
    ("serde", "record", "error"),
    [
        (bytes_serde, "text", TypeError),
        (bytes_serde, bytearray(b"a"), TypeError),
        (text_serde, "\ud800", UnicodeEncodeError),
        (text_serde, b"a", TypeError),
        (int_serde, "1", TypeError),
        (json_serde, math.nan, ValueError),
        (json_serde, object(), TypeError),
        (int_serde, 2**63, OverflowError),
    ],
)
def test_what_cannot_be_written_is_the_callers_error(serde: Serde[Any], record: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        serialized(serde, ["fine" if serde is text_serde else record, record])


@pytest.mark.conformance("H46")
@pytest.mark.parametrize(
    ("serde", "data"), [(text_serde, b"\xff"), (json_serde, b"{"), (int_serde, b"1234567"), (int_serde, b"")]
)
def test_what_cannot_be_read_is_an_error(serde: Serde[Any], data: bytes) -> None:
    with pytest.raises(ValueError, match=r"utf-8|Expecting|8 bytes"):
        serde.deserialize(data)


class Put(NamedTuple):
    """A record that can be iterated over, as many can."""

    key: str
    value: int


class Careless:
    """Forgets to encode."""

    def serialize(self, record: str) -> bytes:
        return record  # type: ignore[return-value]

    def deserialize(self, data: bytes) -> str:
        return data.decode()


@pytest.mark.parametrize(
    ("serde", "records", "error", "said"),
    [
        (text_serde, "hello", UsageError, r"\[record\], not a single str"),
        (bytes_serde, b"hello", UsageError, r"\[record\], not a single bytes"),
        (bytes_serde, bytearray(b"hello"), UsageError, r"\[record\], not a single bytearray"),
        (bytes_serde, memoryview(b"hello"), UsageError, r"\[record\], not a single memoryview"),
        (int_serde, array("B", b"hello"), UsageError, r"\[record\], not a single array"),
        (text_serde, UserString("hello"), UsageError, r"\[record\], not a single UserString"),
        (json_serde, {"op": "put", "key": "k"}, UsageError, r"\[record\], not a single dict"),
        (json_serde, ChainMap({"op": "put"}), UsageError, r"\[record\], not a single ChainMap"),
        (json_serde, Put("k", 1), UsageError, r"\[record\], not a single Put"),
        (text_serde, {"a", "b"}, UsageError, "a set has no order"),
        (text_serde, frozenset("ab"), UsageError, "a frozenset has no order"),
        (text_serde, iter(()), UsageError, "at least one record"),
        (text_serde, (letter for letter in ""), UsageError, "at least one record"),
        (text_serde, {}.values(), UsageError, "at least one record"),
        (text_serde, [], UsageError, "at least one record"),
        (text_serde, ["a", ""], UsageError, "at least one byte"),
        (Careless(), ["a"], TypeError, "serialized a record as str"),
        (text_serde, 5, UsageError, "give a list of records"),
    ],
)
def test_what_is_no_list_of_records_is_refused(
    serde: Serde[Any], records: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        serialized(serde, records)


def test_records_may_come_from_anything_that_can_be_iterated() -> None:
    assert serialized(text_serde, (letter for letter in "ab")) == [b"a", b"b"]
    assert serialized(text_serde, ("a", "b")) == [b"a", b"b"]
    assert serialized(int_serde, array("q", [1, 2])) == [int_serde.serialize(1), int_serde.serialize(2)]


def test_an_iterator_that_is_exhausted_appends_nothing_a_second_time() -> None:
    records = iter(["a"])
    assert serialized(text_serde, records) == [b"a"]
    with pytest.raises(UsageError, match="at least one record"):
        serialized(text_serde, records)
