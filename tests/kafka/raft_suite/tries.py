"""The tries of Kafka's simulation tests: a constant of their annotations, changed in a copy of the class file.

    magic, minor, major      8 bytes; then the count of constants, uint16, one more than there are
    constant                 tag uint8, then: 1 text with uint16 length, 3 int32, 5 and 6 eight bytes and two numbers

Invariant: only the one int constant with the value of the annotations changes.

Source: the Java Virtual Machine Specification, §4.4.
"""

import struct
from typing import Final

DEFAULT: Final = 100
_SIZES: Final = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
_TEXT: Final = 1
_INT: Final = 3
_WIDE: Final = (5, 6)


def with_tries(class_file: bytes, tries: int) -> bytes:
    """The class with so many tries for each property. Errors: ValueError for one without that constant."""
    (count,) = struct.unpack_from(">H", class_file, 8)
    position, number = 10, 1
    while number < count:
        tag = class_file[position]
        if tag == _INT and struct.unpack_from(">i", class_file, position + 1) == (DEFAULT,):
            return class_file[: position + 1] + struct.pack(">i", tries) + class_file[position + 5 :]
        size = 2 + struct.unpack_from(">H", class_file, position + 1)[0] if tag == _TEXT else _SIZES[tag]
        position += 1 + size
        number += 2 if tag in _WIDE else 1
    raise ValueError(f"no constant {DEFAULT} in this class")
