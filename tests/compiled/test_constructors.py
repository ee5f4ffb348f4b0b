"""The source that mypyc gets means the same: here plain Python runs it beside the original."""

import ast
import copy
import dataclasses
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from compiled.constructors import with_constructors
from compiled.modules import compiled_files
from pykraft import value as value_module

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "pykraft"
FILES = compiled_files(PACKAGE)
SOURCE = '''\
"""A module."""

from __future__ import annotations
from dataclasses import dataclass, field

from pykraft.value import value


@value(frozen=True, slots=True, kw_only=True)
class Passed:
    """A value."""

    base: int
    count: int = 1


@dataclass(frozen=True, slots=True, order=True)
class Ordered:
    first: int
    second: str = "b"


@dataclass(slots=True)
class Changing:
    found: list[int] = field(default_factory=list)
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    number: int
    double: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        assert self.number >= 0, "negative"
        object.__setattr__(self, "double", 2 * self.number)


@dataclass(frozen=True, slots=True, eq=False)
class Itself:
    name: str
'''


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The module as it is, and as mypyc gets it. Plain constructors could not make a class that was frozen already."""
    monkeypatch.setattr(value_module, "freeze", lambda *kinds: None)
    made = []
    for name, text in (("plain_twin", SOURCE), ("other_twin", with_constructors(SOURCE))):
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(text, name, "exec"), vars(module))  # noqa: S102 - our own text
        made.append(module)
    return made[0], made[1]


CASES: dict[str, Callable[[Any], object]] = {
    "text": lambda m: [repr(m.Passed(base=1)), repr(m.Ordered(1)), repr(m.Changing()), repr(m.Checked(number=3))],
    "equal": lambda m: [
        m.Passed(base=1) == m.Passed(base=1),
        m.Ordered(1) == m.Ordered(2),
        m.Itself("a") == m.Itself("a"),
    ],
    "unlike": lambda m: m.Passed(base=1) == m.Ordered(1),
    "hash": lambda m: [hash(m.Passed(base=1, count=2)), hash(m.Ordered(1)), hash(m.Checked(number=3))],
    "order": lambda m: [each.first for each in sorted([m.Ordered(2), m.Ordered(1)])],
    "derived": lambda m: m.Checked(number=4).double,
    "factory": lambda m: (m.Changing().found is m.Changing().found, m.Changing([1]).found),
    "replace": lambda m: [
        repr(dataclasses.replace(m.Passed(base=1), count=9)),
        dataclasses.replace(m.Ordered(1), first=2).first,
    ],
    "fields": lambda m: [each.name for kind in (m.Passed, m.Checked) for each in dataclasses.fields(kind)],
    "copy": lambda m: copy.copy(m.Passed(base=1)) == m.Passed(base=1),
    "pickle": lambda m: pickle.loads(pickle.dumps(m.Checked(number=5))).double,  # noqa: S301 - our own bytes
    "match": lambda m: m.Ordered.__match_args__,
}
ERRORS: dict[str, Callable[[Any], object]] = {
    "by position": lambda m: m.Passed(1),
    "unknown": lambda m: m.Ordered(1, third=3),
    "missing": lambda m: m.Ordered(),
    "refused": lambda m: m.Checked(number=-1),
    "no hash": lambda m: hash(m.Changing()),
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_the_original(case: str, twins: tuple[Any, Any]) -> None:
    plain, other = twins
    assert CASES[case](plain) == CASES[case](other)


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_those_of_the_original(case: str, twins: tuple[Any, Any]) -> None:
    raised = []
    for module in twins:
        with pytest.raises((TypeError, AssertionError)) as caught:
            ERRORS[case](module)
        raised.append(type(caught.value))
    assert raised[0] is raised[1]


def test_a_frozen_class_refuses_changes_at_run_time() -> None:
    class Plain:
        number = 1

    value_module.freeze(Plain)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'number' of Plain"):
        Plain().number = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del Plain().number


def test_frozen_are_the_dataclasses_that_say_so_and_no_values() -> None:
    called = [line for line in with_constructors(SOURCE).split("\n") if line.startswith("freeze(")]
    assert called == ["freeze(Ordered)", "freeze(Checked)", "freeze(Itself)"]


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(PACKAGE)) for file in FILES])
def test_every_line_stays_where_it_was(file: Path) -> None:
    before = file.read_text(encoding="utf-8")
    after = with_constructors(before)
    ast.parse(after)
    old, new = before.split("\n"), after.split("\n")
    moved = [(line, other) for line, other in zip(old, new, strict=False) if line != other and line.strip()]
    others = [other for line, other in moved if not line.lstrip().startswith(("@value(", "@dataclass("))]
    assert ["; from dataclasses import dataclass; " in line for line in others] in ([], [True])


def test_a_module_without_dataclasses_stays_as_it_is() -> None:
    text = "def double(number: int) -> int:\n    return 2 * number\n"
    assert with_constructors(text) == text
