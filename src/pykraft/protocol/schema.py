"""The tables that describe Kafka's messages: the fields of a message, their kinds, and the versions that have them.

A table is data, written once per RPC with all versions in one, and never used at run time: `reader` and `writer` turn
each (message, version) into a function, whose text `FunctionSource` holds while it is written. It depends only on the
tables, never on a peer or a file. Invariant: names are unique within a struct, and so are tags.

Versions are written as in Kafka's message definitions: ``"0"``, ``"0-14"``, ``"7+"``.

`body_json` gives a body as Kafka's tools print it, with the names, order and values of Kafka's converter for the
version that was read: a field that the version lacks is absent, and so is a tagged one that has its default; a uuid is
its 22 letters in base64url, bytes are base64; a number that JSON lacks is a string (``NaN``, ``Infinity``).

Source: Kafka's message definitions (clients ``common/message/*.json``) and their README; KIP-482; Kafka's
``JsonConverterGenerator``; Jackson's ``DoubleNode``.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

from pykraft.types import Uuid, uuid_text


class FunctionSource:
    """Lines of a function, its constants and its local names."""

    def __init__(self, signature: str) -> None:
        self._lines = [f"def {signature}:"]
        self._depth = 1
        self._constants: dict[str, object] = {}
        self._locals = 0

    def line(self, text: str) -> None:
        """Add one line at the current indentation."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add ``head``; lines added within the block are indented below it."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self) -> str:
        """A local name not used before."""
        self._locals += 1
        return f"v{self._locals}"

    def constant(self, value: object) -> str:
        """The name of a new global of the function with this value."""
        name = f"K{len(self._constants)}"
        self._constants[name] = value
        return name

    def build(self, name: str, origin: str, names: dict[str, object]) -> Callable[..., Any]:
        """Compile the lines; ``names`` are further globals, ``origin`` appears in tracebacks.

        The first line must define ``name``.
        """
        scope = {**names, **self._constants}
        exec(compile("\n".join(self._lines), f"<{origin}>", "exec"), scope)  # noqa: S102 (own tables, no foreign input)
        function = scope[name]
        assert callable(function)
        return function


Body: TypeAlias = dict[str, Any]
"""A struct of a message as a plain dict, by snake_case names; a uuid is 16 bytes, records are a Buffer."""

ARRAY_COUNT_MAX: Final = 1_000_000
"""Most elements of any array, as in Kafka 4.4; `Array.count_max` is lower where a message needs fewer."""

_SIZES_BYTES = {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "q": 8, "d": 8, "16s": 16}


class Kind(Enum):
    """The kind of a single value; fixed-size kinds have their `struct` format as value."""

    BOOL = "?"
    INT8 = "b"
    INT16 = "h"
    UINT16 = "H"
    INT32 = "i"
    INT64 = "q"
    FLOAT64 = "d"
    UUID = "16s"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"

    @property
    def size_bytes(self) -> int | None:
        """Size of every value, or None when it varies."""
        return _SIZES_BYTES.get(self.value)


BOOL = Kind.BOOL
INT8 = Kind.INT8
INT16 = Kind.INT16
UINT16 = Kind.UINT16
INT32 = Kind.INT32
INT64 = Kind.INT64
FLOAT64 = Kind.FLOAT64
UUID = Kind.UUID
STRING = Kind.STRING
BYTES = Kind.BYTES
RECORDS = Kind.RECORDS

