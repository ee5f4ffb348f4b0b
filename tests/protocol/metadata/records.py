"""Metadata records as bytes, written from the tables: the package itself only reads them."""

from pykraft.protocol.metadata.record import FRAME_VERSION, metadata_tables, type_name
from pykraft.protocol.metadata.tables import TABLES
from pykraft.protocol.primitives import encode_uvarint
from pykraft.protocol.schema import Array, Body, Kind, Struct
from tests.protocol.bodies import write

NUMBERS = {type_name(number): number for number in TABLES}
ALL = [
    (name, version)
    for name, table in metadata_tables().items()
    for version in range(table.versions.min, table.versions.max + 1)
]
"""Every type in every version."""


def encoded(name: str, version: int, body: Body) -> bytes:
    """The value of a record of the log."""
    head = b"".join(map(encode_uvarint, (FRAME_VERSION, NUMBERS[name], version)))
    return write(TABLES[NUMBERS[name]], version, body, head)


def full_body(name: str, version: int) -> Body:
    """A body that has all fields of its version, none of them at its default."""
    return _struct(TABLES[NUMBERS[name]].body, version)


def _struct(schema: Struct, version: int) -> Body:
    return {
        one.name: _value(one.kind, version, index) if version in one.present else one.default
        for index, one in enumerate(schema.fields, 2)
    }


def _value(kind: Kind | Struct | Array, version: int, index: int) -> object:
    match kind:
        case Struct():
            return _struct(kind, version)
        case Array(of):
            return [_value(of, version, index), _value(of, version, index + 1)]
        case Kind.STRING:
            return f'tëxt "{index}"\n'
        case Kind.BYTES:
            return bytes(range(index))
        case Kind.UUID:
            return index.to_bytes(16) if index % 2 else (2**128 - index).to_bytes(16)
        case Kind.BOOL:
            return index % 2 == 0
        case Kind.FLOAT64:
            return 1e20 / index
        case Kind.INT64:
            return 2**62 + index
        case Kind.UINT16:
            return 2**16 - index
        case _:
            return index
