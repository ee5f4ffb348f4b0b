"""What an application passes in, checked before it reaches the node: what is wrong is the caller's error, no more.

Types are checked by tools, too, but not every program is; what the core is given must be what it says. Invariant: what
is returned is a plain whole number within its bounds. It refuses to know what the numbers mean.
"""

from __future__ import annotations

from pykraft.errors import UsageError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def whole_number(name: str, value: object, *, least: int, most: int = INT64_MAX) -> int:
    """The value, if it is a whole number from ``least`` to ``most``, both inclusive. Errors: UsageError."""
    if type(value) is not int or not least <= value <= most:
        raise UsageError(f"{name} = {value!r}: it is a whole number from {least} to {most}")
    return value


def epoch_number(value: object) -> int:
    """An epoch; one that is negative is let through, as older than all others. Errors: UsageError."""
    return whole_number("epoch", value, least=-INT32_MAX, most=INT32_MAX)
