"""The base class of state machines finds the serde of its commands."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, cast

import pytest

from pykraft.client import bytes_serde, json_serde
from pykraft.errors import UsageError
from pykraft.machine import Applied, StateMachine, dataclass_serde
from pykraft.machine.replica import MachineReplica


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


def test_two_that_read_one_command_never_share_it() -> None:
    command = Set("a", [1])
    data = SERDE.serialize(command)
    read = [SERDE.deserialize(data) for _ in range(3)]
    assert read == [command] * 3
    assert len({*map(id, [command, *read])}) == 4


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


class Color(Enum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    a: int


@dataclass(frozen=True)
class Typed:
    x: int
    y: tuple[int, ...] = ()
    color: Color = Color.RED
    at: datetime | None = None
    inner: Inner | None = None
    data: bytes = b""
    names: frozenset[str] = frozenset()
    share: float = 1.0
    by_number: dict[int, str] = field(default_factory=dict)


TYPED = dataclass_serde(Typed)


def test_fields_have_the_types_of_their_annotations() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    command = Typed(1, (1, 2), Color.RED, at, Inner(3), b"\xff", frozenset({"a", "b", "c"}), 2.5, {1: "a"})
    read = TYPED.deserialize(TYPED.serialize(command))
    assert (read, type(read.y), type(read.by_number)) == (command, tuple, dict)


@pytest.mark.parametrize(
    "wrong",
    [
        Typed(cast("int", "1")),
        Typed(True),
        Typed(1, cast("tuple[int, ...]", [1])),
        Typed(1, cast("tuple[int, ...]", ("a",))),
        Typed(1, color=cast("Color", "blue")),
        Typed(1, inner=cast("Inner", {"a": 1})),
        Typed(1, inner=Inner(cast("int", "1"))),
        Typed(1, data=cast("bytes", "text")),
        Typed(1, share=float("nan")),
        Typed(1, share=cast("float", "0.5")),
    ],
)
def test_a_field_of_another_type_is_refused_before_the_log(wrong: Typed) -> None:
    with pytest.raises(TypeError):
        TYPED.serialize(wrong)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b'["Typed",{"x":"1"}]', "x"),
        (b' ["Typed",{"x":"1"}]', "x"),
        (b'["Typed",{"x":1,"q":2}]', "no field q"),
        (b'["Typed",{}]', "x"),
        (b'["Typed",[1]]', "object"),
        (b'["Typed"]', "refuses"),
        (b'["Unset",{"key":"x"}]', "Unset"),
        (b'["Typed",{"x":1', "refuses"),
        (b'["Typed",{"by_number":' + b"[" * 200 + b"]" * 200 + b"}]", "200|128"),
        (b'["\xff",{}]', "refuses"),
        (b"", "refuses"),
    ],
)
def test_a_leader_refuses_what_is_no_command_of_these_types(data: bytes, wrong: str) -> None:
    replica = MachineReplica(TypedCommands())
    with pytest.raises(UsageError, match=wrong):
        replica.read_ahead([data])


def test_what_older_versions_wrote_into_the_log_is_read_as_they_read_it() -> None:
    assert TYPED.deserialize(b'["Typed",{"x":"1"}]') == Typed(cast("int", "1"))


class TypedCommands(Nothing, StateMachine[Typed, Inner | None]):
    pass


def test_results_are_dataclasses_where_the_machine_says_so() -> None:
    serde = TypedCommands.results
    assert [serde.deserialize(serde.serialize(each)) for each in (Inner(1), None)] == [Inner(1), None]
    assert OneCommand.results is JsonCommands.results is json_serde


class Sets(Nothing, StateMachine[Put, frozenset[str] | None]):
    pass


def test_a_set_in_a_result_is_written_in_one_order() -> None:
    names = [chr(at) for at in range(97, 122)]
    assert Sets.results.serialize({*names}).startswith(b'["a","b","c"')
    assert Sets.results.serialize({*names}) == Sets.results.serialize({*names[::-1]})


def test_a_command_class_in_quotes_is_refused_where_it_is_written() -> None:
    with pytest.raises(UsageError, match="define Later before Quoted"):

        class Quoted(Nothing, StateMachine["Later", None]):
            pass


@dataclass
class Later:
    key: str


class Tables(Nothing, StateMachine[Put, dict[int, set[int]] | None]):
    pass


def test_keys_of_a_result_that_are_no_text_come_back_and_are_sorted() -> None:
    data = Tables.results.serialize({2: {3, 1}, 1: set()})
    assert data == b'{"1":[],"2":[1,3]}'
    assert Tables.results.deserialize(data) == {1: set(), 2: {1, 3}}
    with pytest.raises(TypeError):
        Tables.results.serialize({1: object()})
