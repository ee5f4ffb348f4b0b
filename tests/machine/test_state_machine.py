"""The base class of state machines finds the serde of its commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pykraft.client import bytes_serde, json_serde
from pykraft.machine import Applied, StateMachine


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
