"""The base class of state machines finds the serde of its commands."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from pykraft.client import bytes_serde, json_serde
from pykraft.errors import UsageError
from pykraft.machine import Applied, StateMachine, dataclass_serde


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
