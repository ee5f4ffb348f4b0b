"""A state machine whose methods are its commands: `replicated` marks them, and `perform` calls one on all nodes.

A marked method becomes a dataclass of its parameters, and the annotated attributes of the class are its state. So calls
are checked by a type checker where they are written, and by `dataclass_serde` before they are in the log. Invariant: a
marked method changes nothing when it is called directly, which would change one replica alone.

Source: ours (ADR 187); the decorator of PySyncObj has the same name.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import field, make_dataclass
from functools import wraps
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar, get_origin, get_type_hints

import msgspec

from pykraft.errors import UsageError
from pykraft.machine.replicated import Replicated
from pykraft.machine.state_machine import Applied, StateMachine, dataclass_serde, encode_ordered

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound="ReplicatedObject")
_MARK: Final = "__pykraft_replicated__"


def replicated(method: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """Make a method of a `ReplicatedObject` a command."""

    @wraps(method)
    def guarded(self: M, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self.context is None:
            name = method.__qualname__
            raise UsageError(f"{name} would change this node alone: await perform(node, {name}, …) changes all")
        return method(self, *args, **kwargs)

    setattr(guarded, _MARK, True)
    return guarded


async def perform(
    node: Replicated[M], method: Callable[Concatenate[M, P], T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a marked method on all replicas, once; returns what it returns: ``perform(node, Counters.add, "x", 1)``.

    Errors: those of `Replicated.execute`; TypeError for arguments of other types.
    """
    machine = node.machine
    command = machine.methods.get(method.__name__)
    if command is None or getattr(type(machine), method.__name__) is not method:
        raise UsageError(f"{method.__qualname__} is no method of {type(machine).__name__} that `replicated` marks")
    values = inspect.signature(method).bind(machine, *args, **kwargs).arguments
    result: tuple[str, T] = await node.execute(command(**dict([*values.items()][1:])))
    return result[1]


class _Returned:
    """Results with the method's name, which says what type they have."""

    def __init__(self, kinds: dict[str, Any]) -> None:
        self._decoders = {name: msgspec.json.Decoder(kind) for name, kind in kinds.items()}

    def serialize(self, record: tuple[str, Any]) -> bytes:
        return encode_ordered(record)

    def deserialize(self, data: bytes) -> Any:  # noqa: ANN401 - whatever a method returns
        name, value = msgspec.json.decode(data, type=tuple[str, msgspec.Raw])
        return name, self._decoders[name].decode(value)


class ReplicatedObject(StateMachine[Any, Any]):
    """A state machine with methods for commands.

    Marked methods obey the rules of `StateMachine.apply`; their parameters and results are annotated with types that
    msgspec writes as JSON. The annotated attributes of the class are its state, each a record of a snapshot; a class
    with a large state writes its own `snapshot` and `restore`.
    """

    methods: ClassVar[dict[str, type]] = {}
    """The command of each marked method."""
    context: Applied | None = None
    """Where the command is in the log, and the log time, while a method is applied."""
    _state: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **others: Any) -> None:  # noqa: ANN401 - passed on to any base
        """Errors: UsageError for a marked method without annotations, and for a class without a state."""
        super().__init_subclass__(**others)
        members: dict[str, Any] = {name: getattr(cls, name, None) for name in dir(cls)}
        marked = {name: one for name, one in members.items() if getattr(one, _MARK, False)}
        hints = {name: get_type_hints(one.__wrapped__, include_extras=True) for name, one in marked.items()}
        cls.methods = {name: _command(one, hints[name]) for name, one in marked.items()}
        cls.commands = dataclass_serde(*cls.methods.values())
        cls.results = _Returned({name: known.get("return", Any) for name, known in hints.items()})
        known = get_type_hints(cls).items() - get_type_hints(ReplicatedObject).items()
        cls._state = {name: kind for name, kind in known if get_origin(kind) is not ClassVar}
        if not cls._state and cls.snapshot is ReplicatedObject.snapshot:
            raise UsageError(f"{cls.__name__} has no state: annotate its attributes, or write snapshot and restore")

    def apply(self, command: Any, context: Applied, /) -> Any:  # noqa: ANN401 - of any method
        name = type(command).__name__
        self.context = context
        try:
            return name, getattr(self, name)(**vars(command))
        finally:
            self.context = None

    def snapshot(self) -> Iterable[bytes]:
        return [encode_ordered((name, getattr(self, name))) for name in sorted(self._state)]

    def restore(self, records: Iterable[bytes], /) -> None:
        for record in records:
            name, value = msgspec.json.decode(record, type=tuple[str, msgspec.Raw])
            setattr(self, name, msgspec.json.decode(value, type=self._state[name]))


def _command(method: Callable[..., Any], hints: dict[str, Any]) -> type:
    fields: list[tuple[str, Any, Any]] = []
    for parameter in [*inspect.signature(method).parameters.values()][1:]:
        is_named = parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}
        if not is_named or parameter.name not in hints:
            raise UsageError(f"{method.__qualname__}: annotate {parameter}, which has a name and a type in the log")
        default = {} if parameter.default is parameter.empty else {"default": parameter.default}
        fields.append((parameter.name, hints[parameter.name], field(kw_only=True, **default)))
    return make_dataclass(method.__name__, fields)