_IMPLICIT_DEFAULTS: dict[Kind, object] = {
    BOOL: False,
    INT8: 0,
    INT16: 0,
    UINT16: 0,
    INT32: 0,
    INT64: 0,
    FLOAT64: 0.0,
    UUID: bytes(16),
    STRING: "",
    BYTES: b"",
    RECORDS: b"",
}


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends inclusive."""

    min: int
    max: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read ``"3"``, ``"3-5"`` or ``"3+"``."""
        first, dash, last = text.rstrip("+").partition("-")
        if text.endswith("+"):
            return cls(int(first), 2**15 - 1)
        return cls(int(first), int(last if dash else first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.min <= version <= self.max

    def __str__(self) -> str:
        return f"{self.min}-{self.max}"


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """Fields in wire order; tagged ones may be anywhere."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        names = [one.name for one in self.fields]
        assert len(set(names)) == len(names), f"a name is used twice: {names}"
        tags = [one.tag for one in self.fields if one.tag is not None]
        assert len(set(tags)) == len(tags), f"a tag is used twice: {tags}"


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """Elements, at most ``count_max`` of them: more are refused before any is made.

    An element of a few bytes becomes a dict of hundreds, so an unbounded array would cost us far more than its sender.
    """

    of: Kind | Struct
    count_max: int = ARRAY_COUNT_MAX


_UNSET = object()


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field: name, kind, versions that have it, and its default.

    ``ignorable``: silently dropped in a version that lacks it; otherwise only the default may be dropped. ``tag``: sent
    as a tagged field, and only if it differs from its default. A ``nullable`` field may be null from version
    ``null_from`` on.
    """

    name: str
    kind: Kind | Struct | Array
    versions: str = "0+"
    default: Any = _UNSET
    nullable: bool = False
    ignorable: bool = False
    tag: int | None = None
    null_from: int = 0
    present: Versions = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "present", Versions.parse(self.versions))
        if self.default is _UNSET:
            object.__setattr__(self, "default", self._implicit_default())
        assert self.nullable or self.default is not None, f"{self.name}: None is not among its values"

    def _implicit_default(self) -> object:
        if isinstance(self.kind, Kind):
            return _IMPLICIT_DEFAULTS[self.kind]
        if isinstance(self.kind, Array):
            return []
        return {one.name: one.default for one in self.kind.fields}

    def may_be_null(self, version: int) -> bool:
        """True when None is a value of this field in this version."""
        return self.nullable and version >= self.null_from

    def default_source(self) -> str:
        """Python source of the default; evaluating it makes a new list or dict each time."""
        return repr(self.default)


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A request or a response in all its versions."""

    name: str
    versions: Versions
    flexible: Versions
    body: Struct

    @classmethod
    def of(cls, name: str, versions: str, flexible: str, *fields: Field) -> Message:
        """Build a table; ``versions`` are those that we support, ``flexible`` those with compact types and tags."""
        return cls(name, Versions.parse(versions), Versions.parse(flexible), Struct(fields))


def array_of(
    name: str,
    *fields: Field,
    versions: str = "0+",
    nullable: bool = False,
    ignorable: bool = False,
    tag: int | None = None,
    null_from: int = 0,
    count_max: int = ARRAY_COUNT_MAX,
) -> Field:
    kind = Array(Struct(fields), count_max)
    return Field(name, kind, versions, nullable=nullable, ignorable=ignorable, tag=tag, null_from=null_from)


def struct_of(
    name: str, *fields: Field, versions: str = "0+", ignorable: bool = False, tag: int | None = None
) -> Field:
    return Field(name, Struct(fields), versions, ignorable=ignorable, tag=tag)


def optional_struct(name: str, *fields: Field, versions: str = "0+") -> Field:
    """A field that is a struct or null, by default null; a byte before it tells which."""
    return Field(name, Struct(fields), versions, default=None, nullable=True)


def fields_of(struct: Struct, version: int) -> Iterator[Field]:
    """Fields of this version that are not tagged, in wire order."""
    return (one for one in struct.fields if version in one.present and one.tag is None)


def tagged_fields_of(struct: Struct, version: int) -> list[Field]:
    """Tagged fields of this version, in tag order."""
    found = [(one.tag, one) for one in struct.fields if version in one.present and one.tag is not None]
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def size_bytes_min(kind: Kind | Struct | Array, version: int, *, flexible: bool) -> int:
    """Fewest bytes that one value takes on the wire."""
    match kind:
        case Kind(size_bytes=int(size_bytes)):
            return size_bytes
        case Struct():
            total = sum(size_bytes_min(one.kind, version, flexible=flexible) for one in fields_of(kind, version))
            return total + flexible
        case _:
            return 1 if flexible else 2 if kind is STRING else 4


_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def body_json(schema: Struct, body: Body, version: int) -> dict[str, Any]:
    """The fields of this version, under Kafka's names and in the order of the table."""
    return {
        camel_case(one.name): _value_json(one.kind, body[one.name], version)
        for one in schema.fields
        if version in one.present and (one.tag is None or body[one.name] != one.default)
    }


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def snake_case(name: str) -> str:
    """Our name of Kafka's field or message."""
    return _WORD_START.sub("_", name).lower()


def _value_json(kind: Kind | Array | Struct, value: object, version: int) -> object:
    match kind, value:
        case Struct(), dict():
            return body_json(kind, value, version)
        case Array(of), list():
            return [_value_json(of, one, version) for one in value]
        case Kind.UUID, bytes():
            return uuid_text(Uuid(value))
        case Kind.BYTES, bytes():
            return base64.b64encode(value).decode("ascii")
        case Kind.FLOAT64, float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
