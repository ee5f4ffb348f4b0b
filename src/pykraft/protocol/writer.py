"""Generates the function that writes one version of one message.

The function is ``write(body, head) -> buffers``: ``head`` has the bytes to put in front (the header), and the buffers
together are the message. Records of at least `BY_REFERENCE_SIZE_BYTES_MIN` bytes are passed on without a copy;
everything else is joined. Invariants of the code: an absent key takes its default. A tagged field is written only if it
differs from its default. Tags ascend, including unknown ones (`primitives.UNKNOWN_TAGS`). A field that the version
lacks is dropped if it is ignorable; otherwise any value but the default is a `ProtocolError` with UNSUPPORTED_VERSION.
A key that no version has, or a value that does not fit, is our own bug: AssertionError.

Source: Kafka protocol guide; KIP-482; the ``ignorable`` rule of Kafka's message definitions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol import primitives
from pykraft.protocol.primitives import UNKNOWN_TAGS
from pykraft.protocol.schema import (
    BYTES,
    RECORDS,
    STRING,
    UUID,
    Array,
    Body,
    Field,
    FunctionSource,
    Kind,
    Message,
    Struct,
    fields_of,
    tagged_fields_of,
)
from pykraft.types import Buffer

BY_REFERENCE_SIZE_BYTES_MIN = 512
"""Records from this size on are not copied; for smaller ones another buffer costs more than the copy."""

ABSENT, PRESENT = b"\xff", b"\1"
"""The byte before a struct that may be null."""

Write: TypeAlias = Callable[[Body, bytes], list[Buffer]]


def compile_writer(message: Message, version: int) -> Write:
    assert version in message.versions, f"{message.name} has no version {version}"
    return _WriterSource(message, version).build()


def _unsupported(message: str, version: int, path: str) -> ProtocolError:
    """The error for a value that this version cannot carry."""
    text = f"{message} v{version} has no field {path}, and its value is not the default"
    return ProtocolError(text, ErrorCode.UNSUPPORTED_VERSION)


def _add_records(records: Buffer | Sequence[Buffer], out: list[Buffer], done: list[Buffer], size: _Size) -> None:
    """Write records, given as one buffer or several; large ones by reference."""
    parts = (records,) if isinstance(records, bytes | bytearray | memoryview) else records
    out.append(size(sum(map(len, parts))))
    for part in parts:
        if len(part) < BY_REFERENCE_SIZE_BYTES_MIN:
            out.append(part)
        else:
            done += _joined(out)
            done.append(part)
            out.clear()


def _finish(out: list[Buffer], done: list[Buffer]) -> list[Buffer]:
    return done + _joined(out)


def _joined(out: list[Buffer]) -> list[Buffer]:
    return [b"".join(out)] if out else []


_Size: TypeAlias = Callable[[int], bytes]

_NAMES: dict[str, object] = {
    "string": primitives.encode_string,
    "compact_string": primitives.encode_compact_string,
    "size": primitives.encode_size,
    "compact_size": primitives.encode_compact_size,
    "encode_tags": primitives.encode_tags,
    "pack": struct.pack,
    "add_records": _add_records,
    "finish": _finish,
    "unsupported": _unsupported,
}


class _WriterSource:
    """Writes the function; ``of`` is the local name of the current dict, ``get_{of}`` its ``get``."""

    def __init__(self, message: Message, version: int) -> None:
        self._message = message
        self._version = version
        self._flexible = version in message.flexible
        self._source = FunctionSource("write(body, head)")
        self._size = "compact_size" if self._flexible else "size"
        self._absent = b"\0" if self._flexible else b"\xff\xff\xff\xff"
        self._null_string = b"\0" if self._flexible else b"\xff\xff"

    def build(self) -> Write:
        has_records = _has_records(self._message.body)
        self._source.line("out = [head]")
        self._source.line("add = out.append")
        if has_records:
            self._source.line("done = []")
        self._struct(self._message.body, "body", "")
        self._source.line("return finish(out, done)" if has_records else "return [b''.join(out)]")
        return self._source.build("write", f"write {self._message.name} v{self._version}", _NAMES)

    def _struct(self, schema: Struct, of: str, path: str) -> None:
        names = self._source.constant({one.name for one in schema.fields} | {UNKNOWN_TAGS})
        where = f"{self._message.name} {path}".rstrip()
        self._source.line(f"assert {of}.keys() <= {names}, f'{where}: unknown keys {{{of}.keys() - {names}}}'")
        self._source.line(f"get_{of} = {of}.get")
        for one in schema.fields:
            # A version that lacks the field must not silently lose its value.
            if self._version not in one.present and not one.ignorable:
                with self._source.block(f"if {_differs(one, of)}:"):
                    arguments = (self._message.name, self._version, _join(path, one.name))
                    self._source.line(f"raise unsupported{arguments}")
        run: list[Field] = []
        for one in fields_of(schema, self._version):
            if isinstance(one.kind, Kind) and one.kind.size_bytes is not None:
                run.append(one)
            else:
                self._run(run, of)
                run = []
                self._value(one, of, _join(path, one.name))
        self._run(run, of)
        if self._flexible:
            self._tagged(schema, of, path)

    def _run(self, run: list[Field], of: str) -> None:
        """Pack neighboring fixed-size fields at once."""
        if not run:
            return
        layout = struct.Struct(">" + "".join(one.kind.value for one in run if isinstance(one.kind, Kind)))
        values = [_get(one, of) for one in run]
        for index, one in enumerate(run):
            if one.kind is UUID:  # struct would silently pad or cut it
                name = self._source.fresh()
                self._source.line(f"{name} = {values[index]}")
                self._source.line(f"assert len({name}) == 16, 'the uuid {one.name} has not 16 bytes'")
                values[index] = name
        self._source.line(f"add({self._source.constant(layout.pack)}({', '.join(values)}))")

    def _value(self, one: Field, of: str, path: str) -> None:
        if isinstance(one.kind, Kind) and one.kind.size_bytes is not None:
            self._run([one], of)
            return
        value = self._source.fresh()
        self._source.line(f"{value} = {_get(one, of)}")
        if one.may_be_null(self._version):
            with self._source.block(f"if {value} is None:"):
                self._source.line(f"add({self._null_of(one.kind)!r})")
            with self._source.block("else:"):
                if isinstance(one.kind, Struct):
                    self._source.line(f"add({PRESENT!r})")
                self._present(one.kind, value, path)
        else:
            self._present(one.kind, value, path)

    def _null_of(self, kind: Kind | Struct | Array) -> bytes:
        if isinstance(kind, Struct):
            return ABSENT
        return self._null_string if kind is STRING else self._absent

    def _present(self, kind: Kind | Struct | Array, value: str, path: str) -> None:
        if kind is STRING:
            self._source.line(f"add({'compact_' * self._flexible}string({value}))")
        elif kind is BYTES:
            self._source.line(f"add({self._size}(len({value})))")
            self._source.line(f"add({value})")
        elif kind is RECORDS:
            self._source.line(f"add_records({value}, out, done, {self._size})")
        elif isinstance(kind, Struct):
            self._struct(kind, value, path)
        else:
            assert isinstance(kind, Array)
            self._array(kind, value, path)

    def _array(self, kind: Array, value: str, path: str) -> None:
        self._source.line(f"add({self._size}(len({value})))")
        element = self._source.fresh()
        if isinstance(kind.of, Kind) and kind.of.size_bytes is not None:
            if kind.of is UUID:
                self._source.line(f"assert all(len({element}) == 16 for {element} in {value}), 'a uuid has 16 bytes'")
                self._source.line(f"add(b''.join({value}))")
            else:
                self._source.line(f"add(pack(f'>{{len({value})}}{kind.of.value}', *{value}))")
            return
        with self._source.block(f"for {element} in {value}:"):
            self._present(kind.of, element, path + "[]")

    def _tagged(self, schema: Struct, of: str, path: str) -> None:
        known = tagged_fields_of(schema, self._version)
        tags = self._source.fresh()
        if not known:
            self._source.line(f"{tags} = get_{of}({UNKNOWN_TAGS!r})")
        else:
            self._source.line(f"{tags} = dict(get_{of}({UNKNOWN_TAGS!r}, ()))")
            kept = self._source.fresh()
            for one in known:
                assert one.kind is not RECORDS, "records are never tagged"
                with self._source.block(f"if {_differs(one, of)}:"):
                    self._source.line(f"{kept} = out")
                    self._source.line("out = []")
                    self._source.line("add = out.append")
                    self._value(one, of, _join(path, one.name))
                    self._source.line(f"{tags}[{one.tag}] = b''.join(out)")
                    self._source.line(f"out = {kept}")
                    self._source.line("add = out.append")
        self._source.line(f"add(encode_tags({tags}) if {tags} else b'\\0')")


def _get(one: Field, of: str) -> str:
    """Source of the field's value in the dict ``of``, or its default."""
    return f"get_{of}({one.name!r}, {one.default_source()})"


def _differs(one: Field, of: str) -> str:
    """Source of a condition: the field's value in the dict ``of`` is not its default."""
    value = _get(one, of)
    if isinstance(one.kind, Struct):
        inner = f"{value}.get"
        parts = [f"{inner}({part.name!r}, {part.default!r}) != {part.default!r}" for part in one.kind.fields]
        return " or ".join([*parts, f"{inner}({UNKNOWN_TAGS!r})"])
    if isinstance(one.kind, Array):  # by its length, since any sequence will do
        if not one.nullable:
            return f"len({value})"
        return f"{value} is not None" if one.default is None else f"{value} is None or len({value})"
    return f"{value} != {one.default!r}"


def _has_records(schema: Struct) -> bool:
    """Whether a struct has records at any depth."""
    kinds = [one.kind for one in schema.fields]
    kinds = [kind.of if isinstance(kind, Array) else kind for kind in kinds]
    return any(kind is RECORDS or (isinstance(kind, Struct) and _has_records(kind)) for kind in kinds)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
