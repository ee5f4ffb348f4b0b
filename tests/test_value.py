"""Values that are frozen for the type checker only."""

from dataclasses import dataclass, fields, replace

import pytest

from pykraft.core.messages import FetchRequest
from pykraft.core.state import Follower
from pykraft.types import Instant
from pykraft.value import value


@value(frozen=True, slots=True, kw_only=True)
class Made:
    """A value."""

    first: int
    second: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """The same, frozen at run time."""

    first: int
    second: tuple[int, ...] = ()


def test_a_value_compares_hashes_and_shows_itself_as_a_frozen_dataclass_does() -> None:
    made, frozen = Made(first=1, second=(2,)), Frozen(first=1, second=(2,))
    assert made == Made(first=1, second=(2,)) != Made(first=1)
    assert hash(made) == hash(frozen)
    assert repr(made) == repr(frozen).replace("Frozen", "Made")
    assert replace(made, first=3) == Made(first=3, second=(2,))
    assert [field.name for field in fields(Made)] == ["first", "second"]


def test_a_value_has_slots_and_only_named_arguments() -> None:
    assert Made.__slots__ == ("first", "second")
    with pytest.raises(TypeError, match="positional"):
        Made(1)  # type: ignore[call-arg]


def test_a_value_is_declared_frozen() -> None:
    with pytest.raises(AssertionError, match="never changes"):
        value(frozen=False, slots=True)


@pytest.mark.parametrize("kind", [FetchRequest, Follower, Instant])
def test_what_each_step_makes_has_an_ordinary_constructor(kind: type) -> None:
    assert "__setattr__" not in vars(kind)
