"""Generates the function that reads one version of one message.

This module turns a schema table into straight-line code: it unpacks runs of fixed-size fields at once and reads the
rest with `primitives`. The function is ``read(buf, p, end) -> (body, position)``: ``buf`` holds a frame, the body
begins at ``p``, and ``end`` is the frame's end. Invariants of the code: it looks at no byte at or after ``end``. It
compares each length and count with the remaining bytes before it allocates anything. Whatever the bytes are, it raises
only `ProtocolError`; `TooManyElementsError` comes before the first element of an array that is too long. A field that
the version lacks is in the body with its default. Tagged fields that the schema does not know are kept under
`primitives.UNKNOWN_TAGS`, which is absent when there are none, or skipped.

Source: Kafka protocol guide; KIP-482.
"""

import struct
from collections.abc import Callable
from typing import TypeAlias

from pykraft.errors import ProtocolError
from pykraft.protocol import primitives
from pykraft.protocol.primitives import UNKNOWN_TAGS
from pykraft.protocol.schema import (
    BYTES,
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
    size_bytes_min,
    tagged_fields_of,
)
from pykraft.types import Buffer

Read: TypeAlias = Callable[[Buffer, int, int], tuple[Body, int]]


def compile_reader(message: Message, version: int, *, keeps_unknown_tags: bool = True) -> Read:
    """The function that reads this version of the message.

    Callers that do not need unknown tagged fields should not keep them: a stranger may send many.
    """
    assert version in message.versions, f"{message.name} has no version {version}"
    return _ReaderSource(message, version, keeps_unknown_tags=keeps_unknown_tags).build()


def _run_cut_off(run: tuple[tuple[str, int], ...], position: int, end: int) -> ProtocolError:
    """The error for the first field of a run, each (what, size in bytes), that does not fit."""
    fields = iter(run)
    what, size_bytes = next(fields)
    while size_bytes <= end - position:
        position += size_bytes
        what, size_bytes = next(fields)
    return primitives.cut_off(what, position, size_bytes, end)


def _tag_misfit(what: str, tag: int, position: int, data_end: int) -> ProtocolError:
    """The error for a tagged field whose size differs from its value's."""
    return ProtocolError(f"{what}: tag {tag} ends at position {data_end}, its value at {position}")


_NAMES: dict[str, object] = {
    "read_size": primitives.read_compact_size,
    "read_int16": primitives.read_int16,
    "read_int32": primitives.read_int32,
    "read_text": primitives.read_text,
    "read_view": primitives.read_view,
    "read_tag": primitives.read_tag,
    "read_tags_count": primitives.read_tags_count,
    "read_unknown_tags": primitives.read_unknown_tags,
    "skip_tags": primitives.skip_tags,
    "check_count": primitives.check_count,
    "check_count_max": primitives.check_count_max,
    "unpack_from": struct.unpack_from,
    "run_cut_off": _run_cut_off,
    "tag_misfit": _tag_misfit,
}


