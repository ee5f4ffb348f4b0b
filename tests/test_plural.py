"""Counts agree with their nouns."""

from __future__ import annotations

import pytest

from pykraft.plural import counted


@pytest.mark.parametrize(
    ("count", "noun", "plural", "text"),
    [
        (1, "batch", None, "1 batch"),
        (2, "batch", None, "2 batches"),
        (0, "segment", None, "0 segments"),
        (1, "other entry", "other entries", "1 other entry"),
        (3, "other entry", "other entries", "3 other entries"),
        (1_234, "row", None, "1,234 rows"),
    ],
)
def test_the_noun_agrees_with_its_count(count: int, noun: str, plural: str | None, text: str) -> None:
    assert counted(count, noun, plural) == text
