"""The application's side: a state machine that every node of a quorum runs alike.

Invariant that the application keeps: `StateMachine.apply` depends on the state, the command and the context, and on
nothing else: no clock, no random numbers, no order of a set, no file. Then all replicas have the same state. Commands
that are dataclasses are JSON in the log, ``["Add", {"key": "x", "amount": 1}]``. One that would come back as something
else, say a tuple as a list, is refused when it is serialized, so no replica ever sees it.

Source: Raft dissertation §6.3; ours (ADR 068).
"""

import json
import types
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar, Union, get_args, get_origin

from pykraft.client.serde import Serde, from_json, json_serde
from pykraft.errors import UsageError

T = TypeVar("T")
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_COMES_BACK_EQUAL: Final = {str, int, bool, float, type(None)}
"""Types whose values JSON gives back as they were."""


class _Dataclasses:
    def __init__(self, classes: dict[str, type]) -> None:
        self._classes = classes
        self._names = {one: [field.name for field in fields(one)] for one in classes.values()}

    def serialize(self, record: Any) -> bytes:  # noqa: ANN401 - any of the classes
        """Errors: TypeError for another class, and for a field that would not come back equal."""
        names = self._names.get(type(record))
        if names is None:
            known = ", ".join(self._classes)
            raise TypeError(f"a command is one of {known} here, not {type(record).__name__}")
        values = {name: getattr(record, name) for name in names}
        tagged = [type(record).__name__, values]
        data = _encode(tagged).encode()
        if not _COMES_BACK_EQUAL.issuperset(map(type, values.values())) and json.loads(data) != tagged:
            raise TypeError(f"{record!r} has a field that JSON gives back as something else, such as a tuple as a list")
        return data

    def deserialize(self, data: bytes) -> Any:  # noqa: ANN401 - as above
        """Errors: ValueError, TypeError or KeyError for what is none of these commands."""
        name, values = from_json(data)
        return self._classes[name](**values)


def dataclass_serde(*classes: type[T]) -> Serde[T]:
    """A serde for these dataclasses, by name; a class that gets another field gives it a default.

    Errors: UsageError for what is not a dataclass, and for two classes of one name.
    """
    by_name: dict[str, type] = {}
    for one in classes:
        if not is_dataclass(one):
            raise UsageError(f"{one!r} is not a dataclass")
        if one.__name__ in by_name:
            raise UsageError(f"two classes are called {one.__name__}: commands are told apart by their names")
        by_name[one.__name__] = one
    return _Dataclasses(by_name)


C = TypeVar("C")
R = TypeVar("R")


class Applied(NamedTuple):
    """Where a command is in the log, and the log time in ms: the same on every replica.

    ``session_id`` is -1 where only time has passed, see `StateMachine.elapse`.
    """

    offset: int
    epoch: int
    time_ms: int
    session_id: int


class StateMachine(ABC, Generic[C, R]):
    """A state that commands of type ``C`` change, each with a result of type ``R``.

    ``commands`` and ``results`` turn them into bytes. By default a command is a dataclass, or a union of dataclasses,
    with fields that JSON can express; other commands, and results, are values that JSON can express.
    """

    commands: ClassVar[Serde[Any]] = json_serde
    results: ClassVar[Serde[Any]] = json_serde
    snapshot_version: ClassVar[int] = 0
    """Increase it when `snapshot` writes an equal state in another way: only replicas of one version are compared."""

    def __init_subclass__(cls, **others: Any) -> None:  # noqa: ANN401 - passed on to any base
        super().__init_subclass__(**others)
        if "commands" not in cls.__dict__ and (classes := _command_classes(cls)):
            cls.commands = dataclass_serde(*classes)

    @abstractmethod
    def apply(self, command: C, context: Applied, /) -> R:
        """Change the state, and return the result.

        CommandRejectedError goes to the caller and to nobody else; change nothing before raising it. Any other
        exception is a bug that every replica has: each logs it, and the caller gets a CommandRejectedError that names
        it. What was changed before stays changed. MemoryError, RecursionError and OSError end the node.
        """

    def validate(self, command: C, /) -> None:
        """Refuse a command before it is in the log: any exception does. By default none is refused.

        The leader calls it, so a command of another node counts as little as that of a stranger; see docs/trust.md. It
        must not look at the state, which changes until the command is applied.
        """

    @abstractmethod
    def snapshot(self) -> Iterable[bytes]:
        """The state as records of any number, each of at most 8 MiB.

        A generator may read the live state: commands wait until the snapshot is written. For a large state copy the
        containers, whose contents do not change, and return `pykraft.client.StableRecords` of a generator over the
        copies: commands go on. A list is stable by itself.
        """

    @abstractmethod
    def restore(self, records: Iterable[bytes], /) -> None:
        """Replace the state by that of a snapshot."""

    async def restore_stream(self, records: AsyncIterator[bytes], /) -> None:
        """Replace the state by that of a snapshot while it is read: override it for a large state.

        Other tasks of the loop run between two pieces of the file; reads of this node wait for the end. By default it
        collects the records for `restore`, so they and the state are in memory together.
        """
        self.restore([record async for record in records])

    def deadline_ms(self) -> int | None:
        """The log time at which `elapse` has something to do; None while time alone changes nothing."""
        return None

    def elapse(self, context: Applied, /) -> None:
        """Change the state because ``context.time_ms`` has reached `deadline_ms`: a lease ends, for example.

        It is called before the first record from that log time on, whatever the record is; the leader writes one if no
        command comes. Afterwards `deadline_ms` must be later, or None.
        """


def _command_classes(cls: type) -> tuple[type, ...]:
    """The dataclasses that a subclass names as its commands; none when it names others."""
    for base in getattr(cls, "__orig_bases__", ()):
        if get_origin(base) is StateMachine:
            command = get_args(base)[0]
            classes = get_args(command) if get_origin(command) in {Union, types.UnionType} else (command,)
            return classes if all(isinstance(one, type) and is_dataclass(one) for one in classes) else ()
    return ()
