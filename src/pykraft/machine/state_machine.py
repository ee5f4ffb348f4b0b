"""The application's side: a state machine that every node of a quorum runs alike.

Invariant that the application keeps: `StateMachine.apply` depends on the state, the command and the context, and on
nothing else: no clock, no random numbers, no order of a set, no file. Then all replicas have the same state. Commands
that are dataclasses are JSON in the log, ``["Add", {"key": "x", "amount": 1}]``. One with a field of another type than
its annotation says is refused when it is serialized, and again by the leader, so no replica ever sees it.

Source: Raft dissertation §6.3; ours (ADR 068, ADR 151).
"""

import types
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, Final, ForwardRef, Generic, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

from pykraft.client.serde import Serde, check_nesting, from_json, json_serde, nested_little
from pykraft.errors import UsageError
from pykraft.host.metrics import Metric

T = TypeVar("T")
_encode: Final = msgspec.json.Encoder().encode
_encode_ordered: Final = msgspec.json.Encoder(order="deterministic").encode


def encode_ordered(value: object) -> bytes:
    """JSON in which sets and dicts are sorted: replicas must write equal values as equal bytes. Errors: TypeError."""
    try:
        return _encode_ordered(value)
    except TypeError:  # a dict whose keys are no text cannot be sorted as it is
        return _encode_ordered(msgspec.to_builtins(value, str_keys=True, order="deterministic"))


class _Dataclasses:
    def __init__(self, classes: dict[str, type]) -> None:
        self._classes = classes
        self._names = {one: [field.name for field in fields(one)] for one in classes.values()}
        self._decoders: dict[bytes, tuple[str, msgspec.json.Decoder[tuple[str, Any]]]] = {}
        """By the beginning of a command; made late, since annotations may name what is defined later."""
        self._checked: tuple[bytes | None, Any] = None, None
        """What `serialize` made last, and the command as it came back: a leader reads it next."""

    def serialize(self, record: Any) -> bytes:  # noqa: ANN401 - any of the classes
        """Errors: TypeError for another class, and for a field with another type than its annotation says."""
        names = self._names.get(type(record))
        if names is None:
            known = ", ".join(self._classes)
            raise TypeError(f"a command is one of {known} here, not {type(record).__name__}")
        data = _encode((type(record).__name__, record))
        read = self.deserialize_new(data)
        for name in names:
            if getattr(read, name) != getattr(record, name):
                text = "comes back from JSON as something else, such as a tuple as a list: annotate what it is"
                raise TypeError(f"{name} of {record!r} {text}")
        self._checked = data, read
        return data

    def deserialize_new(self, data: bytes) -> Any:  # noqa: ANN401 - as above
        """A command that is not in the log yet. Errors: TypeError or ValueError for a value of another type, too."""
        if data is self._checked[0]:
            _, read = self._checked
            self._checked = None, None  # two state machines must not share it
            return read
        check_nesting(data)
        head = data[: data.find(b'"', 2)]
        named = self._decoders.get(head) or self._decoder(head)
        if named is not None:
            name, decoder = named
            try:
                tagged = decoder.decode(data)
            except msgspec.ValidationError as error:
                raise TypeError(f"{name}: {error}".replace("$[1]", "$")) from error
            # Equal bytes show that there is no field that the class lacks.
            if _encode(tagged) == data:
                return tagged[1]
        # Written by hand or with other fields.
        name, values = _tagged(data)
        one = self._classes[name]
        if unknown := values.keys() - self._names[one]:
            raise TypeError(f"{name} has no field {min(unknown)}")
        try:
            return msgspec.convert(values, one, str_keys=True)
        except msgspec.ValidationError as error:
            raise TypeError(f"{name}: {error}") from error

    def deserialize(self, data: bytes) -> Any:  # noqa: ANN401 - as above
        """Errors: ValueError, TypeError or KeyError for what is none of these commands."""
        try:
            return self.deserialize_new(data)
        except TypeError:
            # Versions that checked no types wrote it, or a class had another annotation then. All replicas have
            # applied it like this, and must again.
            name, values = _tagged(data)
            return self._classes[name](**values)

    def _decoder(self, head: bytes) -> tuple[str, msgspec.json.Decoder[tuple[str, Any]]] | None:
        """The name at the front, if it is that of a class and written as `serialize` does, and what reads the rest."""
        one = self._classes.get(head[2:].decode(errors="replace")) if head[:2] == b'["' else None
        if one is None:
            return None
        decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(tuple[str, one])  # type: ignore[valid-type]
        named = self._decoders[head] = one.__name__, decoder
        return named


