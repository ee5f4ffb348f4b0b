"""Methods as commands: types, defaults, results and the state, and no way to change one replica alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pykraft.errors import CommandRejectedError, UsageError
from pykraft.machine import Replicated, ReplicatedObject, perform, replicated
from pykraft.machine.testing import simulate
from tests.client.nodes import alone, config_of, voters_of

ANY: Any = None


@dataclass(frozen=True)
class Place:
    room: str
    seats: set[int]


class Hall(ReplicatedObject):
    LIMIT: ClassVar[int] = 10
    taken: dict[int, str]
    places: dict[str, Place]

    def __init__(self) -> None:
        self.taken = {}
        self.places = {}

    @replicated
    def take(self, seat: int, name: str = "nobody", *, room: str = "blue") -> Place:
        if seat > self.LIMIT:
            raise CommandRejectedError(f"there are {self.LIMIT} seats")
        self.taken[seat] = name
        return self.add(room, {seat})

    @replicated
    def add(self, room: str, seats: set[int]) -> Place:
        known = self.places.get(room, Place(room, set()))
        self.places[room] = Place(room, known.seats | seats)
        return self.places[room]

    @replicated
    def offset(self) -> int:
        assert self.context is not None
        return self.context.offset

    @replicated
    def clear(self) -> None:
        self.taken.clear()


async def test_a_method_is_applied_on_all_nodes_and_returns_its_type(tmp_path: Path) -> None:
    nodes = [Replicated(config_of(tmp_path, at), Hall()) for at in (1, 2)]
    for node in nodes:
        await node.bind()
    for node in nodes:
        await node.initialize(voters_of([each.node for each in nodes]))
    first, second = nodes
    async with first, second:
        place = await perform(first, Hall.take, 3, room="red")
        assert place.seats == {3}
        assert await perform(second, Hall.add, "red", seats={1}) == Place("red", {1, 3})
        assert await perform(first, Hall.clear) is None  # type: ignore[func-returns-value]
        assert await perform(second, Hall.take, 2, "Ann") == Place("blue", {2})
        assert await perform(second, Hall.offset) > 3
        for node in nodes:
            async with node.read() as state:
                assert (state.taken, state.places["red"]) == ({2: "Ann"}, Place("red", {1, 3}))
                assert state.context is None
        with pytest.raises(CommandRejectedError, match="there are 10 seats"):
            await perform(first, Hall.take, 11)


async def test_what_would_change_one_replica_alone_is_refused(tmp_path: Path) -> None:
    async with Replicated(alone(tmp_path), Hall()) as node:
        with pytest.raises(UsageError, match=r"Hall.take would change this node alone: await perform\(node, Hall.take"):
            node.machine.take(1)
        with pytest.raises(TypeError, match="seat"):
            await perform(node, Hall.take, "1")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="missing a required argument: 'seat'"):
            await perform(node, Hall.take)  # type: ignore[call-arg]
        for other in (Hall.snapshot, Stack.push):
            with pytest.raises(UsageError, match="is no method of Hall that `replicated` marks"):
                await perform(node, other)  # type: ignore[arg-type]
        assert (node.machine.taken, node.machine.places) == ({}, {})


class Stack(ReplicatedObject):
    values: list[int]

    def __init__(self) -> None:
        self.values = []

    @replicated
    def push(self, value: int) -> int:
        self.values.append(value)
        return len(self.values)


def test_the_state_is_what_is_annotated() -> None:
    hall = Hall()
    hall.taken, hall.places = {2: "Ann", 1: "Bob"}, {"red": Place("red", {3, 1})}
    records = [*hall.snapshot()]
    assert records == [b'["places",{"red":{"room":"red","seats":[1,3]}}]', b'["taken",{"1":"Bob","2":"Ann"}]']
    other = Hall()
    other.restore(records)
    assert (other.taken, other.places) == (hall.taken, hall.places)


def test_a_class_says_what_it_lacks() -> None:
    with pytest.raises(UsageError, match="Empty has no state: annotate its attributes"):
        type("Empty", (ReplicatedObject,), {})

    def unknown(self: Any, key) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        del self, key

    def many(self: Any, *keys: int) -> None:
        del self, keys

    for method, told in ((unknown, "annotate key"), (many, r"annotate \*keys: int")):
        with pytest.raises(UsageError, match=told):
            type("Wrong", (ReplicatedObject,), {"call": replicated(method), "__annotations__": {"state": int}})


@pytest.mark.sim
def test_methods_in_simulated_worlds() -> None:
    simulate(Stack, lambda random: Stack.methods["push"](value=random.randrange(9)), seeds=range(2))
