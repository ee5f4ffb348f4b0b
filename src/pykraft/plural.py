"""Counts in messages: "1 batch", "2 batches".

Invariant: the noun agrees with its count, so no message says "1 batches".
"""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """The count and its noun; ``plural`` by default is the noun with an s, or with es after ch."""
    many = plural or (f"{noun}es" if noun.endswith("ch") else f"{noun}s")
    return f"{count:,} {noun if count == 1 else many}"
