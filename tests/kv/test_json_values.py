"""Values as JSON: what was put comes back, and equal bytes are kept as equal text."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import UsageError
from pykraft.kv.json_values import (
    BINARY_MARK,
    stored_base64,
    stored_text,
    stored_value,
    value_bytes,
    value_json,
)


@given(st.binary() | st.text().map(str.encode) | st.text().map(lambda text: (BINARY_MARK + text).encode()))
def test_bytes_come_back_and_have_one_form(data: bytes) -> None:
    stored = stored_value(data)
    stored.encode()  # it is text that the store takes
    assert value_bytes(stored) == data
    assert stored_base64(base64.b64encode(data).decode()) == stored
    try:
        text = data.decode()
    except UnicodeDecodeError:
        assert value_json(stored) == {"base64": base64.b64encode(data).decode()}
    else:
        assert stored_text(text) == stored
        assert value_json(stored) == {"value": text}


def test_plain_text_is_kept_as_it_is_and_so_is_what_a_program_put() -> None:
    assert stored_value("rød".encode()) == "rød"
    assert value_json(BINARY_MARK + "no base64") == {"value": BINARY_MARK + "no base64"}


@pytest.mark.parametrize("text", ["a", "a===", "ü", "YQ", "Y Q=="])
def test_what_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"base64 = .*: must be base64 with its padding"):
        stored_base64(text)
