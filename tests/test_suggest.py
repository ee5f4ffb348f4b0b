"""Suggestions for misspelled names."""

from __future__ import annotations

import pytest

from pykraft.suggest import closest, did_you_mean


@pytest.mark.parametrize(
    ("word", "name"), [("sever", "server"), ("dmup", "dump"), ("serv", "server"), ("xyz", None), ("", None)]
)
def test_only_a_similar_name_is_suggested(word: str, name: str | None) -> None:
    assert closest(word, iter(["dump", "server", "sim"])) == name


def test_the_words_for_a_message() -> None:
    assert did_you_mean("sever", ["server"]) == "; did you mean server?"
    assert did_you_mean("sever", ["dump"]) == ""


def test_how_similar_a_name_must_be_is_the_callers_choice() -> None:
    assert closest("num.partitions", ["num.io.threads"], similarity_min=0.3) == "num.io.threads"
    assert closest("num.partitions", ["num.io.threads"], similarity_min=0.8) is None
