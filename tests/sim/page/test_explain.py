"""Every oracle is explained in plain words, and so is a failure without an oracle."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ALL
from pykraft.sim.page.explain import explain

NAMES = (*(oracle.__name__ for oracle in ALL), "Liveness")


@pytest.mark.parametrize("name", NAMES)
def test_an_oracle_is_explained(name: str) -> None:
    explained = explain(f"ViolationError: {name}: node 2 speaks of epoch 3: its disk knows 2, node 2 and leader 1")
    assert explained.title == f"{name} was violated"
    assert explained.seen == "node 2 speaks of epoch 3: its disk knows 2, node 2 and leader 1"
    assert explained.nodes == (2, 1)
    for text in (explained.rule, explained.why, explained.source):
        assert len(text) > 3
        assert "\n" not in text
        assert "`" not in text


def test_an_error_of_the_code_is_explained_as_one() -> None:
    explained = explain("AssertionError: offsets have a gap: 3 after 1")
    assert explained.title == "A node failed with AssertionError"
    assert explained.seen == "offsets have a gap: 3 after 1"
    assert explained.nodes == ()


def test_an_oracle_that_nobody_knows_is_no_error() -> None:
    assert explain("ViolationError: Unheard: of").rule
