"""Arrow columns of NumPy arrays and Python values, and back, without pandas.

pyarrow imports pandas with the first value that it converts: 0.4 s and 40 MiB in each of Spark's Python processes. So
the columns are made of Arrow's own buffers. Invariant: a column equals the one that ``pa.array`` makes of the same
values and type; of a slice of another column only the slice counts.

Source: Arrow's columnar format.
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

_NUMBERS = {pa.int32(): np.int32, pa.int64(): np.int64}


def array_column(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """A column without nulls of numbers, whose NumPy type has the width of ``kind``, or of booleans."""
    if kind == pa.bool_():
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(bits)])
    assert values.dtype.itemsize * 8 == kind.bit_width, f"{values.dtype} is not {kind}"
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def number_column(values: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    """A column of int32 or int64. Errors: OverflowError for a number that does not fit."""
    cells = np.array([0 if value is None else value for value in values], dtype=_NUMBERS[kind])
    return pa.Array.from_buffers(kind, len(values), [_validity(values), pa.py_buffer(cells)])


def bytes_column(values: Sequence[bytes | None]) -> pa.BinaryArray:
    cells = [value or b"" for value in values]
    buffers = [_validity(values), _edges(cells), pa.py_buffer(b"".join(cells))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def text_column(values: Sequence[str | None]) -> pa.StringArray:
    """A column of string. Errors: UnicodeEncodeError for a text that is not Unicode."""
    encoded = bytes_column([None if value is None else value.encode() for value in values])
    return pa.Array.from_buffers(pa.string(), len(values), encoded.buffers())


def list_column(values: Sequence[Sequence[int] | None]) -> pa.ListArray:
    """A column of lists of int32. Errors: as `number_column`."""
    cells = [value or () for value in values]
    items = number_column([item for cell in cells for item in cell], pa.int32())
    kind = pa.list_(pa.int32())
    return pa.Array.from_buffers(kind, len(values), [_validity(values), _edges(cells)], children=[items])


def true_cells(column: pa.BooleanArray) -> np.ndarray:
    """Which cells are true, and not null."""
    valid, values = column.buffers()
    are_true = _bits(values, column)
    return are_true if valid is None else are_true & _bits(valid, column)


def _bits(buffer: pa.Buffer | None, column: pa.Array) -> np.ndarray:
    end = column.offset + len(column)
    found = np.unpackbits(np.frombuffer(buffer or b"", dtype=np.uint8), count=end, bitorder="little")
    return found[column.offset :].astype(bool)


def _validity(values: Sequence[object]) -> pa.Buffer | None:
    """A bit for each value, set unless it is null; no buffer if none is."""
    if None not in values:
        return None
    return pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))


def _edges(cells: Sequence[Sequence[object]]) -> pa.Buffer:
    return pa.py_buffer(np.fromiter(accumulate(map(len, cells), initial=0), dtype=np.int32, count=len(cells) + 1))