def _tagged(data: bytes) -> tuple[str, dict[str, Any]]:
    name, values = from_json(data)
    if not isinstance(values, dict):
        raise TypeError(f"a command has an object of fields, not {type(values).__name__}")
    return name, values


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

    ``session_id`` is -1 where only time has passed, see `StateMachine.elapse`. ``code_version`` is the version on which
    all nodes have agreed, see `StateMachine.code_version`.
    """

    offset: int
    epoch: int
    time_ms: int
    session_id: int
    code_version: int = 0


class StateMachine(ABC, Generic[C, R]):
    """A state that commands of type ``C`` change, each with a result of type ``R``.

    ``commands`` and ``results`` turn them into bytes. By default a command is a dataclass, or a union of dataclasses;
    each field has the type that its annotation says, or the command is refused before it is in the log. Types are those
    that msgspec writes as JSON: containers, enums, times, bytes, dataclasses, and so are results. Other commands are
    values that JSON can express.
    """

    commands: ClassVar[Serde[Any]] = json_serde
    results: ClassVar[Serde[Any]] = json_serde
    snapshot_version: ClassVar[int] = 0
    """Increase it when `snapshot` writes an equal state in another way: only replicas of one version are compared."""
    code_version: ClassVar[int] = 0
    """Increase it with each version of the class that has new commands, or another effect of one: see `version_of`."""

    def __init_subclass__(cls, **others: Any) -> None:  # noqa: ANN401 - passed on to any base
        super().__init_subclass__(**others)
        for base in getattr(cls, "__orig_bases__", ()):
            if get_origin(base) is StateMachine:
                command, result = get_args(base)
                if "commands" not in cls.__dict__ and (classes := _command_classes(cls, command)):
                    cls.commands = dataclass_serde(*classes)
                if "results" not in cls.__dict__ and not _is_json(result):
                    cls.results = _Results(result)

    @abstractmethod
    def apply(self, command: C, context: Applied, /) -> R:
        """Change the state, and return the result.

        CommandRejectedError goes to the caller and to nobody else; change nothing before raising it. Any other
        exception is a bug that every replica has: each logs it, and the caller gets a CommandRejectedError that names
        it. What was changed before stays changed. MemoryError, RecursionError and OSError end the node.
        """

    def metrics(self) -> Mapping[Metric, float]:
        """Measurements for operators, on the program's loop; they are no part of the state."""
        return {}

    def validate(self, command: C, /) -> None:
        """Refuse a command before it is in the log: any exception does. By default none is refused.

        The leader calls it, so another node's command counts as little as that of a stranger; see docs/threat-model.md.
        It must not look at the state, which changes until the command is applied.
        """

    def version_of(self, command: C, /) -> int:
        """The lowest `code_version` that knows this command; by default 0, of which every node knows all.

        It depends on the command alone. A command of a version on which the nodes have not agreed yet waits outside of
        the log, so old and new code may be in one quorum. An effect that is new goes by ``context.code_version``.
        """
        del command
        return 0

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


_JSON_TYPES: Final[frozenset[Any]] = frozenset({str, int, float, bool, None, type(None), Any, object})


class _Results:
    """Results of a type that JSON alone does not give back: dataclasses, enums, tuples, sets, bytes, times."""

    def __init__(self, kind: Any) -> None:  # noqa: ANN401 - whatever an annotation may be
        self._kind = kind
        self._decode: Callable[[bytes], Any] | None = None

    def serialize(self, record: Any) -> bytes:  # noqa: ANN401 - as above
        return nested_little(lambda: encode_ordered(record))

    def deserialize(self, data: bytes) -> Any:  # noqa: ANN401 - as above
        if self._decode is None:  # late, as for commands
            self._decode = msgspec.json.Decoder(self._kind).decode
        return self._decode(data)


def _is_json(kind: Any) -> bool:  # noqa: ANN401 - as above
    """True for a type whose values JSON gives back, and for one that says nothing about them."""
    inner = get_origin(kind) or kind
    if inner is dict and get_args(kind)[:1] not in {(), (str,)}:
        return False  # JSON would make its keys text
    if inner in {Union, types.UnionType, list, dict}:
        return all(map(_is_json, get_args(kind)))
    return inner in {str, int, float, bool, None, type(None), Any, object} or isinstance(
        inner, TypeVar | str | ForwardRef
    )


def _command_classes(cls: type, command: Any) -> tuple[type, ...]:  # noqa: ANN401 - as above
    """The dataclasses that a subclass names as its commands; none when it names others.

    Errors: UsageError for a name in quotes, which says nothing about the class.
    """
    command = getattr(command, "__value__", command)  # `type Command = Add | Remove`
    classes = get_args(command) if get_origin(command) in {Union, types.UnionType} else (command,)
    for one in classes:
        if isinstance(one, str | ForwardRef):
            name = one if isinstance(one, str) else one.__forward_arg__
            text = f"define {name} before {cls.__name__}, and name it without quotes, or set commands to a serde"
            raise UsageError(f"StateMachine[{name!r}, ...]: {text}")
    return classes if all(isinstance(one, type) and is_dataclass(one) for one in classes) else ()
