"""Tells whether the hot modules of this package are compiled (`compiled`, ADR 116).

Source: mypyc's ``group_name``, which names the module with the shared code.
"""

from __future__ import annotations

from importlib.util import find_spec


def is_compiled() -> bool:
    """Whether the hot modules of this package run as machine code."""
    return find_spec("pykraft__mypyc") is not None


def kind_of_modules() -> str:
    """The same for a person."""
    return "compiled" if is_compiled() else "plain Python"