class _ReaderSource:
    """Writes the function; ``path`` names a field, such as ``topics[].partitions[].leader_id``."""

    def __init__(self, message: Message, version: int, *, keeps_unknown_tags: bool) -> None:
        self._message = message
        self._version = version
        self._keeps_unknown_tags = keeps_unknown_tags
        self._flexible = version in message.flexible
        self._source = FunctionSource("read(buf, p, end)")

    def build(self) -> Read:
        body = self._struct(self._message.body, "")
        self._source.line(f"return {body}, p")
        return self._source.build("read", f"read {self._message.name} v{self._version}", _NAMES)

    def _what(self, path: str) -> str:
        return (
            f"{self._message.name} v{self._version} field {path}" if path else f"{self._message.name} v{self._version}"
        )

    def _struct(self, schema: Struct, path: str) -> str:
        found = {one.name: one.default_source() for one in schema.fields}
        run: list[tuple[Field, str]] = []
        for one in fields_of(schema, self._version):
            if isinstance(one.kind, Kind) and one.kind.size_bytes is not None:
                found[one.name] = self._source.fresh()
                run.append((one, found[one.name]))
            else:
                self._run(run, path)
                run = []
                found[one.name] = self._value(one, _join(path, one.name))
        self._run(run, path)
        target = self._source.fresh()
        entries = ", ".join(f"{name!r}: {value}" for name, value in found.items())
        self._source.line(f"{target} = {{{entries}}}")
        if self._flexible:
            self._tagged(schema, target, path)
        return target

    def _run(self, run: list[tuple[Field, str]], path: str) -> None:
        """Unpack neighboring fixed-size fields at once."""
        if not run:
            return
        kinds = [one.kind for one, _ in run if isinstance(one.kind, Kind)]
        layout = struct.Struct(">" + "".join(kind.value for kind in kinds))
        sizes = tuple(
            (self._what(_join(path, one.name)), kind.size_bytes) for (one, _), kind in zip(run, kinds, strict=True)
        )
        with self._source.block(f"if end - p < {layout.size}:"):
            self._source.line(f"raise run_cut_off({self._source.constant(sizes)}, p, end)")
        names = ", ".join(name for _, name in run)
        self._source.line(f"{names}, = {self._source.constant(layout.unpack_from)}(buf, p)")
        self._source.line(f"p += {layout.size}")

    def _value(self, one: Field, path: str) -> str:
        """Read a field that is not part of a run; returns the local name of its value."""
        match one.kind:
            case Struct() if one.may_be_null(self._version):
                sign, target = self._source.fresh(), self._source.fresh()
                self._run([(Field(one.name, Kind.INT8), sign)], path.rpartition(".")[0])
                with self._source.block(f"if {sign} < 0:"):
                    self._source.line(f"{target} = None")
                with self._source.block("else:"):
                    self._source.line(f"{target} = {self._struct(one.kind, path)}")
                return target
            case Struct():
                return self._struct(one.kind, path)
            case Kind(size_bytes=int()):
                name = self._source.fresh()
                self._run([(one, name)], path.rpartition(".")[0])
                return name
        what = self._source.constant(self._what(path))
        target = self._source.fresh()
        self._size(one.kind, what)
        if one.may_be_null(self._version):
            with self._source.block("if n == -1:"):
                self._source.line(f"{target} = None")
            with self._source.block("else:"):
                self._sized(one.kind, target, what, path)
        else:
            self._sized(one.kind, target, what, path)
        return target

    def _size(self, kind: Kind | Array, what: str) -> None:
        """Read a length or count into ``n``, -1 for null."""
        if not self._flexible:
            self._source.line(f"n, p = {'read_int16' if kind is STRING else 'read_int32'}(buf, p, end, {what})")
            return
        with self._source.block("if p < end and (n := buf[p]) < 128:"):
            self._source.line("n -= 1")
            self._source.line("p += 1")
        with self._source.block("else:"):
            self._source.line(f"n, p = read_size(buf, p, end, {what})")

    def _sized(self, kind: Kind | Array, target: str, what: str, path: str) -> None:
        if isinstance(kind, Array):
            self._array(kind, target, what, path)
            return
        self._text_or_bytes(kind, target, what)

    def _text_or_bytes(self, kind: Kind, target: str, what: str) -> None:
        """Read the value of a kind whose size varies, with the length ``n``."""
        read = "read_text" if kind is STRING else "read_view"
        value = f"{read}(buf, p, end, n, {what})"
        # Bytes are copied, so that they may outlive the frame; records are large, so those stay a view.
        self._source.line(f"{target} = {f'bytes({value})' if kind is BYTES else value}")
        self._source.line("p += n")

    def _array(self, kind: Array, target: str, what: str, path: str) -> None:
        element_size = size_bytes_min(kind.of, self._version, flexible=self._flexible)
        # Compare the count with the remaining bytes before any element is made.
        with self._source.block(f"if n < 0 or n * {element_size} > end - p:"):
            self._source.line(f"check_count(n, p, end, {element_size}, {what})")
        with self._source.block(f"if n > {kind.count_max}:"):
            self._source.line(f"check_count_max(n, p, {kind.count_max}, {what})")
        if isinstance(kind.of, Kind) and kind.of.size_bytes is not None:
            if kind.of is UUID:  # the format of `struct` cannot say so many times 16 bytes
                self._source.line(f"{target} = [bytes(buf[at : at + 16]) for at in range(p, p + n * 16, 16)]")
            else:
                self._source.line(f"{target} = list(unpack_from(f'>{{n}}{kind.of.value}', buf, p))")
            self._source.line(f"p += n * {element_size}")
            return
        self._source.line(f"{target} = []")
        with self._source.block("for _ in range(n):"):
            if isinstance(kind.of, Kind):
                element = self._source.fresh()
                self._size(kind.of, what)
                self._text_or_bytes(kind.of, element, what)
            else:
                element = self._struct(kind.of, path + "[]")
            self._source.line(f"{target}.append({element})")

    def _tagged(self, schema: Struct, target: str, path: str) -> None:
        what = self._source.constant(self._what(path))
        known = tagged_fields_of(schema, self._version)
        with self._source.block("if p < end and not buf[p]:"):
            self._source.line("p += 1")
        with self._source.block("else:"):
            unknown = self._source.fresh()
            if known:
                self._known_tags(known, unknown, target, path)
            elif self._keeps_unknown_tags:
                self._source.line(f"{unknown}, p = read_unknown_tags(buf, p, end, {what})")
            else:
                self._source.line(f"p = skip_tags(buf, p, end, {what})")
            if self._keeps_unknown_tags:
                with self._source.block(f"if {unknown}:"):
                    self._source.line(f"{target}[{UNKNOWN_TAGS!r}] = {unknown}")

    def _known_tags(self, known: list[Field], unknown: str, target: str, path: str) -> None:
        line, block = self._source.line, self._source.block
        what = self._source.constant(self._what(path))
        count, tag, data_end = self._source.fresh(), self._source.fresh(), self._source.fresh()
        line(f"{count}, p = read_tags_count(buf, p, end, {what})")
        if self._keeps_unknown_tags:
            line(f"{unknown} = {{}}")
        line(f"{tag} = -1")
        with block(f"for _ in range({count}):"):
            line(f"{tag}, p, {data_end} = read_tag(buf, p, end, {tag}, {what})")
            for one in known:
                with block(f"{'if' if one is known[0] else 'elif'} {tag} == {one.tag}:"):
                    value = self._value(one, _join(path, one.name))
                    line(f"{target}[{one.name!r}] = {value}")
            with block("else:"):
                if self._keeps_unknown_tags:
                    line(f"{unknown}[{tag}] = bytes(buf[p:{data_end}])")
                line(f"p = {data_end}")
            with block(f"if p != {data_end}:"):
                line(f"raise tag_misfit({what}, {tag}, p, {data_end})")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
