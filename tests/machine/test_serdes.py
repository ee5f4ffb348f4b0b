"""Commands that are dataclasses: what goes in comes back equal, or is refused at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from pykraft.errors import UsageError
from pykraft.machine import dataclass_serde


@dataclass
class Put:
    key: str
    value: Any = None


@dataclass
class Delete:
    key: str


SERDE = dataclass_serde(Put, Delete)


def test_a_command_comes_back_equal() -> None:
    for command in (Put("a", [1, {"b": None}]), Delete("ä"), Put("c")):
        assert SERDE.deserialize(SERDE.serialize(command)) == command
    assert SERDE.serialize(Delete("x")) == b'["Delete",{"key":"x"}]'


def test_a_field_that_an_older_command_lacks_has_its_default() -> None:
    assert SERDE.deserialize(b'["Put",{"key":"x"}]') == Put("x", None)


@pytest.mark.parametrize("wrong", [Put("a", (1, 2)), Put("a", {1: 2}), Put("a", {1}), Put("a", float("nan")), "text"])
def test_a_command_that_would_come_back_otherwise_is_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        SERDE.serialize(wrong)


def test_only_dataclasses_with_names_of_their_own() -> None:
    with pytest.raises(UsageError, match="is not a dataclass"):
        dataclass_serde(int)
    with pytest.raises(UsageError, match="two classes are called Put"):
        dataclass_serde(Put, Put)
